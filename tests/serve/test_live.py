"""A federation's policy in one process, where the store fails or the federation is another one."""

import pytest
from sqlalchemy.exc import OperationalError

from serve_cases import small_rounds, small_scenario, timeless
from stagewise.client.wire import ClientReport, OutcomeReport, RoundRequest, request_of
from stagewise.serve.federations import Federations
from stagewise.serve.job_queue import JobQueue
from stagewise.serve.refusals import Conflict, NotReady, Unknown
from stagewise.serve.settings import FederationSettings
from stagewise.serve.store import Store
from stagewise.world.scenario_json import json_parts

OORT = FederationSettings(policy="oort,k=8+nearest")


@pytest.fixture
def federations(tmp_path):
    found = Federations(Store(str(tmp_path / "store.db")))
    yield found
    found.close()
    found.store.close()


def created(federations, scenario, settings=OORT, name="a"):
    federations.add_scenario(b"".join(json_parts(scenario)), False)
    federations.create(name, scenario.sha256, settings)
    live = federations.get(name)
    federations.store.set_state(name, live.created, "ready", live.prepare(settings))
    return live


def refuse_writes(monkeypatch, store, count=1):
    """Let the next writes of entries fail, as when the database is away for a moment."""
    real, left = store.append, count

    def append(*args):
        nonlocal left
        if left:
            left -= 1
            raise OperationalError("insert", {}, Exception("database is locked"))
        return real(*args)

    monkeypatch.setattr(store, "append", append)


@pytest.mark.parametrize("what", ["decide", "observe", "probe"])
def test_a_write_that_fails_changes_nothing(federations, monkeypatch, what):
    """The request is refused; sent again, all is as in a federation whose store never failed."""
    scenario = small_scenario()
    requests = [request_of(round_, {}) for round_ in small_rounds(scenario, 4)]
    lives = [created(federations, scenario, name=name) for name in ("well", "ill")]
    lines: list[list] = []
    for live in lives:
        first = timeless(live.decide(requests[0]).line)
        trained = next(iter(first["assignment"]))
        late = OutcomeReport(clients={trained: ClientReport(fate="late", loss_before=9.0)})
        asked = {
            "decide": lambda live=live: live.decide(requests[1]),
            "observe": lambda live=live, late=late: live.observe(0, late),
            "probe": lambda live=live: live.probe(RoundRequest(online=requests[1].online)),
        }[what]
        if live.name == "ill":
            with monkeypatch.context() as patched:
                refuse_writes(patched, federations.store)
                with pytest.raises(OperationalError):
                    asked()
            if what != "observe":  # the late outcome of round 0 still finds its round
                assert live.observe(0, late)
        elif what != "observe":
            live.observe(0, late)
        asked()
        lines.append([first, *(timeless(live.decide(request).line) for request in requests[1:])])
    assert lines[0] == lines[1]
    kept = [
        [(row.kind, row.round, row.asked) for row in federations.store.entries_after(name, 0)]
        for name in ("well", "ill")
    ]
    assert kept[0] == kept[1]


def test_a_federation_created_again_has_nothing_of_the_one_before(federations):
    """By another server on the same store, which tells this one nothing."""
    old, new = small_scenario(0), small_scenario(1)
    planned = FederationSettings(policy="stagewise-strict")
    before = created(federations, old, planned)
    [request] = [request_of(round_, {}) for round_ in small_rounds(old, 1)]
    before.decide(request)
    other = Federations(federations.store)
    other.remove("a")
    with pytest.raises(Unknown):
        federations.get("a")
    with pytest.raises(Unknown):
        before.prepare(planned)
    assert not federations.store.plans("a")
    after = created(other, new, planned)
    assert federations.cached("a") is before
    with pytest.raises(NotReady):
        before.decide(request)
    assert federations.cached("a").scenario.sha256 == new.sha256
    with pytest.raises(NotReady):
        before.adopt(0)
    federations.store.set_state("a", before.created, "failed", error="of the one before")
    assert federations.store.federation("a").state == "ready"
    assert federations.get("a").scenario.sha256 == new.sha256
    assert len(federations.store.plans("a")) == 1
    lines = [timeless(live.decide(request).line) for live in (after, federations.get("a"))]
    assert lines[0] == lines[1]
    other.close()


def test_the_end_of_a_removed_job_is_not_the_end_of_its_successor(federations):
    """SQLite uses the number of a removed row again."""
    scenario, queue = small_scenario(), JobQueue(federations.store.database)
    federations.add_scenario(b"".join(json_parts(scenario)), False)
    federations.create("a", scenario.sha256, OORT)
    job = queue.take(["prepare"])
    federations.remove("a")
    federations.create("a", scenario.sha256, OORT)
    with pytest.raises(Unknown):
        queue.require(job)
    queue.end(job, error="of the one before")
    [left] = queue.jobs()
    assert left.state == "queued"


def test_a_policy_that_makes_room_for_another_is_closed(federations, monkeypatch):
    monkeypatch.setattr("stagewise.serve.federations._READY", 1)
    closed = []
    first = created(federations, small_scenario(), name="first")
    monkeypatch.setattr(first, "close", lambda: closed.append("first"))
    created(federations, small_scenario(), name="second")
    assert closed == ["first"]


def test_a_key_does_not_stand_for_another_round(federations):
    live = created(federations, small_scenario())
    first = live.decide(RoundRequest(online=["c1", "c2"]), "k")
    assert live.decide(RoundRequest(online=["c1", "c2"], round=0), "k").line == first.line
    with pytest.raises(Conflict, match="round = 7: must be 0"):
        live.decide(RoundRequest(online=["c1", "c2"], round=7), "k")
