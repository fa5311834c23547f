"""The cloud's process dies in the middle of a round: nothing is lost but that round."""

import json
from dataclasses import replace

import numpy as np
import pytest
from live_cases import MODEL, ScriptedTransport, coordinator_of, planned, sit, two_edges

from stagewise.check import check_decisions
from stagewise.deploy.records import LIVE, STATUS, load_live
from stagewise.deploy.remaining import LivePolicy
from stagewise.deploy.status import adds_up, read_status
from stagewise.errors import StagewiseError
from stagewise.simulator.config import Replanning
from stagewise.simulator.directory import CHECKPOINT, ONLINE, RunDirectory, lock
from stagewise.simulator.run import load_run
from stagewise.world.estimator import ParticipationEstimator

GONE = {1: ["c0"], 2: ["es0"], 4: ["c1", "c3"]}
TIMINGS = {"decision_ms", "wall_s", "poll_s", "plan_ms"}


def told(path, name):
    """A file of JSON lines without what a clock said."""
    lines = [json.loads(line) for line in (path / name).read_text().splitlines()]
    return [
        {key: value for key, value in line.items() if key not in TIMINGS}
        if isinstance(line, dict)
        else line
        for line in lines
    ]


def stopping(scenario, in_round, error=KeyboardInterrupt):
    """Polls are numbered from the first of the whole run."""

    def spoil(order, outcome):
        if order.round == in_round:
            raise error
        return outcome

    return ScriptedTransport(scenario, GONE, spoil)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, StagewiseError("the engine")])
def test_a_run_that_was_stopped_ends_as_one_that_was_not(tmp_path, error):
    scenario = two_edges()
    straight = sit(tmp_path / "a", ScriptedTransport(scenario, GONE))
    for stop in (0, 3):
        with pytest.raises(error if isinstance(error, type) else type(error)):
            sit(tmp_path / "b", stopping(scenario, stop, error))
        assert read_status(tmp_path / "b").phase == "stopped"
        assert len(load_run(tmp_path / "b").records) == stop
    again = ScriptedTransport(scenario, GONE, polls=3)
    resumed = sit(tmp_path / "b", again)
    assert [order.round for order in again.orders] == [3, 4, 5]
    for name in ("decisions.jsonl", "rounds.jsonl", "online.jsonl", LIVE):
        assert told(tmp_path / "a", name) == told(tmp_path / "b", name)
    np.testing.assert_array_equal(straight.weights["w"], resumed.weights["w"])
    assert resumed.finished
    assert read_status(tmp_path / "b").phase == "finished"


def test_what_a_killed_process_left_behind_is_cut_off(tmp_path):
    scenario, path = two_edges(), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        sit(path, stopping(scenario, 3))
    whole = (path / LIVE).read_bytes()
    # Lines that the checkpoint knows nothing of, and a part of one.
    with (path / LIVE).open("ab") as stream:
        stream.write(3 * whole + b'{"round":')
    with (path / ONLINE).open("ab") as stream:
        stream.write(b'["c0"]\n')
    (path / ".live.part").write_bytes(b"")
    sit(path, ScriptedTransport(scenario, GONE, polls=3))
    assert [line.round for line in load_live(path, 6)] == list(range(6))
    assert (path / LIVE).read_bytes().count(b"\n") == 6
    run = load_run(path)
    assert len(run.online) == 6
    assert check_decisions(scenario, run.online, run.decisions) == []
    assert not (path / ".live.part").exists()


def test_what_was_learned_is_known_again(tmp_path):
    scenario = two_edges()
    transport = ScriptedTransport(scenario, train_s=2.0)
    coordinator = coordinator_of(transport, planned(scenario))
    records = [coordinator.play(index, MODEL).live for index in range(4)]
    again = coordinator_of(transport, planned(scenario))
    again.restore(records)
    edge_of = planned(scenario).plan.edge_of
    assert again.costs.delay_s(edge_of) == coordinator.costs.delay_s(edge_of)
    assert again.deadlines.round_s(1.0, 2) == coordinator.deadlines.round_s(1.0, 2)
    assert again.deadlines.poll_s() == coordinator.deadlines.poll_s()


