"""How a program of the deployment ends: one line for a user's mistake, quietly when interrupted."""

import signal
import sys
from collections.abc import Callable

from stagewise.errors import StagewiseError


def run(main: Callable[[], None]) -> None:
    """Call `main`; exit with 2 for a mistake and 130 for Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        main()
    except StagewiseError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
