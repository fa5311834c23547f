"""The folder of a deployment on this machine, and its end; nothing is started."""

import stat
import sys

import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")

from deploy_cases import TASK, small_system

from stagewise.deploy import processes, remote
from stagewise.deploy.processes import LocalSite
from stagewise.errors import StagewiseError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs modes of files")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("exists", [False, True])
def test_only_the_owner_gets_into_the_folder(tmp_path, exists):
    folder = tmp_path / "runs" / "live.site"
    if exists:
        folder.mkdir(parents=True)
        folder.chmod(0o755)
    site = LocalSite(small_system(), "H", TASK, folder)
    assert mode(folder) == 0o700
    site._make_folders()
    private = [*folder.rglob("*.secret"), *folder.rglob("*.key")]
    assert len(private) > 10
    assert {mode(path) for path in private} == {0o600}


def test_a_start_that_was_killed_among_its_keys_is_no_hindrance(tmp_path):
    site = LocalSite(small_system(), "F", TASK, tmp_path)
    site._make_folders()
    first = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert all(first.values())
    (key,) = tmp_path.rglob("ca.key")
    key.write_bytes(b"")
    (secret,) = tmp_path.rglob("superlink.secret")
    secret.unlink()
    site._make_folders()
    again = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert first.keys() == again.keys()
    assert all(again.values())
    assert first[secret] != again[secret]


class Sleeper(LocalSite):
    """Starts one process, which sleeps."""

    def _start(self, deadline):
        self._make_folders()
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        self.children.start("sleeper", command)


class Link:
    """In place of a SuperLink; it may fail when it is closed."""

    failure = None

    def __init__(self, address, authority, secret):
        assert authority.is_file() and secret.is_file()

    def close(self):
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def alone(monkeypatch):
    """Without a SuperLink, and with nobody to wait for."""
    monkeypatch.setattr(remote, "SuperLink", Link)
    monkeypatch.setattr(processes, "wait_for_links", lambda *arguments: [])


@pytest.mark.processes
def test_processes_end_even_if_the_run_cannot(tmp_path, monkeypatch, alone):
    monkeypatch.setattr(Link, "failure", OSError("gone"))
    site = Sleeper(small_system(), "F", TASK, tmp_path)
    with pytest.raises(OSError, match="gone"), site.running(60.0):
        assert set(site.children.running()) == {"sleeper"}
    assert site.children.running() == {}


@pytest.mark.processes
def test_one_start_at_a_time_in_a_folder(tmp_path, alone):
    pytest.importorskip("fcntl")
    folder = tmp_path / "run.site"
    with Sleeper(small_system(), "F", TASK, folder).running(60.0):
        assert mode(folder) == 0o700
        again = Sleeper(small_system(), "F", TASK, folder)
        with (
            pytest.raises(StagewiseError, match="another process is running it"),
            again.running(60.0),
        ):
            pass
        assert again.children.running() == {}
    with Sleeper(small_system(), "F", TASK, folder).running(60.0):
        pass