def test_decisions_with_measured_cpus_are_true_by_the_files(tmp_path):
    scenario, path = two_edges(), tmp_path / "run"
    run = sit(path, ScriptedTransport(scenario, GONE, train_s=4.0), measured_costs=True)
    assert run.online[0].cpu_hz is None
    assert (run.online[5].cpu_hz < scenario.clients.cpu_hz).all()
    assert check_decisions(scenario, run.online, run.decisions) == []


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    scenario, path = two_edges(), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        sit(path, stopping(scenario, 3))
    from stagewise.simulator.checkpoint import save_checkpoint

    position = RunDirectory.open(path).position()
    save_checkpoint(path / CHECKPOINT, {"w": np.zeros(3, dtype=np.float32)}, position)
    with pytest.raises(StagewiseError, match="the weights must be those of the run's model"):
        sit(path, ScriptedTransport(scenario))


def test_a_line_that_is_missing_is_noticed(tmp_path):
    scenario, path = two_edges(), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        sit(path, stopping(scenario, 3))
    lines = (path / LIVE).read_bytes().splitlines(keepends=True)
    (path / LIVE).write_bytes(lines[0] + lines[2])
    with pytest.raises(StagewiseError, match=r"live\.jsonl: the rounds must be in order"):
        sit(path, ScriptedTransport(scenario))


def test_plan_a_runs_beside_the_rounds_with_what_was_observed(tmp_path):
    """c0 is never there: the plan that is ordered after four rounds is made for who came."""
    scenario, path = replace(two_edges(), window=3), tmp_path / "run"
    transport = ScriptedTransport(scenario, dict.fromkeys(range(99), ("c0",)))
    with pytest.raises(KeyboardInterrupt):
        sit(
            path,
            ScriptedTransport(scenario, transport.gone, stopping(scenario, 5).spoil),
            rounds=9,
            replanning=Replanning(every=4),
        )
    transport.polls = 5
    run = sit(path, transport)
    position = RunDirectory.open(path).position()
    assert [ordered for ordered, _ in position.orders] == [3, 7]
    assert position.adopted == [4, 8]
    later = [json.loads(plan.read_text()) for plan in RunDirectory.open(path).later_plans()]
    estimator = ParticipationEstimator(scenario.clients.online_probability, window=3)
    for _ in range(4):
        estimator.observe(np.arange(6) > 0)
    known = estimator.probabilities()
    assert known[0] < 0.4 < 0.9 < known[1]
    assert later[0]["scenario_sha256"] == scenario.with_online_probability(known).sha256
    assert len(later) == 2
    assert check_decisions(scenario, run.online, run.decisions) == []
    assert adds_up(load_live(path, 9))


class Counting:
    """A policy of somebody else's: its answer depends on how often it was asked."""

    made: list["Counting"]

    def __init__(self, scenario):
        self.scenario, self.asked = scenario, []
        self.made.append(self)

    def decide(self, round_, index):
        self.asked.append(index)
        edge = len(self.asked) % len(self.scenario.edges)
        return np.where(round_.online, edge, -1)


def test_a_policy_of_somebody_elses_is_asked_again_about_every_round(tmp_path):
    """Also about those in which an edge was gone, for which another one was made."""
    scenario = two_edges()

    def policy():
        Counting.made = []
        return LivePolicy(Counting(scenario), Counting, "lend")

    straight = policy()
    sit(tmp_path / "a", ScriptedTransport(scenario, GONE), straight)
    asked = [each.asked for each in Counting.made]
    assert asked == [[0, 1, 3, 4, 5], [2]]
    with pytest.raises(KeyboardInterrupt):
        sit(tmp_path / "b", stopping(scenario, 4), policy())
    sit(tmp_path / "b", ScriptedTransport(scenario, GONE, polls=4), policy())
    assert [each.asked for each in Counting.made] == asked
    assert told(tmp_path / "a", "decisions.jsonl") == told(tmp_path / "b", "decisions.jsonl")


def test_a_look_at_the_status_does_not_keep_a_run_out(tmp_path, monkeypatch):
    """The lock it takes for a moment is let go before the run tries again."""
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "file"
    path.touch()
    with path.open("rb") as looking, path.open("r+b") as running:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr("time.sleep", lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
        lock(running, path)
        with pytest.raises(BlockingIOError):
            fcntl.flock(looking, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_two_processes_cannot_run_one_folder(tmp_path):
    scenario, path = two_edges(), tmp_path / "run"

    def spoil(order, outcome):
        assert read_status(path).running
        with pytest.raises(StagewiseError, match="another process is running it"):
            sit(path, ScriptedTransport(scenario))
        return outcome

    sit(path, ScriptedTransport(scenario, spoil=spoil), rounds=2)
    assert not read_status(path).running
    assert json.loads((path / STATUS).read_text())["phase"] == "finished"
