"""Folders, tars and zips read alike, and archives that want to do harm."""

import gzip
import io
import tarfile
import zipfile

import pytest
from small_files import tar_bytes, write_files, zip_bytes

from stagewise.datasets.file_tree import archive_stem, open_tree
from stagewise.errors import StagewiseError

FILES = {"b/two.bin": b"22" * 700, "a/one.bin": b"1", "top": b""}


def make(tmp_path, kind, files=FILES):
    if kind == "folder":
        write_files(tmp_path / "set", files)
        return tmp_path / "set"
    makers = {
        "tar": tar_bytes,
        "tar.gz": lambda files: tar_bytes(files, "w:gz"),
        "zip": zip_bytes,
    }
    path = tmp_path / f"set.{kind}"
    path.write_bytes(makers[kind](files))
    return path


@pytest.mark.parametrize("kind", ["folder", "tar", "tar.gz", "zip"])
def test_all_kinds_hold_the_same_files(tmp_path, kind):
    with open_tree(make(tmp_path, kind)) as tree:
        assert sorted(tree.names) == sorted(FILES)
        for name in [*tree.names, *reversed(tree.names)]:
            assert tree.read(name) == FILES[name]
        assert "a/one.bin" in tree.where("a/one.bin")


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a\\..\\..\\evil"])
def test_names_that_leave_the_archive(tmp_path, kind, name):
    path = make(tmp_path, kind, {"good": b"1", name: b"2"})
    with pytest.raises(StagewiseError, match="must stay inside the archive"), open_tree(path):
        pass


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_every_cut_is_noticed(tmp_path, kind):
    path = make(tmp_path, kind)
    content = path.read_bytes()
    end = len(content.rstrip(b"\0")) if kind == "tar" else len(content)
    for size in range(0, end, 29 if kind == "tar" else 1):
        path.write_bytes(content[:size])
        with pytest.raises(StagewiseError) as error, open_tree(path) as tree:
            for name in tree.names:
                tree.read(name)
        assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_flipped_bits_are_noticed_or_harmless(tmp_path, kind):
    path = make(tmp_path, kind)
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        try:
            with open_tree(path) as tree:
                found = {name: tree.read(name) for name in tree.names}
            # The list of files in a zip file is not under its checksums.
            assert set(found.values()) <= set(FILES.values())
            assert found == FILES or kind == "zip"
        except StagewiseError as error:
            assert "\n" not in str(error)


def test_a_broken_header_is_not_taken_for_the_end(tmp_path):
    path = make(tmp_path, "tar")
    content = bytearray(path.read_bytes())
    second = content.index(b"a/one.bin")
    content[second : second + 4] = b"XXXX"
    path.write_bytes(content)
    with pytest.raises(StagewiseError, match="damaged or cut short"), open_tree(path):
        pass


def test_links_and_devices_are_left_out(tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, kind in (("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        fifo = tarfile.TarInfo("pipe")
        fifo.type = tarfile.FIFOTYPE
        archive.addfile(fifo)
        archive.addfile(tarfile.TarInfo("file"))
    path = tmp_path / "links.tar"
    path.write_bytes(stream.getvalue())
    with open_tree(path) as tree:
        assert tree.names == ["file"]


def test_sizes_that_are_only_declared(tmp_path):
    member = tarfile.TarInfo("large")
    member.size = 2**40
    path = tmp_path / "large.tar"
    path.write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    with pytest.raises(StagewiseError), open_tree(path) as tree:
        tree.read("large")
    # An extended header of a terabyte, which the module would read whole.
    header = tarfile.TarInfo("header")
    header.type, header.size = tarfile.XHDTYPE, 2**40
    path.write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(10**6)))
    with pytest.raises(StagewiseError, match="must be at most"), open_tree(path):
        pass


def test_files_that_really_are_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr("stagewise.datasets.file_tree._LARGEST_FILE", 20_000)
    monkeypatch.setattr("stagewise.datasets.file_tree._LARGEST_PADDING", 20_000)
    for kind in ("folder", "tar", "zip"):
        path = make(tmp_path, kind, {"large": bytes(30_000)})
        message = "declares 30000 bytes: must be at most 20000"
        with pytest.raises(StagewiseError, match=message), open_tree(path) as tree:
            tree.read("large")


def test_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr("stagewise.datasets.file_tree._LARGEST_COUNT", 2)
    for kind in ("folder", "tar", "zip"):
        path = make(tmp_path, kind)
        with pytest.raises(StagewiseError, match="at most 2 files"), open_tree(path):
            pass


def test_an_encrypted_zip(tmp_path):
    path = make(tmp_path, "zip")
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        offset = archive.infolist()[0].header_offset
    content[offset + 6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(StagewiseError, match=r"cannot be read: .*encrypted"), open_tree(path) as t:
        t.read("b/two.bin")


def test_what_is_no_archive(tmp_path):
    with pytest.raises(StagewiseError, match="cannot be read"), open_tree(tmp_path / "absent"):
        pass
    (tmp_path / "text.tar").write_text("not an archive")
    with (
        pytest.raises(StagewiseError, match="not a valid archive"),
        open_tree(tmp_path / "text.tar"),
    ):
        pass


def test_names_of_archives(tmp_path):
    names = {"a.tar": "a", "a.b.tar.gz": "a.b", "A.TGZ": "A", "a.zip": "a", "a.txt": None}
    for name, stem in names.items():
        assert archive_stem(tmp_path / name) == stem
