"""The cloud's process dies in the middle of a round: nothing is lost but that round."""

import json
from dataclasses import replace

import numpy as np
import pytest
from live_cases import ScriptedTransport, coordinator_of, planned, play, run_in, two_edges

from stagewise.checker import check
from stagewise.cli.main import main
from stagewise.decisions import Answer
from stagewise.deploy.records import LIVE, STATUS, load_live
from stagewise.deploy.status import adds_up, read_status
from stagewise.errors import StagewiseError
from stagewise.files import write_bytes
from stagewise.policies.policy import Policy
from stagewise.runs.checkpoint_files import CHECKPOINT
from stagewise.runs.config import Replanning
from stagewise.runs.directory import ONLINE, RunDirectory, lock
from stagewise.runs.run import load_run
from stagewise.world.forecasts import RollingForecast

GONE = {1: ["c0"], 2: ["es0"], 4: ["c1", "c3"]}
TIMINGS = {"decision_ms", "wall_s", "poll_s", "plan_ms"}


def lines_of(path, name):
    """A file of JSON lines without what a clock measured."""
    lines = [json.loads(line) for line in (path / name).read_text().splitlines()]
    return [
        {key: value for key, value in line.items() if key not in TIMINGS}
        if isinstance(line, dict)
        else line
        for line in lines
    ]


def stopping(scenario, in_round, error=KeyboardInterrupt):
    """Polls are numbered from the first of the whole run."""

    def spoil(order, trained):
        if order.round == in_round:
            raise error
        return trained

    return ScriptedTransport(scenario, GONE, spoil)


@pytest.mark.fault(
    "The cloud's process is stopped in a round",
    "the same command goes on, and ends with the same files",
)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, StagewiseError("the engine")])
def test_a_run_that_was_stopped_ends_as_one_that_was_not(tmp_path, error):
    scenario = two_edges()
    straight = run_in(tmp_path / "a", ScriptedTransport(scenario, GONE))
    for stop in (0, 3):
        with pytest.raises(error if isinstance(error, type) else type(error)):
            run_in(tmp_path / "b", stopping(scenario, stop, error))
        assert read_status(tmp_path / "b").phase == "stopped"
        assert len(load_run(tmp_path / "b").records) == stop
    again = ScriptedTransport(scenario, GONE, polls=3)
    resumed = run_in(tmp_path / "b", again)
    assert [order.round for order in again.orders] == [3, 4, 5]
    for name in ("decisions.jsonl", "rounds.jsonl", "online.jsonl", LIVE):
        assert lines_of(tmp_path / "a", name) == lines_of(tmp_path / "b", name)
    np.testing.assert_array_equal(straight.weights["w"], resumed.weights["w"])
    assert resumed.finished
    assert read_status(tmp_path / "b").phase == "finished"


@pytest.mark.fault(
    "The cloud's process is killed while it writes", "half-written lines are cut off"
)
def test_what_a_killed_process_left_behind_is_cut_off(tmp_path):
    scenario, path = two_edges(), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run_in(path, stopping(scenario, 3))
    whole = (path / LIVE).read_bytes()
    # Lines that the checkpoint knows nothing of, and a part of one.
    with (path / LIVE).open("ab") as stream:
        stream.write(3 * whole + b'{"round":')
    with (path / ONLINE).open("ab") as stream:
        stream.write(b'["c0"]\n')
    (path / ".live.part").write_bytes(b"")
    run_in(path, ScriptedTransport(scenario, GONE, polls=3))
    assert [line.round for line in load_live(path, 6)] == list(range(6))
    assert (path / LIVE).read_bytes().count(b"\n") == 6
    run = load_run(path)
    assert len(run.online) == 6
    assert check(scenario, run.decisions, run.online) == []
    assert not (path / ".live.part").exists()


def test_what_was_learned_is_known_again(tmp_path):
    scenario = two_edges()
    transport = ScriptedTransport(scenario, train_s=2.0)
    coordinator, played = play(transport, rounds=4)
    again = coordinator_of(transport)
    again.restore([one.live for one in played])
    edge_of = planned(scenario).plan.edge_of
    assert again.costs.delay_s(edge_of) == coordinator.costs.delay_s(edge_of)
    assert again.deadlines.round_s(1.0, 2) == coordinator.deadlines.round_s(1.0, 2)
    assert again.deadlines.roll_call_s() == coordinator.deadlines.roll_call_s()


