"""Reading and writing files: whole or not at all, and with errors a person can act on."""

import contextlib
import gzip
import io
import os
import re
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from stagewise.errors import StagewiseError, one_line, shown

T = TypeVar("T")

STANDARD_STREAM = "-"
_GZIP_MAGIC = b"\x1f\x8b"


def read_bytes(path: str | Path) -> bytes:
    """The content of `path`; `-` is standard input."""
    if str(path) == STANDARD_STREAM:
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise StagewiseError(f"{path}: cannot be read: {_reason(error)}") from None


@contextlib.contextmanager
def unpacked(path: str | Path) -> Iterator[Any]:
    """A stream of the content of `path`, or of what gzip packed into it."""
    content = read_bytes(path)
    stream = io.BytesIO(content)
    try:
        yield gzip.GzipFile(fileobj=stream) if content.startswith(_GZIP_MAGIC) else stream
    except (OSError, EOFError, zlib.error):
        raise StagewiseError(f"{path}: not valid gzip: it is damaged or cut short") from None


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary stream that becomes `path` when the block ends well, and leaves no trace otherwise.

    `-` is standard output. The bytes go to a temporary file beside the target, are flushed to the
    disk and then renamed over it, so that a reader sees the old file or the new one, never a part.
    """
    if str(path) == STANDARD_STREAM:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with explained(path):
        target = Path(path)
        if target.is_symlink():  # write what it points to, not over it
            target = target.resolve()
        special = target.exists() and not target.is_file()
    if special:
        # A device or a pipe (/dev/null, a shell's process substitution) cannot be renamed over.
        if target.is_dir():
            raise StagewiseError(f"{path}: cannot be written: it is a directory")
        with explained(path), target.open("wb") as stream:
            yield stream
        return
    with explained(path):
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".part", dir=target.parent
        )
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            part = Path(name)
            part.chmod(0o666 & ~umask())
            part.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write `content` to `path` whole or not at all."""
    with writing(path) as stream:
        stream.write(content)


def json_lines(records: Iterable[object]) -> Iterator[bytes]:
    """Each of `records` as a line of JSON."""
    encoder = msgspec.json.Encoder()
    return (encoder.encode(record) + b"\n" for record in records)


def write_json_lines(path: str | Path, records: Iterable[object]) -> None:
    """Write a line of JSON for each of `records` to `path`, whole or not at all."""
    with writing(path) as stream:
        stream.writelines(json_lines(records))


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_first_use = threading.Lock()


def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type, for all threads.

    msgspec looks at a type when it is first used, and crashes where two threads are the first at once.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        with _first_use:
            decoder = _DECODERS.setdefault(kind, msgspec.json.Decoder(kind))
    return decoder


def convert(fields: Any, kind: type[T]) -> T:
    """`fields` as a `kind`, by msgspec, for all threads."""
    json_decoder(kind)
    return msgspec.convert(fields, kind)


def decode_json(content: bytes, kind: type[T], source: str) -> T:
    """`content` as a `kind`; the error names the source, the field, the value and the rule."""
    return _decode(content, json_decoder(kind).decode, source)


def decode_json_lines(content: bytes, kind: Any, source: str) -> list[Any]:
    """One `kind` for every line of `content`, blank lines aside."""
    decode = json_decoder(kind).decode
    return [
        _decode(line, decode, f"{source}: line {number}")
        for number, line in enumerate(content.split(b"\n"), start=1)
        if line.strip()
    ]


def _decode(content: bytes, decode: Callable[[bytes], T], source: str) -> T:
    try:
        return decode(content)
    except msgspec.ValidationError as error:
        raise StagewiseError(f"{source}: {_explain(str(error), content)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StagewiseError(f"{source}: not valid JSON: {one_line(str(error))}") from None
    except RecursionError:
        raise StagewiseError(f"{source}: not valid: nested too deeply") from None


def _explain(message: str, content: bytes) -> str:
    """msgspec's message with the field in front and the value it found."""
    rule, _, path = message.partition(" - at `$")
    path = path.removesuffix("`")
    if not path or "..." in path:
        return one_line(message)
    found = _value_at(content, path)
    value = "" if found is _MISSING else f" = {shown(found)}"
    return one_line(f"{path.lstrip('.')}{value}: {rule[:1].lower()}{rule[1:]}")


_MISSING = object()


def _value_at(content: bytes, path: str) -> object:
    try:
        node: Any = msgspec.json.decode(content)
    except (msgspec.MsgspecError, RecursionError):
        return _MISSING
    for name, index in re.findall(r"\.([A-Za-z_0-9]+)|\[(\d+)\]", path):
        try:
            node = node[name] if name else node[int(index)]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return _MISSING if isinstance(node, dict | list) else node


@contextlib.contextmanager
def explained(path: str | Path) -> Iterator[None]:
    """Say of an error of the operating system that `path` cannot be written, and why."""
    try:
        yield
    except OSError as error:
        raise StagewiseError(f"{path}: cannot be written: {_reason(error)}") from None


@contextlib.contextmanager
def errors_at(place: str | Path) -> Iterator[None]:
    """Say of a user's mistake in which file, or where in it, it was found."""
    try:
        yield
    except StagewiseError as error:
        raise StagewiseError(f"{place}: {error}") from None


def _reason(error: Exception) -> str:
    return one_line((error.strerror if isinstance(error, OSError) else None) or str(error))


def umask() -> int:
    """The permissions that new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
