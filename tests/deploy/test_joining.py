"""A client is added to a site while a run goes on: files, interruptions, and real processes."""

import shutil
import sys
import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

pytest.importorskip("flwr", reason="the deploy extra is not installed")
pytest.importorskip("torch")

from deploy_cases import TASK, wait_until
from live_cases import Evaluator, ScriptedTransport, run_in, two_edges
from test_coordinator_resume import lines_of

from stagewise.cli.main import main
from stagewise.datasets import load_dataset, partition
from stagewise.datasets.dataset import Dataset
from stagewise.deploy import joining
from stagewise.deploy import up as up_module
from stagewise.deploy.children import free_ports
from stagewise.deploy.init import init_site
from stagewise.deploy.joining import admit, can_join, site_watch, with_joined
from stagewise.deploy.layout import host_folder
from stagewise.deploy.membership import SiteFolder
from stagewise.deploy.options import DeployOptions, check_repeats
from stagewise.deploy.processes import _site_on_loopback
from stagewise.deploy.records import LIVE, load_deployment, load_live
from stagewise.deploy.starting import beside
from stagewise.deploy.status import read_status
from stagewise.deploy.up import up
from stagewise.errors import StagewiseError
from stagewise.runs.directory import NEXT, RunDirectory
from stagewise.runs.metrics import RunMetrics
from stagewise.runs.run import Run, load_run
from stagewise.world.records import ClientRecord, Measured
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import client_records, save_scenario, with_clients

HOST = "127.0.0.1"
ADDED_IN = 2


def system(clients: int = 6, **fields) -> Scenario:
    return two_edges(clients, labels=10, **fields)


def row_of(scenario: Scenario, name: str = "new") -> ClientRecord:
    """A client like the first, but cheaper than all others, by what was measured."""
    first = client_records(scenario)[0]
    links = dict.fromkeys(first.links, Measured(delay_s=1e-3, energy_j=1e-6))
    return msgspec.structs.replace(first, id=name, links=links)


def run_on(out: Path, transport: ScriptedTransport, **fields) -> Run:
    """The run to its end; what it would train is the site's task."""
    return run_in(out, transport, dataset="digits", model="mlp", **fields)


def site_beside(out: Path, scenario: Scenario) -> SiteFolder:
    """The folder that a deployment on this machine has beside its run."""
    folder = beside(out) / "site"
    folder.parent.mkdir(parents=True)
    init_site(_site_on_loopback(scenario, "H"), scenario, TASK, folder)
    return SiteFolder(folder)


def adding(out: Path, scenario: Scenario) -> ScriptedTransport:
    """A client is added while round `ADDED_IN` is trained."""
    site = site_beside(out, scenario)

    def add(order, trained):
        if order.round == ADDED_IN:
            site.add_client("new", HOST, row_of(scenario))
        return trained

    return ScriptedTransport(scenario, spoil=add)


def going_on(out: Path, stop_in: int | None = None) -> ScriptedTransport:
    """What the run goes on with, as its folder says now."""

    directory = RunDirectory.open(out)
    spoil = stopping(stop_in)
    return ScriptedTransport(directory.scenario(), spoil=spoil, polls=directory.complete)


def stopping(stop_in: int | None):
    """The process is stopped while round `stop_in` is trained."""

    def stop(order, trained):
        if order.round == stop_in:
            raise KeyboardInterrupt
        return trained

    return stop


def joined_run(out: Path, **fields) -> None:
    """A run that ended between two rounds, since a client joined, and has it in its files."""
    scenario = system()
    run = run_on(out, adding(out, scenario), **fields)
    assert not run.finished
    assert len(run.records) == ADDED_IN + 1
    assert read_status(out).phase == "starting"
    admit(RunDirectory.open(out), machine_folder_of(out))


def machine_folder_of(out: Path) -> Path:
    return host_folder(beside(out) / "site", HOST)


