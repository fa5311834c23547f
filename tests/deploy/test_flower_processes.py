"""Real processes on loopback, with TLS and node authentication: models, faults, what is left."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")
pytest.importorskip("torch")

from deploy_cases import TASK, fates, largest_difference, same_figures, small_system, wait_until
from site_faults import kill, restart_client

from stagewise.deploy.certificates import make_authority, make_node_key
from stagewise.deploy.children import Children, free_ports
from stagewise.deploy.exchange import RoundOrder
from stagewise.deploy.in_process import InProcess
from stagewise.deploy.processes import LocalSite
from stagewise.deploy.programs import ENVIRONMENT, supernode_command
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
    site = LocalSite(SYSTEM, "F", tmp_path / "site")
    site.commands[f"client-{CLIENTS[1]}"][1:3] = [str(FAULTY)]
    with site.running(TASK, START_S) as transport:
        processes = site.children.running()
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

        kill_once_sent(site, transport, CLIENTS[2])
        late = transport.train_round(RoundOrder(4, rejected.weights, GROUPS, 60.0))
        assert set(fates(late)) == {(client, step) for client in CLIENTS for step in STEPS}
        assert [fates(late)[CLIENTS[1], step] for step in STEPS] == ["late", "late"]
        assert fates(late)[CLIENTS[2], 1] in ("late", "lost")
        assert fates(late)[CLIENTS[0], 0] == "counted"

        restart_client(site, CLIENTS[2])
        refuses_strangers(site, tmp_path)
        wait_until(lambda: CLIENTS[2] in transport.roll_call(20.0).edges_of, deadline_s=2 * LONG_S)
    assert site.children.running() == {}
    assert not [pid for pid in processes.values() if alive(pid)]


def kill_once_sent(site, transport, name):
    """Kill the processes of `name` right after the cloud has sent its next messages."""
    link, send = transport._channel, transport._channel.send

    def send_and_kill(messages, expire_s):
        link.send = send
        message_ids = send(messages, expire_s)
        kill(site, name)
        return message_ids

    link.send = send_and_kill


def refuses_strangers(site, tmp_path):
    """A node with a key that nobody registered, and one that trusts another authority, do not get in."""
    client = site.host_folder / f"client-{CLIENTS[0]}"
    stranger = make_node_key(tmp_path / "strangers", "stranger").private
    other = make_authority(tmp_path / "other").public
    known = client / "cloud.key"
    program = str(Path(sys.executable).with_name("flower-supernode"))
    home = {"FLWR_HOME": str(tmp_path / "flower")}
    children = Children(tmp_path / "logs", {**ENVIRONMENT, **home})
    try:
        ports = free_ports(2)
        for name, authority, key, port in (
            ("unregistered", client / "ca.pem", stranger, ports[0]),
            ("other authority", other, known, ports[1]),
        ):
            children.start(
                name,
                [
                    *supernode_command(
                        CLIENTS[2],
                        site.site.cloud.address,
                        authority,
                        key,
                        client / "node.secret",
                        port,
                        program=program,
                    ),
                    *("--max-retries", "1"),
                ],
            )
        wait_until(lambda: len(children.ended()) == 2, deadline_s=2 * LONG_S)
        for name in ("unregistered", "other authority"):
            log = children.log(name).read_text()
            assert "Failed to initialize the connection to the SuperLink" in log, log
            # One was refused by the SuperLink, the other refused the SuperLink.
            assert ("CERTIFICATE_VERIFY_FAILED" in log) == (name == "other authority"), log
    finally:
        children.end()


def test_hierarchical(tmp_path, trainer):
    site = LocalSite(SYSTEM, "H", tmp_path / "site")
    with site.running(TASK, START_S) as transport:
        trained = train_three_rounds(transport, trainer)
        models = len(EDGES)
        assert trained.cloud_bytes_up == pytest.approx(models * model_bytes(trainer), rel=0.1)
        assert trained.cloud_bytes_down == pytest.approx(models * model_bytes(trainer), rel=0.1)

        kill_once_sent(site, transport, EDGES[1])
        without = transport.train_round(RoundOrder(3, trained.weights, GROUPS, 60.0))
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
    wait_until(lambda: not any(alive(pid) for pid in pids))


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path):
    task = type(TASK)(dataset="digits", model="no-such-model", learning_rate=0.1)
    site = LocalSite(small_system(clients=1), "F", tmp_path / "site")
    with (
        pytest.raises(StagewiseError, match=r"^client-c\d: ended: .*no-such-model"),
        site.running(task, START_S),
    ):
        pass
    assert site.children.running() == {}


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
