"""`run.sh`: starts everything that one machine of a site runs."""

from collections.abc import Sequence

from stagewise.deploy.programs import ENVIRONMENT, Program

_SCRIPT = r"""#!/usr/bin/env bash
# On {host}:
{programs}
#
# Needs `stagewise-hfl[deploy]` on the PATH. The command lines are in programs.json; each can be run by
# itself, or by a service manager. Whoever ends is started again, and it is said here. Ctrl-C, SIGTERM
# and SIGKILL end everything. What the programs print is in logs/. The folder holds this machine's keys:
# keep it to yourself.

set -euo pipefail
cd "$(dirname "$0")"
umask 077
{environment}
export FLWR_HOME="$PWD/flower"  # and nothing in the home directory
exec python -m stagewise.deploy.apps.host .
"""


def run_script(host: str, programs: Sequence[Program]) -> str:
    """The script of `host`, for the folder that its files are in."""
    return _SCRIPT.format(
        host=host,
        programs="\n".join(f"#   {each.name}: {each.about}" for each in programs),
        environment="\n".join(f"export {name}={value}" for name, value in ENVIRONMENT.items()),
    )