def test_a_new_client_trains_from_the_next_round_on(tmp_path, capsys):
    out = tmp_path / "run"
    joined_run(out)
    assert capsys.readouterr().err.endswith("new: joined, from round 4 on\n")
    run = run_in(out, going_on(out))
    assert run.finished
    served = ["new" in decision.assignment for decision in run.decisions]
    assert not any(served[: ADDED_IN + 1])
    assert all(served[ADDED_IN + 1 :])
    events = [(event.round, event.kind, event.client) for event in RunDirectory(out).events()]
    assert events == [(ADDED_IN + 1, "joined", "new")]
    assert main(["check-run", str(out)]) == 0
    # Nobody else's estimates or data have changed.
    before, after = system(), run.scenario
    assert client_records(after)[:-1] == client_records(before)


@pytest.mark.fault(
    "The cloud's process is stopped after a client has joined the site",
    "the same command goes on with the client, and ends with the same files",
)
def test_a_run_that_was_stopped_after_it_ends_as_one_that_was_not(tmp_path, monkeypatch):
    straight, stopped = tmp_path / "a", tmp_path / "b"
    joined_run(straight)
    run_in(straight, going_on(straight))
    with monkeypatch.context() as patched:
        # The process dies with the new files ready, and none of them in its place.
        patched.setattr(RunDirectory, "_take_next", lambda self: None)
        joined_run(stopped)
    assert (stopped / NEXT).is_dir()
    assert "new" not in RunDirectory(stopped).scenario().clients.index
    RunDirectory(stopped).repair()
    for stop in (ADDED_IN + 1, ADDED_IN + 2):
        with pytest.raises(KeyboardInterrupt):
            run_in(stopped, going_on(stopped, stop))
        admit(RunDirectory(stopped), machine_folder_of(stopped))  # there is nobody more
    run_in(stopped, going_on(stopped))
    begun_with = tmp_path / "begun.json"
    save_scenario(system(), begun_with)
    options = DeployOptions(local=True, clients=6, edges=2, scenario=str(begun_with))
    run, deployment = load_run(stopped), load_deployment(stopped)
    check_repeats(stopped, options, (run.config, run.scenario, deployment))
    names = ("decisions.jsonl", "rounds.jsonl", "online.jsonl", "events.jsonl", LIVE)
    for name in names:
        assert lines_of(straight, name) == lines_of(stopped, name)
    for name in ("scenario.json", "config.toml"):
        assert (straight / name).read_bytes() == (stopped / name).read_bytes()
    assert RunDirectory(stopped).faults() == []
    np.testing.assert_equal(load_run(straight).weights, load_run(stopped).weights)


@pytest.mark.parametrize("moved", range(4))
@pytest.mark.parametrize("by", ["repair", "recording"])
def test_new_files_that_were_partly_in_their_places_all_get_there(tmp_path, monkeypatch, moved, by):
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(RunDirectory, "_take_next", lambda self: None)
        joined_run(out)
    ready = sorted((out / NEXT).iterdir())
    contents = {path.name: path.read_bytes() for path in ready}
    assert len(contents) == 3
    for path in ready[:moved]:
        path.replace(out / path.name)
    if by == "repair":
        RunDirectory.open(out).repair()
    else:
        with RunDirectory.open(out).recording():
            pass
    assert not (out / NEXT).exists()
    assert {name: (out / name).read_bytes() for name in contents} == contents
    assert load_run(out).scenario.sha256 == RunDirectory(out).config().scenario_sha256


def test_another_number_of_clients_or_another_scenario_is_still_refused(tmp_path):
    out, begun_with = tmp_path / "run", tmp_path / "begun.json"
    joined_run(out)
    run, deployment = load_run(out), load_deployment(out)
    begun = run.config, run.scenario, deployment
    for count in (5, 7):
        with pytest.raises(StagewiseError, match=rf"clients = {count}: must be 6, as the run in"):
            check_repeats(out, DeployOptions(clients=count), begun)
    for other in (system(5), system(data_min=61)):
        save_scenario(other, begun_with)
        with pytest.raises(StagewiseError, match="must be the one the run in"):
            check_repeats(out, DeployOptions(scenario=str(begun_with)), begun)
    save_scenario(run.scenario, begun_with)
    check_repeats(out, DeployOptions(scenario=str(begun_with)), begun)


