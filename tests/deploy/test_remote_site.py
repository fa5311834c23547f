"""What the cloud of a site does before its first round: it waits for the others."""

import os
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the deploy extra is not installed")

from test_deploy_init import TASK, scenario_of
from test_site import three_hosts

from stagewise.deploy import remote as remote_module
from stagewise.deploy import starting as starting_module
from stagewise.deploy.exchange import Presence
from stagewise.deploy.init import init_site
from stagewise.deploy.remote import remote_transport
from stagewise.deploy.starting import Start, StartRecord, read_start
from stagewise.errors import StagewiseError

SCENARIO = scenario_of(three_hosts())
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

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cloud's folder, with Flower out of the way and a clock that pauses move."""
    monkeypatch.setattr(starting_module, "time", Clock())
    monkeypatch.setattr(remote_module, "SuperLink", FakeLink)
    monkeypatch.setattr(remote_module, "Hierarchical", FakeTransport)
    monkeypatch.setattr(FakeLink, "closed", 0)
    site = three_hosts()
    init_site(site, scenario_of(site), TASK, tmp_path / "site")
    return tmp_path / "site" / "hosts" / "10.0.0.1"


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Says how far it is, in a folder beside the run `live`."""
    return Start(tmp_path / "live.site", show=True)


class TestWaiting:
    @pytest.mark.fault(
        "At the start links answer in different polls", "answers add up, and the run begins"
    )
    def test_it_begins_once_every_link_has_answered_in_whatever_poll(
        self, cloud: Path, start: Start
    ) -> None:
        first, second = {"c0": ("es0",), "c1": ("es1",)}, {"c1": ("es0",), "c2": ("es1",)}
        FakeTransport.polls = [{}, first, {}, second, ALL]
        with remote_transport(cloud, SCENARIO, start) as transport:
            assert len(FakeTransport.polls) == 1
            assert isinstance(transport, FakeTransport)
        assert FakeLink.closed == 1

    @pytest.mark.fault(
        "At the start some never answer",
        "the run begins without them after a while, and says without whom",
    )
    def test_it_begins_without_some_after_a_while_and_says_whom(
        self, cloud: Path, start: Start, capsys: pytest.CaptureFixture[str]
    ) -> None:
        FakeTransport.polls = [{}, *[{"c0": ("es0",), "c1": ("es0",), "c2": ("es1",)}] * 100]
        with remote_transport(cloud, SCENARIO, start, wait_s=12.0):
            pass
        said = capsys.readouterr().err.splitlines()
        assert said[0] == "waiting for the clients"
        assert said[1].startswith("3 of 4 links have answered after 5 s; missing: c1 at es1")
        assert said[-1] == "going on without c1 at es1"

    @pytest.mark.fault("`deploy status` during the start", "says who is missing")
    def test_what_is_going_on_can_be_read_meanwhile(
        self, cloud: Path, start: Start, tmp_path: Path
    ) -> None:
        seen: list[StartRecord | None] = []
        start.processes = lambda: {"cloud-superlink": 17}
        FakeTransport.polls = [{"c0": ("es0",)}, ALL]
        sleep = Clock.sleep

        def look(clock: Clock, seconds: float) -> None:
            seen.append(read_start(tmp_path / "live"))
            sleep(clock, seconds)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Clock, "sleep", look)
            with remote_transport(cloud, SCENARIO, start):
                start.over()
        (record,) = seen
        assert record is not None
        assert record.phase == "waiting for the clients"
        assert (record.links, record.missing) == (4, ["c1 at es0", "c1 at es1", "c2 at es1"])
        assert record.processes == {"cloud-superlink": 17}
        assert read_start(tmp_path / "live") is None

    def test_a_client_that_is_being_copied_to_the_site_is_not_waited_for(
        self, cloud: Path, start: Start
    ) -> None:
        text = (cloud / "site.toml").read_text()
        text += '\n[[clients]]\nid = "c9"\nhost = "10.0.0.3"\nedges = ["es0"]\n'
        (cloud / "site.toml").write_text(text)  # scenario.json does not have it yet
        FakeTransport.polls = [ALL]
        with remote_transport(cloud, SCENARIO, start):
            assert FakeTransport.polls == []

    def test_a_failure_lets_go_of_the_superlink(self, cloud: Path, start: Start) -> None:
        FakeTransport.polls = [StagewiseError("10.0.0.1:9092: the SuperLink: gone")]
        with pytest.raises(StagewiseError, match="gone"), remote_transport(cloud, SCENARIO, start):
            pass
        assert FakeLink.closed == 1


def test_the_record_of_a_process_that_is_gone_is_no_start(tmp_path: Path) -> None:
    start = Start(tmp_path / "live.site")
    start.phase("waiting for the clients")
    assert read_start(tmp_path / "live") is not None
    path = tmp_path / "live.site" / "starting.json"
    path.write_text(path.read_text().replace(f'"pid":{os.getpid()}', f'"pid":{2**22 + 1}'))
    assert read_start(tmp_path / "live") is None
