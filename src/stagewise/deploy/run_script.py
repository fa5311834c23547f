"""`run.sh`: everything that one machine of a site runs, as a script to read, to run and to change."""

import shlex
from itertools import count
from pathlib import Path

from stagewise.deploy.programs import ENVIRONMENT, Command, Programs, Server, register_command
from stagewise.deploy.site import Site

NODE_PORT = 9400
"""SuperNodes talk to their executors on loopback, each on a port of its own from here on."""

_HEAD = r"""#!/usr/bin/env bash
# On {host}: {roles}.
#
# Needs `stagewise-hfl[deploy]` on the PATH. Ctrl-C or SIGTERM ends everything this script started; what
# the programs print is in logs/. The folder holds this machine's keys: keep it to yourself.

set -euo pipefail
cd "$(dirname "$0")"
umask 077
mkdir -p logs
{environment}
export FLWR_HOME="$PWD/flower"  # and nothing in the home directory

# end SECONDS PID...: ask them to end, and kill those that have not after so long
end() {{
    kill "${{@:2}}" 2>/dev/null || true
    local left=$((5 * $1))
    while kill -0 "${{@:2}}" 2>/dev/null; do
        ((left--)) || kill -KILL "${{@:2}}" 2>/dev/null || true
        sleep 0.2
    done
}}

all=()
finish() {{
    trap - EXIT
    end 20 "${{all[@]}}"
}}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# keep NAME COMMAND...: in the background, its output in logs/NAME.log, and again whenever it ended; a
# node that is refused, because it is not registered yet or thought to be there still, must try again
keep() {{
    (
        trap 'end 15 "$child"; exit' TERM
        while true; do
            "${{@:2}}" & child=$!
            wait "$child" || true
            sleep 3 & child=$!
            wait "$child" || true
        done
    ) >>"logs/$1.log" 2>&1 &
    all+=($!)
}}
"""


def run_script(site: Site, host: str) -> str:
    """The script of `host`, for the folder that its files are in."""
    programs = Programs(site, host, Path(), count(NODE_PORT))
    members = [each for each in (site.cloud, *site.nodes) if each.host == host]
    roles = [member.role.replace("-", " ", 1) for member in members]
    environment = "\n".join(f"export {name}={value}" for name, value in ENVIRONMENT.items())
    lines = [_HEAD.format(host=host, roles=", ".join(roles), environment=environment)]
    for server in programs.servers():
        lines += _server(server)
    for worker in programs.workers():
        commands = [_shell(f"keep {name}", each) for name, each in worker.commands.items()]
        lines += [f"# {worker.about}", *commands[:-1], commands[-1] + "\n"]
    if host == site.cloud.host:
        coordinator = ["stagewise", "deploy", "up", "--site", ".", "--out", "run"]
        lines += [
            "# The coordinator: who trains where, round by round. Started again, it goes on.",
            _shell("", coordinator) + " &",
            "all+=($!)",
        ]
    return "\n".join([*lines, "wait $!" if host == site.cloud.host else "wait"]) + "\n"


def _server(server: Server) -> list[str]:
    name = server.name.removesuffix("-superlink")
    register = register_command(server.at.address, server.authority, server.members)
    return [
        f"# The SuperLink of {name}: flower-superlink, which other machines can use as nodes only.",
        _shell(f"keep {server.name}", server.command) + "\n",
        "# Its nodes must be registered before they start; this waits until it is up.",
        _shell("", register) + "\n",
    ]


def _shell(prefix: str, command: Command) -> str:
    """The command as a shell reads it, an option to a line."""
    text = prefix
    for word in command:
        apart = " \\\n    " if word.startswith("--") or "=" in word else " "
        text += f"{apart if text else ''}{shlex.quote(word)}"
    return text