def test_rounds_before_it_joined_can_be_undone(tmp_path):
    out = tmp_path / "run"
    joined_run(out, keep_checkpoints=6)
    run_in(out, going_on(out))
    RunDirectory.open(out).roll_back(ADDED_IN - 1)
    run = run_in(out, going_on(out))
    assert run.finished
    served = ["new" in decision.assignment for decision in run.decisions]
    assert served == [False] * ADDED_IN + [True] * (6 - ADDED_IN)
    assert main(["check-run", str(out)]) == 0


def test_counters_are_those_of_all_rounds(tmp_path):
    pytest.importorskip("prometheus_client")
    out, (port,) = tmp_path / "run", free_ports(1)
    metrics = RunMetrics(port)
    joined_run(out, metrics=metrics)
    metrics = metrics.again()
    run_in(out, going_on(out), metrics=metrics)
    assert metrics.registry.get_sample_value("stagewise_rounds_total") == 6


def test_only_clients_can_join(tmp_path):
    scenario, out = system(), tmp_path / "run"
    site, folder = site_beside(out, scenario), machine_folder_of(out)
    assert with_joined(scenario, folder, TASK) is None
    site.add_client("new", HOST, row_of(scenario))
    grown = with_joined(scenario, folder, TASK)
    assert grown is not None
    assert grown.sha256 == with_clients(scenario, [row_of(scenario)]).sha256
    # What roll calls say of the others is kept.
    likely = scenario.as_of(online_probability=np.full(len(scenario.clients), 0.5))
    kept = with_joined(likely, folder, TASK)
    assert kept is not None
    assert kept.clients.online_probability.tolist() == [0.5] * 6 + [0.9]
    other = system(data_min=61)
    with pytest.raises(
        Exception, match=r"scenario\.json: must be that of the run, but for clients"
    ):
        with_joined(other, folder, TASK)
    shutil.rmtree(beside(out))
    assert with_joined(scenario, folder, TASK) is None


def without_training_samples(label: int) -> Dataset:
    data = load_dataset("digits")
    kept = data.train_labels != label
    return replace(data, train_images=data.train_images[kept], train_labels=data.train_labels[kept])


def test_a_run_goes_on_without_clients_that_cannot_join(tmp_path, monkeypatch, capsys):
    scenario, out = system(), tmp_path / "run"
    site, folder = site_beside(out, scenario), machine_folder_of(out)
    run_on(out, ScriptedTransport(scenario))
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    there = (folder / "scenario.json").read_bytes()
    site.add_client("new", HOST, row_of(scenario))

    def goes_on(reason: str) -> None:
        joined = site_watch(scenario, folder, TASK)
        assert not joined() and not joined()
        admit(RunDirectory.open(out), folder)
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 2
        assert all(reason in line and line.endswith("; the run goes on as it is") for line in said)
        assert before == {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}

    with monkeypatch.context() as patched:
        data = without_training_samples(9)
        patched.setattr("stagewise.deploy.task.load_dataset", lambda *given, **more: data)
        goes_on("label_counts[:, 9]: must be 0")
    (folder / "scenario.json").write_bytes(there)
    goes_on("clients ('new'): must also be in the scenario")
    save_scenario(with_clients(system(data_min=61), [row_of(scenario)]), folder / "scenario.json")
    goes_on("scenario.json: must be that of the run, but for clients")


def test_a_checkpoint_that_does_not_say_who_was_there_comes_first(tmp_path, monkeypatch, capsys):
    """That of an earlier version: the policy would go on without the client."""
    scenario, out = system(), tmp_path / "run"
    folder = machine_folder_of(out)
    run = run_on(out, adding(out, scenario))
    directory = RunDirectory.open(out)
    joined = site_watch(run.scenario, folder, TASK, partial(can_join, directory))
    with monkeypatch.context() as patched:
        patched.setattr(RunDirectory, "defence", lambda self: {})
        admit(directory, folder)
        assert "new: can join after the next round" in capsys.readouterr().err
        assert not joined()
    assert "new" not in directory.scenario().clients.index
    assert joined()
    admit(directory, folder)
    assert "new" in directory.scenario().clients.index


