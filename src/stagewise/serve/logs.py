"""Logs a program can read: a JSON object a line on standard error."""

import logging
import sys
import time
from typing import Any

import msgspec


class JsonLines(logging.Formatter):
    """A record as one line of JSON; of an exception its type and message, never a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["exception"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        return msgspec.json.encode(fields).decode()


def set_up_logs(requests: bool) -> None:
    """Send our own lines and uvicorn's to standard error; those about requests where asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("stagewise.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "stagewise.serve" else logging.WARNING)
    logging.getLogger("stagewise.serve.access").setLevel(
        logging.INFO if requests else logging.WARNING
    )
