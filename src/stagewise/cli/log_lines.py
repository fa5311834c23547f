"""What the library logs while a command runs, for whoever waits for it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def print_status(message: str) -> None:
    """Print a line on standard error."""
    print(message, file=sys.stderr)


@contextmanager
def log_lines_to(show: Callable[[str], None], source: str) -> Iterator[None]:
    """Hand every line that the module `source` logs to `show`."""
    import logging

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            show(record.getMessage())

    logger, handler = logging.getLogger(source), Lines()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