def test_a_client_that_is_added_while_the_run_prepares_is_not_lost(tmp_path, monkeypatch):
    """The site of a deployment on this machine is written again when its processes start."""
    scenario, out = system(), tmp_path / "run"
    site, folder = site_beside(out, scenario), machine_folder_of(out)
    with pytest.raises(KeyboardInterrupt):
        run_on(out, ScriptedTransport(scenario, spoil=stopping(ADDED_IN)))
    started: list[Scenario] = []

    def trainer(config, world):
        if "new" not in (folder / "site.toml").read_text():
            site.add_client("new", HOST, row_of(scenario))
        made = Evaluator()
        made.task = SimpleNamespace(dataset=SimpleNamespace(fingerprint=""))
        return nullcontext(made)

    def transport(path, begun, *rest):
        started.append(begun[1])
        return nullcontext(going_on(out))

    monkeypatch.setattr(up_module, "_trainer", trainer)
    monkeypatch.setattr(up_module, "_transport", transport)
    run = up(out, DeployOptions())
    assert run.finished
    assert ["new" in world.clients.index for world in started] == [True]
    assert ["new" in decision.assignment for decision in run.decisions[ADDED_IN:]] == [True] * 4
    assert with_joined(run.scenario, folder, TASK) is None


def test_files_that_are_still_being_copied_are_looked_at_again(tmp_path, monkeypatch, capsys):
    scenario, out = system(), tmp_path / "run"
    site, folder = site_beside(out, scenario), machine_folder_of(out)
    joined = site_watch(scenario, folder, TASK)
    assert not joined()
    before = (folder / "site.toml").read_bytes()
    site.add_client("new", HOST, row_of(scenario))
    after = (folder / "site.toml").read_bytes()
    (folder / "site.toml").write_bytes(before)
    assert not joined()
    assert capsys.readouterr().err == ""
    assert not joined()
    assert "clients ('new'): must also be in the site; the run goes on" in capsys.readouterr().err
    monkeypatch.setattr(joining, "read_cloud_folder", None)  # not read again without a change
    assert not joined()
    monkeypatch.undo()
    (folder / "site.toml").write_bytes(after)
    assert joined()


def test_data_of_the_others_is_dealt_as_before():
    data, rng = load_dataset("digits"), np.random.default_rng(0)
    counts = rng.integers(0, 60, (8, data.classes))
    few, more = partition(data, counts[:5], 3), partition(data, counts, 3)
    for client in range(5):
        np.testing.assert_array_equal(few.samples(client), more.samples(client))


@pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")
@pytest.mark.processes
@pytest.mark.xdist_group("processes")
@pytest.mark.fault(
    "A client that the scenario does not have is added while rounds go on, as real processes",
    "it trains in a later round; no round is lost; decisions pass the check",
)
def test_a_running_deployment_takes_a_client_in(tmp_path, record_property):
    out, rounds = tmp_path / "run", 40
    options = DeployOptions(
        local=True, clients=3, edges=2, dataset="digits", policy="fedcs", rounds=rounds, polls=0
    )
    failures: list[BaseException] = []

    def add() -> None:
        try:
            wait_until(lambda: (out / LIVE).exists() and (out / LIVE).stat().st_size, 120)
            scenario = RunDirectory.open(out).scenario()
            (tmp_path / "new.json").write_bytes(msgspec.json.encode(row_of(scenario)))
            site = str(beside(out) / "site")
            words = ["deploy", "add-client", site, f"new={HOST}"]
            assert main([*words, "--row", str(tmp_path / "new.json")]) == 0
        except BaseException as error:
            failures.append(error)

    adder = threading.Thread(target=add)
    adder.start()
    run = up(out, options)
    adder.join()
    assert not failures
    assert run.finished
    live = load_live(out, rounds)
    counted = [
        any(one.client == "new" and one.fate == "counted" for one in line.updates) for line in live
    ]
    assert any(counted)
    (event,) = (event for event in RunDirectory(out).events() if event.kind == "joined")
    record_property("seen", f"added in round {event.round}, counted in {sum(counted)} rounds")
    assert counted.index(True) >= event.round > 0
    assert main(["check-run", str(out)]) == 0
    assert read_status(out).adds_up
    assert up(out, options).finished  # the command that began it is not refused
