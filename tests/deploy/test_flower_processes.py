"""Real processes on loopback, with TLS and node authentication: models, faults, what is left."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")
pytest.importorskip("torch")

from deploy_cases import TASK, fates, largest_difference, same_figures, small_system, wait_until
from site_faults import kill, kill_for_good, process_of

from stagewise.deploy.certificates import make_authority, make_node_key
from stagewise.deploy.exchange import RoundOrder
from stagewise.deploy.flower_api import FleetNode
from stagewise.deploy.in_process import InProcess
from stagewise.deploy.processes import LocalSite
from stagewise.errors import StagewiseError
from stagewise.training import Trainer

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs process groups"),
    pytest.mark.processes,
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
def trainer():
    with Trainer(TASK.task(SYSTEM)) as trainer:
        yield trainer


def train_three_rounds(transport, trainer):
    """Three rounds side by side with the simulator; the last trained."""
    simulator = InProcess(SYSTEM, trainer)
    weights = expected = trainer.initial_weights()
    for round_index in range(3):
        trained = transport.train_round(RoundOrder(round_index, weights, GROUPS, LONG_S))
        simulated = simulator.train_round(RoundOrder(round_index, expected, GROUPS, LONG_S))
        weights, expected = trained.weights, simulated.weights
        assert set(fates(trained).values()) == {"counted"}
        assert largest_difference(weights, expected) < 1e-6
        same_figures(trained, simulated)
    return trained


def model_bytes(trainer):
    return sum(array.nbytes for array in trainer.initial_weights().values())


def test_flat(tmp_path, trainer):
    site = LocalSite(SYSTEM, "F", TASK, tmp_path / "site")
    site.programs[f"client-{CLIENTS[1]}"].command[1:3] = [str(FAULTY)]
    with site.running(START_S) as transport:
        processes = site.pids()
        assert set(processes) == {
            "supervisor",
            "cloud-superlink",
            *(f"client-{client}" for client in CLIENTS),
        }
        trained = train_three_rounds(transport, trainer)
        models = len(CLIENTS) * len(STEPS)
        assert trained.cloud_bytes_up == pytest.approx(models * model_bytes(trainer), rel=0.1)
        assert trained.cloud_bytes_down == trained.cloud_bytes_up

        rejected = transport.train_round(RoundOrder(3, trained.weights, GROUPS, LONG_S))
        wrong = [report for report in rejected.clients if report.client == CLIENTS[1]]
        assert [report.fate for report in wrong] == ["rejected", "rejected"]
        assert "not finite" in wrong[0].reason
        assert "has the shape" in wrong[1].reason
        alone = {EDGES[0]: CLIENTS[:1], EDGES[1]: CLIENTS[2:]}
        expected = InProcess(SYSTEM, trainer).train_round(
            RoundOrder(3, trained.weights, alone, LONG_S)
        )
        assert largest_difference(rejected.weights, expected.weights) < 1e-6

        once_sent(transport, lambda: kill_for_good(site, CLIENTS[2]))
        late = transport.train_round(RoundOrder(4, rejected.weights, GROUPS, 15.0))
        assert set(fates(late)) == {(client, step) for client in CLIENTS for step in STEPS}
        assert [fates(late)[CLIENTS[1], step] for step in STEPS] == ["late", "late"]
        assert fates(late)[CLIENTS[2], 1] in ("late", "lost")
        assert fates(late)[CLIENTS[0], 0] == "counted"
        wait_until(lambda: CLIENTS[2] not in transport.roll_call(20.0).edges_of)
        refuses_strangers(site, tmp_path)
        restarts(site, transport, CLIENTS[0])
    assert site.pids() == {}
    assert not [pid for pid in processes.values() if alive(pid)]


def once_sent(transport, act):
    """Do `act` right after the cloud has sent its next messages."""
    link, send = transport._channel, transport._channel.send

    def send_and_act(messages, expire_s):
        link.send = send
        message_ids = send(messages, expire_s)
        act()
        return message_ids

    link.send = send_and_act


def restarts(site, transport, name):
    """Who is killed is noticed at once, started again, and takes part again."""
    process = process_of(site, name)
    old = kill(site, name)
    wait_until(lambda: site.pids().get(process, old) != old)
    wait_until(lambda: name in transport.roll_call(20.0).edges_of, deadline_s=LONG_S)
    assert site.processes()[process].starts == 2


def refuses_strangers(site, tmp_path):
    """A node with a key that nobody registered, and one that trusts another authority, do not get in."""
    client = site.host_folder / f"client-{CLIENTS[0]}"
    address, authority = site.site.cloud.address, (client / "ca.pem").read_bytes()
    stranger = make_node_key(tmp_path / "strangers", "stranger").private.read_bytes()
    refused(FleetNode(address, authority, stranger), httpx.HTTPStatusError, "401")
    other = make_authority(tmp_path / "other").public.read_bytes()
    known = (client / "cloud.key").read_bytes()
    refused(FleetNode(address, other, known), httpx.ConnectError, "CERTIFICATE_VERIFY_FAILED")
    # And whoever has the key of a client that is there does not take its place.
    refused(FleetNode(address, authority, known), httpx.HTTPStatusError, "409")


def refused(node, error, message):
    with contextlib.closing(node), pytest.raises(error, match=message):
        node.connect()


def test_hierarchical(tmp_path, trainer):
    site = LocalSite(SYSTEM, "H", TASK, tmp_path / "site")
    with site.running(START_S) as transport:
        assert len(site.pids()) == 2 + len(EDGES) + len(CLIENTS)
        trained = train_three_rounds(transport, trainer)
        models = len(EDGES)
        assert trained.cloud_bytes_up == pytest.approx(models * model_bytes(trainer), rel=0.1)
        assert trained.cloud_bytes_down == pytest.approx(models * model_bytes(trainer), rel=0.1)

        once_sent(transport, lambda: kill_for_good(site, EDGES[1]))
        without = transport.train_round(RoundOrder(3, trained.weights, GROUPS, 20.0))
        assert without.edges[0].fate == "counted"
        assert without.edges[1].fate in ("late", "lost")
        assert set(fates(without)) == {(client, step) for client in CLIENTS for step in STEPS}
        assert fates(without)[CLIENTS[2], 0] == "lost"

        moved = {EDGES[0]: CLIENTS}
        after = transport.train_round(RoundOrder(4, without.weights, moved, LONG_S))
        expected = InProcess(SYSTEM, trainer).train_round(
            RoundOrder(4, without.weights, moved, LONG_S)
        )
        assert set(fates(after).values()) == {"counted"}
        assert largest_difference(after.weights, expected.weights) < 1e-6


def test_children_end_with_a_parent_that_is_killed(tmp_path):
    if sys.platform != "linux":
        pytest.skip("only Linux tells processes of their parent's death")
    script = f"""
        import sys, time
        from pathlib import Path
        from stagewise.deploy.children import Children
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
    wait_until(lambda: not any(alive(pid) for pid in pids))


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path):
    task = type(TASK)(dataset="digits", model="no-such-model", learning_rate=0.1)
    with pytest.raises(StagewiseError, match="no-such-model"):
        LocalSite(small_system(clients=1), "F", task, tmp_path / "site")
    site = LocalSite(small_system(clients=1), "F", TASK, tmp_path / "site")
    site.programs["client-c0"].command[4] = "c9"
    with (
        pytest.raises(StagewiseError, match=r"^client-c0: ended with status 2: .*'c9'.*\.log\)$"),
        site.running(START_S),
    ):
        pass
    assert site.pids() == {}


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
