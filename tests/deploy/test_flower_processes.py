"""Real processes on loopback, with TLS and node authentication: models, faults, what is left."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")
pytest.importorskip("torch")

from deploy_cases import TASK, fates, largest_difference, small_system

from stagewise.deploy.certificates import make_authority, make_node_key
from stagewise.deploy.children import Children, free_ports
from stagewise.deploy.commands import ENVIRONMENT, supernode_command
from stagewise.deploy.in_process import InProcess
from stagewise.deploy.processes import LocalSite
from stagewise.deploy.transport import Order
from stagewise.errors import StagewiseError
from stagewise.training import TrainingTeam

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs process groups"),
    pytest.mark.xdist_group("processes"),
]

SYSTEM = small_system()
CLIENTS, EDGES = SYSTEM.clients.ids, SYSTEM.edges.ids
GROUPS = {EDGES[0]: CLIENTS[:2], EDGES[1]: CLIENTS[2:]}
STEPS = range(SYSTEM.edge_rounds)
LONG_S = 90.0
"""A deadline that a busy machine keeps."""
START_S = 600.0
FAULTY = Path(__file__).with_name("faulty_client.py")


@pytest.fixture(scope="module")
def team():
    with TrainingTeam(TASK.task(SYSTEM)) as team:
        yield team


def train_three_rounds(transport, team):
    """Three rounds side by side with the simulator; the last outcome."""
    simulator, weights, expected = InProcess(SYSTEM, team), None, team.initial_weights()
    weights = expected
    for round_index in range(3):
        outcome = transport.train_round(Order(round_index, weights, GROUPS, LONG_S))
        expected = simulator.train_round(Order(round_index, expected, GROUPS, LONG_S)).weights
        weights = outcome.weights
        assert set(fates(outcome).values()) == {"counted"}
        assert largest_difference(weights, expected) < 1e-6
    return outcome


def model_bytes(team):
    return sum(array.nbytes for array in team.initial_weights().values())


def test_flat(tmp_path, team):
    with LocalSite.start(
        SYSTEM,
        TASK,
        "F",
        tmp_path / "site",
        programs={CLIENTS[1]: [str(FAULTY)]},
        start_s=START_S,
    ) as site:
        processes = site.processes()
        outcome = train_three_rounds(site.transport, team)
        models = len(CLIENTS) * len(STEPS)
        assert outcome.cloud_bytes_up == pytest.approx(models * model_bytes(team), rel=0.1)
        assert outcome.cloud_bytes_down == outcome.cloud_bytes_up

        rejected = site.transport.train_round(Order(3, outcome.weights, GROUPS, LONG_S))
        wrong = [report for report in rejected.clients if report.client == CLIENTS[1]]
        assert [report.fate for report in wrong] == ["rejected", "rejected"]
        assert "not finite" in wrong[0].reason
        assert "has the shape" in wrong[1].reason
        alone = {EDGES[0]: CLIENTS[:1], EDGES[1]: CLIENTS[2:]}
        expected = InProcess(SYSTEM, team).train_round(Order(3, outcome.weights, alone, LONG_S))
        assert largest_difference(rejected.weights, expected.weights) < 1e-6

        killer = threading.Timer(1.0, site.kill, [CLIENTS[2]])
        killer.start()
        late = site.transport.train_round(Order(4, rejected.weights, GROUPS, 60.0))
        killer.join()
        assert set(fates(late)) == {(client, step) for client in CLIENTS for step in STEPS}
        assert [fates(late)[CLIENTS[1], step] for step in STEPS] == ["late", "late"]
        assert fates(late)[CLIENTS[2], 1] in ("late", "lost")
        assert fates(late)[CLIENTS[0], 0] == "counted"

        site.restart(CLIENTS[2])
        refuses_strangers(site, tmp_path)
        wait_until_there(site.transport, CLIENTS[2])
    assert site.processes() == {}
    assert not [pid for pid in processes.values() if alive(pid)]


def wait_until_there(transport, client):
    give_up = time.monotonic() + 2 * LONG_S
    while client not in transport.who_is_there(20.0).edges_of:
        assert time.monotonic() < give_up


def refuses_strangers(site, tmp_path):
    """A node with a key that nobody registered, and one that trusts another authority, do not get in."""
    folder = site.folder
    stranger = make_node_key(tmp_path / "strangers", "stranger").private
    other = make_authority(tmp_path / "other").certificate
    known = folder / "nodes" / f"{CLIENTS[0]}@cloud.key"
    program = str(Path(sys.executable).with_name("flower-supernode"))
    home = {"FLWR_HOME": str(tmp_path / "flower")}
    children = Children(tmp_path / "logs", {**ENVIRONMENT, **home})
    try:
        ports = free_ports(2)
        for name, authority, key, port in (
            ("unregistered", folder / "server" / "ca.pem", stranger, ports[0]),
            ("other authority", other, known, ports[1]),
        ):
            children.start(
                name,
                [
                    *supernode_command(
                        CLIENTS[2],
                        site.address("cloud"),
                        authority,
                        key,
                        port,
                        folder / "site.secret",
                        program=program,
                    ),
                    *("--max-retries", "1"),
                ],
            )
        give_up = time.monotonic() + 2 * LONG_S
        while set(children.ended()) != {"unregistered", "other authority"}:
            assert time.monotonic() < give_up, [children.last_line(n) for n in children.running()]
            time.sleep(0.2)
        for name in ("unregistered", "other authority"):
            said = children.log(name).read_text()
            assert "Failed to initialize the connection to the SuperLink" in said, said
            # One was refused by the SuperLink, the other refused the SuperLink.
            assert ("CERTIFICATE_VERIFY_FAILED" in said) == (name == "other authority"), said
    finally:
        children.end()


def test_hierarchical(tmp_path, team):
    with LocalSite.start(SYSTEM, TASK, "H", tmp_path / "site", start_s=START_S) as site:
        outcome = train_three_rounds(site.transport, team)
        models = len(EDGES)
        assert outcome.cloud_bytes_up == pytest.approx(models * model_bytes(team), rel=0.1)
        assert outcome.cloud_bytes_down == pytest.approx(models * model_bytes(team), rel=0.1)

        killer = threading.Timer(1.0, site.kill, [EDGES[1]])
        killer.start()
        without = site.transport.train_round(Order(3, outcome.weights, GROUPS, 60.0))
        killer.join()
        assert without.edges[0].fate == "counted"
        assert without.edges[1].fate in ("late", "lost")
        assert set(fates(without)) == {(client, step) for client in CLIENTS for step in STEPS}
        assert fates(without)[CLIENTS[2], 0] == "lost"

        moved = {EDGES[0]: CLIENTS}
        after = site.transport.train_round(Order(4, without.weights, moved, LONG_S))
        expected = InProcess(SYSTEM, team).train_round(Order(4, without.weights, moved, LONG_S))
        assert set(fates(after).values()) == {"counted"}
        assert largest_difference(after.weights, expected.weights) < 1e-6


def test_children_end_with_a_parent_that_is_killed(tmp_path):
    if sys.platform != "linux":
        pytest.skip("only Linux tells processes of their parent's death")
    script = f"""
        import sys, time
        from pathlib import Path
        from stagewise.deploy.children import Children, free_ports
        children = Children(Path({str(tmp_path)!r}), {{}})
        for name in "ab":
            children.start(name, [sys.executable, "-c", "import time; time.sleep(600)"])
        print(*children.running().values(), flush=True)
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        parent.send_signal(signal.SIGKILL)
    give_up = time.monotonic() + 10
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path):
    sites = []

    class Watched(LocalSite):
        def _make_keys(self):
            sites.append(self)
            super()._make_keys()

    task = type(TASK)(dataset="digits", model="no-such-model", learning_rate=0.1)
    with pytest.raises(StagewiseError, match=r"^c\d: ended: .*no-such-model"):
        Watched.start(small_system(clients=1), task, "F", tmp_path / "site", start_s=START_S)
    assert sites[0].processes() == {}


def alive(pid):
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return not Path("/proc").exists()
