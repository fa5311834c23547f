"""What `deploy status` puts together from a run's files."""

import json
from dataclasses import replace

import pytest
from live_cases import MODEL_BYTES, ScriptedTransport, run_in, two_edges

from stagewise.cli.main import main
from stagewise.deploy.limits import save_refused
from stagewise.deploy.records import LIVE, STATUS
from stagewise.deploy.starting import Start
from stagewise.deploy.status import read_status
from stagewise.errors import StagewiseError


def four_rounds(path, design="H"):
    def spoil(order, trained):
        if order.round != 2:
            return trained
        first, *rest = trained.clients
        return replace(trained, clients=(replace(first, fate="late", reason="slow"), *rest))

    transport = ScriptedTransport(two_edges(), {3: ["es1"]}, spoil)
    run_in(path, transport, design=design, rounds=4)


def test_the_whole_of_it(tmp_path):
    four_rounds(tmp_path / "run")
    found = read_status(tmp_path / "run")
    assert (found.design, found.phase, found.running) == ("H", "finished", False)
    assert (found.complete, found.rounds) == (4, 4)
    assert found.edges == {"es0": True, "es1": False}
    assert found.clients == {f"c{i}": ["es0"] for i in range(6)}
    assert set(found.trains) == {"es0"}
    assert found.asked == sum(found.fates.values())
    assert found.fates["late"] == 1
    assert found.adds_up
    assert found.not_counted == ["round 2, edge round 0: c0 at es0: late: slow"]
    assert [line.round for line in found.history] == [0, 1, 2, 3]
    # The edge that is gone in the last round is not part of it.
    assert [line.feasible for line in found.history] == [True, True, True, True]
    assert [line.edges for line in found.history] == [2, 2, 2, 1]
    assert found.history[0].cloud_bytes == found.history[0].predicted_cloud_bytes
    assert found.history[0].cloud_bytes == 4 * MODEL_BYTES


def test_the_backhaul_is_measured_in_rounds_without_a_fault(tmp_path):
    """Rounds 0 and 1: two edges, six clients, two edge rounds; round 3: one edge."""
    four_rounds(tmp_path / "run")
    saved = read_status(tmp_path / "run").backhaul
    last = read_status(tmp_path / "run").history[3].serving
    assert saved.rounds == 3
    assert saved.predicted == pytest.approx((2 + 2 + 1) / (12 + 12 + 2 * last))
    assert saved.measured == pytest.approx(saved.predicted)


@pytest.mark.parametrize("design", ["F", "in-process"])
def test_no_saving_is_claimed_where_there_is_none(tmp_path, design):
    four_rounds(tmp_path / "run", design)
    assert read_status(tmp_path / "run").backhaul is None


def test_before_the_first_round(tmp_path):
    path = tmp_path / "run"

    def spoil(order, trained):
        found = read_status(path)
        assert (found.phase, found.round, found.complete) == ("training", 0, 0)
        assert found.running
        assert found.trains == {"es0": ["c0", "c2", "c4"], "es1": ["c1", "c3", "c5"]}
        assert found.deadline_s > 0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in(path, ScriptedTransport(two_edges(), spoil=spoil))
    found = read_status(path)
    assert (found.phase, found.running, found.history) == ("stopped", False, [])
    (path / STATUS).unlink()
    assert read_status(path).phase == "starting"


@pytest.mark.parametrize(
    "tamper",
    [
        lambda line: line["fates"].update(counted=line["fates"]["counted"] + 1),
        lambda line: line["updates"].append(line["updates"][0]),
        lambda line: line["updates"].pop(),
        lambda line: line["updates"][0].update(fate="lost"),
        lambda line: line["updates"][0].update(client="c2"),
        lambda line: line.update(asked=line["asked"] + 1),
        lambda line: line["faults"].append("update c0 at es0 in edge round 0: 2 reports"),
    ],
)
def test_what_does_not_add_up_is_said_not_to(tmp_path, tamper):
    path = tmp_path / "run"
    four_rounds(path)
    lines = [json.loads(line) for line in (path / LIVE).read_text().splitlines()]
    tamper(lines[1])
    (path / LIVE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert not read_status(path).adds_up


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(StagewiseError, match="not a run"):
        read_status(tmp_path)


def test_processes_and_those_that_had_to_be_started_again(tmp_path, capsys):
    four_rounds(tmp_path / "run")
    folder = tmp_path / "run.site" / "site" / "hosts" / "127.0.0.1"
    folder.mkdir(parents=True)
    (folder / "c0.log").write_text("training\nout of memory\n")
    fields = {"since": 1.0, "failures": 0}
    known = {
        "client-c0": {"pid": 17, "starts": 3, "ended": "by signal 9", "log": f"{folder}/c0.log"},
        "client-c1": {
            "pid": None,
            "starts": 1,
            "ended": "with status 2",
            "log": f"{folder}/c1.log",
        },
        "edge-es0": {"pid": 18, "starts": 1, "ended": "", "log": f"{folder}/es0.log"},
    }
    programs = {name: fields | each for name, each in known.items()}
    content = {"format": "stagewise-processes/1", "pid": 16, "programs": programs}
    (folder / "processes.json").write_text(json.dumps(content))
    found = read_status(tmp_path / "run")
    assert found.processes["edge-es0"].pid == 18
    assert found.troubles == [
        f"client-c0: ended by signal 9, started 3 times: out of memory ({folder}/c0.log)",
        f"client-c1: ended with status 2, started 1 times: it printed nothing ({folder}/c1.log)",
    ]
    (folder / "cloud").mkdir()
    save_refused({"c2: sends in the name of another": 3}, folder / "cloud")
    expected = ["cloud refused c2: sends in the name of another: 3 times"]
    assert read_status(tmp_path / "run").refused == expected
    # A run that is over is shown once, also with --watch.
    assert main(["deploy", "status", str(tmp_path / "run"), "--watch"]) == 0
    assert capsys.readouterr().out.count("design H, finished") == 1


def test_watching_a_start(tmp_path, capsys, monkeypatch):
    start = Start(tmp_path / "run.site")
    start.phase("waiting for the clients")
    start.missing([("c1", "es0")], 4)
    looks = []

    def look(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("stagewise.cli.deploy_commands.time.sleep", look)
    assert main(["deploy", "status", str(tmp_path / "run"), "--watch"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("waiting for the clients, for 0 s; no round yet") == 3
    assert shown.count("links: 3 of 4 have answered\nmissing: c1 at es0\n") == 3
