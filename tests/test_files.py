"""Files are written whole or not at all, and every failure is one sentence."""

import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from stagewise.errors import StagewiseError
from stagewise.files import decode_json, decode_json_lines, read_bytes, write_bytes, writing


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_what_is_written_is_there(tmp_path):
    path = tmp_path / "out.bin"
    write_bytes(path, b"one")
    assert path.read_bytes() == b"one"
    with writing(str(path)) as stream:
        stream.write(b"two")
        stream.write(b" and three")
        # Until the block ends a reader sees the old file.
        assert path.read_bytes() == b"one"
    assert read_bytes(path) == b"two and three"
    assert names(tmp_path) == ["out.bin"]


@pytest.mark.parametrize("before", [None, b"old"])
@pytest.mark.parametrize("error", [RuntimeError("halfway"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_inside_leaves_no_trace(tmp_path, before, error):
    path = tmp_path / "out.bin"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(type(error)) as caught, writing(path) as stream:
        stream.write(b"half")
        raise error
    assert caught.value is error
    assert names(tmp_path) == ([] if before is None else ["out.bin"])
    assert before is None or path.read_bytes() == before


def no_space(*arguments: object, **options: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("before", [None, b"old"])
@pytest.mark.parametrize("function", ["fsync", "replace", "chmod"])
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, function, before):
    path = tmp_path / "out.bin"
    if before is not None:
        path.write_bytes(before)
    with monkeypatch.context() as patch:
        patch.setattr(os, function, no_space)
        with pytest.raises(StagewiseError) as error:
            write_bytes(path, b"new")
    assert str(error.value) == f"{path}: cannot be written: No space left on device"
    assert names(tmp_path) == ([] if before is None else ["out.bin"])
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize("size", [10, 10_000_000])
def test_a_write_that_fails(tmp_path, monkeypatch, size):
    """Small content fails when it is flushed, large content while it is written."""

    class Full:
        def __init__(self, stream) -> None:
            self.stream = stream

        def write(self, content: bytes) -> int:
            no_space()
            return 0

        def __getattr__(self, name: str):
            return getattr(self.stream, name)

        def __enter__(self):
            return self

        def __exit__(self, *exception: object) -> None:
            self.stream.close()

    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    true_fdopen = os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda *a, **k: Full(true_fdopen(*a, **k)))
    with pytest.raises(StagewiseError, match="No space left on device"):
        write_bytes(path, b"x" * size)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["out.bin"]


def test_a_disk_that_is_really_full():
    """/dev/full takes nothing."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(StagewiseError, match="/dev/full: cannot be written: No space left"):
        write_bytes("/dev/full", b"x" * 100_000)


def test_a_folder_that_takes_no_file(tmp_path, monkeypatch):
    def forbidden(*arguments: object, **options: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "mkstemp", forbidden)
    with pytest.raises(StagewiseError) as error:
        write_bytes(tmp_path / "out.bin", b"new")
    assert str(error.value) == f"{tmp_path / 'out.bin'}: cannot be written: Permission denied"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_without_write_permission(tmp_path):
    (tmp_path / "out.bin").write_bytes(b"old")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StagewiseError, match="cannot be written: Permission denied"):
            write_bytes(tmp_path / "out.bin", b"new")
    finally:
        tmp_path.chmod(0o700)
    assert (tmp_path / "out.bin").read_bytes() == b"old"


def test_targets_that_cannot_be(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    cases = {
        tmp_path: "it is a directory",
        tmp_path / "missing" / "out": "No such file or directory",
        tmp_path / "file" / "out": "Not a directory",
        tmp_path / ("n" * 300): "File name too long",
    }
    for path, reason in cases.items():
        with pytest.raises(StagewiseError) as error:
            write_bytes(path, b"new")
        assert str(error.value) == f"{path}: cannot be written: {reason}"
    assert names(tmp_path) == ["file"]


def test_sources_that_cannot_be(tmp_path):
    for path, reason in {
        tmp_path: "Is a directory",
        tmp_path / "missing": "No such file or directory",
        "nul\0byte": "embedded null byte",
        "": "",
    }.items():
        with pytest.raises(StagewiseError, match=f"cannot be read: .*{reason}"):
            read_bytes(path)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_are_those_of_any_new_file(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_bytes(tmp_path / "out.bin", b"new")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.bin").stat().st_mode) == mode


def test_a_pipe_is_written_to_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_bytes(pipe, b"through")
    reader.join()
    assert received == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_stays_what_it_is():
    write_bytes(os.devnull, b"away")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116


def test_the_standard_streams():
    program = "from stagewise.files import *; write_bytes('-', read_bytes('-')[::-1])"
    done = subprocess.run(
        [sys.executable, "-c", program], input=b"\xff\x00abc", capture_output=True, check=True
    )
    assert done.stdout == b"cba\x00\xff"


DECODERS: list[Callable[[bytes], object]] = [
    lambda content: decode_json(content, dict[str, int], "f.json"),
    lambda content: decode_json_lines(content, dict[str, int], "f.json"),
]


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b'{"a": 1} x',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'{"a": 1.5}',
        b'{"a": null}',
        b"[]",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\x00",
        b"\xef\xbb\xbf{}",
        b"9" * 10_000,
    ],
)
def test_content_that_cannot_be_decoded(decode, content):
    with pytest.raises(StagewiseError) as error:
        decode(content)
    assert str(error.value).startswith("f.json: ")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_lines_are_counted_with_the_blank_ones():
    assert decode_json_lines(b'\n{"a": 1}\r\n\n  \n{"b": 2}', dict[str, int], "f") == [
        {"a": 1},
        {"b": 2},
    ]
    with pytest.raises(StagewiseError, match=r"f: line 3: \[?"):
        decode_json_lines(b'{"a": 1}\n\n{"a": "x"}\n', dict[str, int], "f")


def test_an_error_names_the_field_the_value_and_the_rule():
    with pytest.raises(StagewiseError, match=r"^f: \[1\] = 'x': expected `int`"):
        decode_json(b'[1, "x"]', list[int], "f")


FIRST_USE = """
import sys, threading
from typing import Literal
import msgspec
from stagewise.files import decode_json
from stagewise.toml import converted

CONTENT = {"a": {"x": 1, "z": ["s"]}, "b": [{"x": 2}], "c": "q"}


def use_a_new_type_at_once():
    class A(msgspec.Struct, forbid_unknown_fields=True):
        x: int = 0
        y: dict[str, float] | None = None
        z: list[str] = []

    class B(msgspec.Struct, kw_only=True):
        a: A
        b: list[A] = []
        c: Literal["p", "q"] = "p"

    def use(number):
        barrier.wait()
        if number % 2:
            found.append(converted(CONTENT, B, "test"))
        else:
            found.append(decode_json(msgspec.json.encode(CONTENT), B, "test"))

    found, barrier = [], threading.Barrier(6)
    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and all(one == found[0] for one in found)


sys.setswitchinterval(1e-6)
for _ in range(200):
    use_a_new_type_at_once()
"""


def test_threads_may_be_the_first_at_once_to_decode_a_type():
    """With msgspec alone the process ends by signal 11, within some twenty types."""
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
