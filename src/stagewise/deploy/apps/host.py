"""Everything that one machine runs: `python -m stagewise.deploy.apps.host FOLDER`.

Starts the programs of `programs.json` in the folder of a machine, starts them again when they end, and
ends them with itself. A second one in the same folder is refused. After SIGHUP it reads the list again.
"""

import argparse
import contextlib
import sys
from pathlib import Path

from stagewise.deploy.layout import PROGRAMS
from stagewise.deploy.programs import load_programs
from stagewise.deploy.supervisor import Supervisor
from stagewise.files import explained
from stagewise.runs.directory import lock


def arguments() -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(prog="stagewise-host", description="A machine's programs")
    parser.add_argument("folder", type=Path, help="of the machine, as `deploy init` wrote it")
    return parser.parse_args()


def main() -> None:
    folder = arguments().folder
    with contextlib.ExitStack() as stack:
        with explained(folder):
            stream = stack.enter_context((folder / "lock").open("ab"))
        lock(stream, folder)
        sys.exit(Supervisor(lambda: load_programs(folder / PROGRAMS), folder).run())


if __name__ == "__main__":
    from stagewise.deploy.running import run

    run(main)
