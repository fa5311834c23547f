"""The folder of a deployment on this machine, and its end; nothing is started."""

import stat
import sys

import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")

from deploy_cases import small_system

from stagewise.deploy.processes import LocalSite

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs modes of files")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("exists", [False, True])
def test_only_the_owner_gets_into_the_folder(tmp_path, exists):
    folder = tmp_path / "runs" / "live.site"
    if exists:
        folder.mkdir(parents=True)
        folder.chmod(0o755)
    site = LocalSite(small_system(), "H", folder)
    assert mode(folder) == 0o700
    site._make_keys()
    assert mode(folder / "site.secret") == 0o600
    assert mode(folder / "authority" / "ca.key") == 0o600


@pytest.mark.parametrize("left", ["authority/ca.key", "server/server.key", "site.secret"])
def test_a_start_that_was_killed_among_its_keys_is_no_hindrance(tmp_path, left):
    (tmp_path / left).parent.mkdir(exist_ok=True)
    (tmp_path / left).write_bytes(b"")
    site = LocalSite(small_system(), "F", tmp_path)
    site._make_keys()
    first = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert all(first.values())
    site._make_keys()
    again = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert first.keys() == again.keys()
    assert first[tmp_path / "site.secret"] != again[tmp_path / "site.secret"]


def test_processes_end_even_if_the_run_cannot(tmp_path):
    class Link:
        def close(self):
            raise OSError("gone")

    site = LocalSite(small_system(), "F", tmp_path)
    site._link = Link()
    site._children.start("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"])
    with pytest.raises(OSError, match="gone"), site:
        assert set(site.processes()) == {"sleeper"}
    assert site.processes() == {}
