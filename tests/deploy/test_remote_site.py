"""What the cloud of a site does before its first round: register its nodes, wait for the others."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the deploy extra is not installed")

from test_deploy_init import TASK, scenario_of
from test_site import three_hosts

from stagewise.deploy import remote as remote_module
from stagewise.deploy.apps import register
from stagewise.deploy.exchange import Presence
from stagewise.deploy.init import init_site
from stagewise.deploy.remote import remote_transport
from stagewise.errors import StagewiseError

ALL = {"c0": ("es0",), "c1": ("es0", "es1"), "c2": ("es1",)}


class FakeLink:
    closed = 0

    def __init__(self, address: str, authority: Path, secret: Path) -> None:
        assert address == "10.0.0.1:9092"
        assert authority.is_file() and secret.is_file()

    def close(self) -> None:
        FakeLink.closed += 1


class FakeTransport:
    """Answers polls as scripted, one after the other."""

    polls: list[dict[str, tuple[str, ...]] | StagewiseError]

    def __init__(self, scenario: object, link: FakeLink) -> None:
        pass

    def roll_call(self, deadline_s: float) -> Presence:
        found = FakeTransport.polls.pop(0)
        if isinstance(found, StagewiseError):
            raise found
        return Presence(found, {}, ("es0", "es1"))


class Clock:
    """Stands for the module `time`: moved by pauses alone."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cloud's folder, with Flower out of the way and a clock that pauses move."""
    monkeypatch.setattr(remote_module, "time", Clock())
    monkeypatch.setattr(remote_module, "SuperLink", FakeLink)
    monkeypatch.setattr(remote_module, "Hierarchical", FakeTransport)
    monkeypatch.setattr(FakeLink, "closed", 0)
    site = three_hosts()
    init_site(site, scenario_of(site), TASK, tmp_path / "site")
    return tmp_path / "site" / "hosts" / "10.0.0.1"


class TestWaiting:
    def test_it_begins_when_every_client_answers_through_every_edge(self, cloud: Path) -> None:
        one_link = ALL | {"c1": ("es0",)}
        FakeTransport.polls = [{}, one_link, ALL, ALL]
        with remote_transport(cloud) as transport:
            assert len(FakeTransport.polls) == 1
            assert isinstance(transport, FakeTransport)
        assert FakeLink.closed == 1

    def test_it_begins_without_some_after_a_while(self, cloud: Path) -> None:
        FakeTransport.polls = [{}] * 10
        with remote_transport(cloud, wait_s=5.0):
            assert len(FakeTransport.polls) == 5

    def test_a_failure_lets_go_of_the_superlink(self, cloud: Path) -> None:
        FakeTransport.polls = [StagewiseError("10.0.0.1:9092: the SuperLink: gone")]
        with pytest.raises(StagewiseError, match="gone"), remote_transport(cloud):
            pass
        assert FakeLink.closed == 1


@pytest.fixture
def server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


class TestRegister:
    def call(
        self, monkeypatch: pytest.MonkeyPatch, *words: str
    ) -> list[tuple[str, Path, Path, str]]:
        """What `register` registers when called so."""
        calls: list[tuple[str, Path, Path, str]] = []
        monkeypatch.setattr(register, "register_node", lambda *given: calls.append(given))
        monkeypatch.setattr(sys, "argv", ["register", *words])
        register.main()
        return calls

    def test_every_node_under_its_name(
        self, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = [tmp_path / "c0.pub", tmp_path / "b=c.pub"]
        for key in keys:
            key.touch()
        words = ["--superlink", server, "--root-certificates", "ca.pem"]
        calls = self.call(monkeypatch, *words, f"c0={keys[0]}", f"c1={keys[1]}")
        expected = [(keys[0], "c0"), (keys[1], "c1")]
        assert calls == [(server, Path("ca.pem"), key, name) for key, name in expected]

    @pytest.mark.parametrize("node", ["c0", "=key", "c0=", "c0=nonsense.pub"])
    def test_a_node_without_a_key(
        self, server: str, node: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(StagewiseError, match="must be NAME=KEY"):
            self.call(monkeypatch, "--superlink", server, "--root-certificates", "ca.pem", node)

    def test_a_superlink_that_does_not_come_up(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(StagewiseError, match=r"must listen within 0\.3 s"):
            register.await_server(address, wait_s=0.3)
