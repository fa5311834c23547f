"""TOML: reading it with errors a person can act on, and the lines of its tables."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from stagewise.errors import StagewiseError, one_line
from stagewise.files import convert, read_bytes


def read_toml(path: str | Path) -> dict[str, Any]:
    """The fields of the file `path`."""
    try:
        return tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StagewiseError(f"{path}: not valid TOML: {one_line(str(error))}") from None


T = TypeVar("T")


def converted(fields: Any, kind: type[T], source: str) -> T:
    """`fields` as a `kind`; the error is one line that begins with `source`."""
    try:
        return convert(fields, kind)
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$")
        field = place.removesuffix("`").lstrip(".")
        own = isinstance(error.__cause__, StagewiseError)  # these name their field themselves
        named = rule if own or not field else f"{field}: {rule}"
        raise StagewiseError(one_line(f"{source}{named}")) from None


def toml_lines(fields: Mapping[str, Any]) -> list[str]:
    """A line for each field that is not None; the same fields give the same lines."""
    return [f"{name} = {_value(value)}" for name, value in fields.items() if value is not None]


def _value(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)
    # JSON's escapes are TOML's too; only DEL is allowed in JSON and not in TOML.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
