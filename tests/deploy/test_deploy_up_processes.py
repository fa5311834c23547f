"""`deploy up` with real processes, of which some are killed in the middle of a round."""

import contextlib
import os
import sys
import time

import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")
pytest.importorskip("torch")

from site_faults import kill_for_good

from stagewise.checker import check
from stagewise.deploy import up as deploy_up
from stagewise.deploy.messages import TRAIN
from stagewise.deploy.options import DeployOptions
from stagewise.deploy.presence import GRACE_S
from stagewise.deploy.processes import LocalSite
from stagewise.deploy.records import load_live
from stagewise.deploy.starting import beside
from stagewise.deploy.status import read_status
from stagewise.deploy.superlink import SuperLink

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs process groups"),
    pytest.mark.processes,
    pytest.mark.xdist_group("processes"),
]

KILLED_IN = 1


@pytest.fixture
def kills(monkeypatch):
    """Kills a client and another client's edge as soon as the orders of a round are sent."""
    sites, killed, pids, statuses, kill_times = [], {}, set(), [], []
    running, save_status, send = LocalSite.running, deploy_up.save_status, SuperLink.send

    @contextlib.contextmanager
    def started(site, start_s, start):
        with running(site, start_s, start) as transport:
            sites.append(site)
            pids.update(site.pids().values())
            yield transport

    def kill_both():
        status = statuses[-1]
        edges = sorted(status.groups, key=lambda edge: len(status.groups[edge]))
        killed["edge"], killed["client"] = edges[0], status.groups[edges[-1]][0]
        for name in killed.values():
            kill_for_good(sites[0], name)
        kill_times.append(time.monotonic())

    def saved(status, folder):
        save_status(status, folder)
        statuses.append(status)
        if kill_times and status.round > KILLED_IN:  # by now it is known that they are gone
            time.sleep(max(0.0, kill_times[0] + GRACE_S + 1.0 - time.monotonic()))

    def sent(self, messages, expire_s):
        message_ids = send(self, messages, expire_s)
        orders = [message for message in messages if message.kind == TRAIN]
        if orders and statuses[-1].round == KILLED_IN and not killed:
            kill_both()
        return message_ids

    monkeypatch.setattr(LocalSite, "running", started)
    monkeypatch.setattr(SuperLink, "send", sent)
    monkeypatch.setattr(deploy_up, "save_status", saved)
    return killed, pids


@pytest.mark.fault(
    "A client and an edge are killed (-9) in a round, as real processes",
    "the round and those after it end; every update has one fate; decisions pass the check; "
    "nothing is left running",
)
def test_rounds_go_on_without_a_client_and_an_edge(tmp_path, kills, record_property):
    killed, pids = kills
    out = tmp_path / "run"
    options = DeployOptions(
        local=True,
        clients=3,
        edges=2,
        dataset="digits",
        policy="fedcs",
        rounds=3,
        polls=0,
        seed=2,
    )
    run = deploy_up.up(out, options)
    assert run.finished
    assert check(run.scenario, run.decisions, run.online) == []
    found, live = read_status(out), load_live(out, 3)
    record_property("seen", ", ".join(f"{n} updates {fate}" for fate, n in found.fates.items()))
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
    private_keys = list(beside(out).rglob("*.key"))
    assert private_keys
    for private in private_keys:
        assert private.stat().st_mode & 0o077 == 0


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
