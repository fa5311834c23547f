"""`deploy up` with real processes, of which some are killed in the middle of a round."""

import os
import sys
import threading

import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")
pytest.importorskip("torch")

from stagewise.check import check_decisions
from stagewise.deploy import session
from stagewise.deploy.processes import LocalSite
from stagewise.deploy.records import load_live
from stagewise.deploy.status import read_status
from stagewise.deploy.up import local_folder, up
from stagewise.deploy.wanted import Wanted

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs process groups"),
    pytest.mark.xdist_group("processes"),
]

KILLED_IN = 1


@pytest.fixture
def fire(monkeypatch):
    """Kills a client and another client's edge as soon as a round is being trained."""
    sites, killed, pids = [], {}, set()
    start, save_status = LocalSite.start, session.save_status

    def started(*arguments, **options):
        sites.append(start(*arguments, **options))
        pids.update(sites[-1].processes().values())
        return sites[-1]

    def shoot(status):
        edges = sorted(status.groups, key=lambda edge: len(status.groups[edge]))
        killed["edge"], killed["client"] = edges[0], status.groups[edges[-1]][0]
        for name in killed.values():
            sites[0].kill(name)

    def said(status, folder):
        save_status(status, folder)
        if status.phase == "training" and status.round == KILLED_IN:
            threading.Timer(0.5, shoot, [status]).start()

    monkeypatch.setattr(LocalSite, "start", started)
    monkeypatch.setattr(session, "save_status", said)
    return killed, pids


def test_rounds_go_on_without_a_client_and_an_edge(tmp_path, fire):
    killed, pids = fire
    out = tmp_path / "run"
    wanted = Wanted(
        local=True,
        clients=3,
        edges=2,
        dataset="digits",
        policy="fedcs",
        rounds=3,
        polls=0,
        seed=2,
    )
    run = up(out, wanted)
    assert run.finished
    assert check_decisions(run.scenario, run.online, run.decisions) == []
    found, live = read_status(out), load_live(out, 3)
    assert found.adds_up
    assert found.asked == sum(found.fates.values())
    # The round in which they went: nothing of the edge counts, and the other edge's mean goes on.
    fates = {(one.client, one.edge): one.fate for one in live[KILLED_IN].updates}
    assert {fate for (_, edge), fate in fates.items() if edge == killed["edge"]} == {"lost"}
    assert "counted" in fates.values()
    # The round after: neither is asked.
    assert killed["edge"] not in live[2].edges
    assert killed["client"] not in live[2].reached
    assert {one.edge for one in live[2].updates} == {*run.scenario.edges.ids} - {killed["edge"]}
    # The cloud's bytes in the rounds without a fault are those of a model for each edge.
    assert found.backhaul.measured == pytest.approx(found.backhaul.predicted, rel=0.2)
    assert not [pid for pid in pids if is_alive(pid)]
    for private in (local_folder(out) / "nodes").glob("*.key"):
        assert private.stat().st_mode & 0o077 == 0


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