def test_measured_delays_are_the_next_round_s_and_true_by_the_files(tmp_path, capsys):
    scenario, path = two_edges(), tmp_path / "run"
    transport = ScriptedTransport(scenario, GONE, train_s=4.0)
    run = run_in(path, transport, measured_costs=True)
    lines = [json.loads(line) for line in (path / ONLINE).read_text().splitlines()]
    assert isinstance(lines[0], list)  # nothing was measured yet
    for index, line in enumerate(lines[1:], start=1):
        links = {
            (client, edge): cost
            for client, row in line["links"].items()
            for edge, cost in row.items()
        }
        assert len(links) == len(scenario.links)
        assert all(set(cost) == {"delay_s", "energy_j"} for cost in links.values())
        # What the loop decided on is what the file says, and nothing but delays has changed.
        delay_s, energy_j = run.online[index].costs.delay_s, run.online[index].costs.energy_j
        np.testing.assert_array_equal([cost["delay_s"] for cost in links.values()], delay_s)
        np.testing.assert_array_equal(energy_j, scenario.costs.energy_j)
    assert (run.online[5].delay_s > scenario.costs.delay_s).all()
    assert run.decisions[5].delay_s > 2 * run.decisions[0].delay_s
    assert check(scenario, run.decisions, run.online) == []
    names = [str(path / name) for name in ("scenario.json", "decisions.jsonl", ONLINE)]
    assert main(["check", *names[:2], "--online", names[2]]) == 0
    lines[5]["links"]["c0"]["es0"]["delay_s"] *= 2
    (path / ONLINE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["check", *names[:2], "--online", names[2]]) == 1


def test_a_run_with_measured_delays_that_was_stopped_ends_as_one_that_was_not(tmp_path):
    scenario = two_edges()
    run_in(tmp_path / "a", ScriptedTransport(scenario, GONE, train_s=4.0), measured_costs=True)
    stopped = stopping(scenario, 3)
    stopped.train_s = 4.0
    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path / "b", stopped, measured_costs=True)
    run_in(tmp_path / "b", ScriptedTransport(scenario, GONE, train_s=4.0, polls=3))
    assert (tmp_path / "a" / ONLINE).read_bytes() == (tmp_path / "b" / ONLINE).read_bytes()
    checkpoints = [(tmp_path / name / CHECKPOINT).read_bytes() for name in "ab"]
    assert checkpoints[0] == checkpoints[1]
    for name in ("decisions.jsonl", "rounds.jsonl", LIVE):
        assert lines_of(tmp_path / "a", name) == lines_of(tmp_path / "b", name)


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    scenario, path = two_edges(), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run_in(path, stopping(scenario, 3))
    from stagewise.runs.checkpoint import checkpoint_content

    state = RunDirectory.open(path).state()
    (path / "chain.jsonl").unlink()  # with it the file would be one that is damaged
    write_bytes(
        path / CHECKPOINT, checkpoint_content({"w": np.zeros(3, dtype=np.float32)}, 2, state)
    )
    with pytest.raises(StagewiseError, match="the weights must be those of the run's model"):
        run_in(path, ScriptedTransport(scenario))


def test_a_line_that_is_missing_is_noticed(tmp_path):
    scenario, path = two_edges(), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run_in(path, stopping(scenario, 3))
    lines = (path / LIVE).read_bytes().splitlines(keepends=True)
    (path / LIVE).write_bytes(lines[0] + lines[2])
    with pytest.raises(StagewiseError, match=r"live\.jsonl: the rounds must be in order"):
        run_in(path, ScriptedTransport(scenario))


