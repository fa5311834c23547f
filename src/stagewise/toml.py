"""TOML: reading it with errors a person can act on, and the lines of its tables."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stagewise.errors import StagewiseError, one_line
from stagewise.files import read_bytes


def read_toml(path: str | Path) -> dict[str, Any]:
    """The fields of the file `path`."""
    try:
        return tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StagewiseError(f"{path}: not valid TOML: {one_line(str(error))}") from None


def toml_lines(fields: Mapping[str, Any]) -> list[str]:
    """A line for each field that is not None; the same fields give the same lines."""
    return [f"{name} = {_value(value)}" for name, value in fields.items() if value is not None]


def _value(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)
    # JSON's escapes are TOML's too; only DEL is allowed in JSON and not in TOML.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
