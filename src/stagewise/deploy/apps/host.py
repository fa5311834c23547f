"""Everything that one machine runs: `python -m stagewise.deploy.apps.host FOLDER`.

Starts the programs of `programs.json` in the folder of a machine, starts them again when they end, and
ends them with itself. A second one in the same folder is refused. After SIGHUP it reads the list again.
"""

import argparse
import contextlib
import sys
from pathlib import Path

from stagewise.deploy.layout import PROGRAMS
from stagewise.deploy.programs import Program, load_programs
from stagewise.deploy.supervisor import Supervisor
from stagewise.files import explained
from stagewise.runs.directory import lock


def arguments() -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(prog="stagewise-host", description="A machine's programs")
    parser.add_argument("folder", type=Path, help="of the machine, as `deploy init` wrote it")
    parser.add_argument("--only", action="append", help="the name of one program; may be repeated")
    return parser.parse_args()


def main() -> None:
    given = arguments()

    def load() -> list[Program]:
        programs = load_programs(given.folder / PROGRAMS)
        return [each for each in programs if not given.only or each.name in given.only]

    with contextlib.ExitStack() as stack:
        if not given.only:
            with explained(given.folder):
                stream = stack.enter_context((given.folder / "lock").open("ab"))
            lock(stream, given.folder)
        sys.exit(Supervisor(load, given.folder).run())


if __name__ == "__main__":
    from stagewise.deploy.running import run

    run(main)