def test_plan_a_runs_beside_the_rounds_with_what_was_observed(tmp_path):
    """c0 is never there: the plan that is ordered after four rounds is made for who came."""
    scenario, path = replace(two_edges(), window=3), tmp_path / "run"
    transport = ScriptedTransport(scenario, dict.fromkeys(range(99), ("c0",)))
    with pytest.raises(KeyboardInterrupt):
        run_in(
            path,
            ScriptedTransport(scenario, transport.gone, stopping(scenario, 5).spoil),
            rounds=9,
            replanning=Replanning(every=4),
        )
    transport.polls = 5
    run = run_in(path, transport)
    state = RunDirectory.open(path).state()
    assert [ordered for ordered, _ in state["orders"]] == [3, 7]
    assert state["adopted"] == [4, 8]
    later = [json.loads(plan.read_text()) for plan in RunDirectory.open(path).later_plans()]
    forecast = RollingForecast(scenario.clients.online_probability, window=3)
    for _ in range(4):
        forecast.observe(np.arange(6) > 0)
    known = forecast.probabilities()
    assert known[0] < 0.4 < 0.9 < known[1]
    assert later[0]["scenario_sha256"] == scenario.as_of(online_probability=known).sha256
    assert len(later) == 2
    assert check(scenario, run.decisions, run.online) == []
    assert adds_up(load_live(path, 9))


class Counting(Policy):
    """A policy of somebody else's: its answer depends on how often it was asked."""

    name = "counting"

    def __init__(self):
        self.asked, self.rounds = 0, []

    def decide(self, round_):
        self.asked += 1
        self.rounds.append(round_.index)
        edges = np.flatnonzero(round_.edges_up)
        return Answer(np.where(round_.online, edges[self.asked % len(edges)], -1))

    def state(self):
        return {"asked": self.asked}

    def restore(self, state):
        self.asked = state["asked"]


def test_a_policy_with_a_state_goes_on_with_it_and_is_asked_about_no_round_twice(tmp_path):
    scenario = two_edges()
    run_in(tmp_path / "a", ScriptedTransport(scenario, GONE), Counting(), remedy="drop")
    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path / "b", stopping(scenario, 4), Counting(), remedy="drop")
    resumed = Counting()
    run_in(tmp_path / "b", ScriptedTransport(scenario, GONE, polls=4), resumed)
    assert resumed.rounds == [4, 5]
    assert lines_of(tmp_path / "a", "decisions.jsonl") == lines_of(
        tmp_path / "b", "decisions.jsonl"
    )
    states = [RunDirectory.open(tmp_path / name).state() for name in "ab"]
    assert states[0] == states[1] == {"policy": {"asked": 6}}


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


@pytest.mark.fault("Two clouds on one folder", "the second is refused")
def test_two_processes_cannot_run_one_folder(tmp_path):
    scenario, path = two_edges(), tmp_path / "run"

    def spoil(order, trained):
        assert read_status(path).running
        with pytest.raises(StagewiseError, match="another process is running it"):
            run_in(path, ScriptedTransport(scenario))
        return trained

    run_in(path, ScriptedTransport(scenario, spoil=spoil), rounds=2)
    assert not read_status(path).running
    assert json.loads((path / STATUS).read_text())["phase"] == "finished"


@pytest.mark.fault(
    "One bit of a deployment's checkpoint is flipped",
    "it is refused by name, and the one before is used",
)
def test_a_damaged_checkpoint_and_a_rollback_in_a_deployment(tmp_path, capsys):
    path = tmp_path / "run"
    up = ["deploy", "up", "--out", str(path)]
    system = ["--design", "in-process", "--dataset", "digits", "--clients", "4", "--edges", "2"]
    assert main([*up, *system, "--rounds", "4"]) == 0
    weights = load_run(path).weights
    content = bytearray((path / CHECKPOINT).read_bytes())
    content[-5] ^= 64
    (path / CHECKPOINT).write_bytes(content)
    capsys.readouterr()
    assert main(["check-run", str(path)]) == 1
    assert main(up) == 0
    assert f"{path / CHECKPOINT}: damaged" in capsys.readouterr().err
    for name, array in load_run(path).weights.items():
        np.testing.assert_array_equal(array, weights[name])
    assert main(["check-run", str(path)]) == 0
    assert main(["deploy", "rollback", str(path), "--to", "1"]) == 0
    assert len(load_live(path, len(load_run(path).records))) == 2
    assert main(up) == 0
    assert main(["check-run", str(path)]) == 0
    assert [event.kind for event in RunDirectory(path).events()] == ["rolled-back"]
    lines = (path / LIVE).read_bytes()
    (path / LIVE).write_bytes(lines.replace(b'"fate":"counted"', b'"fate":"late"', 1))
    capsys.readouterr()
    assert main(["check-run", str(path)]) == 1
    assert "live.jsonl: round 0: is not as it was written" in "".join(capsys.readouterr())
