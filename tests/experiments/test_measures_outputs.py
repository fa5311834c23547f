"""A cell's outputs, computed again another way."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

import stagewise
from stagewise.datasets import Dataset
from stagewise.errors import StagewiseError, TrainingDiverged
from stagewise.problem.risk import risk_measure
from stagewise.runs.config import Replanning
from stagewise.runs.target import rounds_to_target
from stagewise.world.generate import numeric
from stagewise.world.scenario import Limits
from stagewise_experiments.measures import decided, fairness, run_cell
from stagewise_experiments.measures.risk import violation_shares
from stagewise_experiments.measures.scenarios import make_rounds, make_scenario, read_dataset
from stagewise_experiments.measures.training import fewer_test_images
from stagewise_experiments.setting import make_setting

SMALL = {"clients": 24, "edges": 2, "data_min": 1200, "kld_max": 0.6}
TIMINGS = ("decision_ms", "plan_ms")


def setting_of(measure, policy, scenario=SMALL, **fields):
    given = {"measure": measure, "policy": policy, "seed": 2, "rounds": 4, "scenario": scenario}
    return make_setting({**given, **fields}, "test")


def without_timings(outputs):
    """The outputs as JSON reads them back; a timing is left as whether there is one."""
    if isinstance(outputs, dict):
        return {
            name: value is None if name in TIMINGS else without_timings(value)
            for name, value in outputs.items()
        }
    return [without_timings(value) for value in outputs] if isinstance(outputs, list) else outputs


@pytest.mark.parametrize("policy", ["stagewise-paper", "fedcs", "c2e-assoc-only"])
def test_decisions_are_those_of_compare(policy):
    setting = setting_of("decisions", policy)
    outputs = run_cell(setting)
    scenario, rounds = make_rounds(setting)
    [summary] = stagewise.compare(scenario, rounds, methods=[policy], seed=2)
    got = outputs["rounds"]
    assert len(got) == summary.rounds == 4
    for name in ("objective", "delay_s", "energy_j", "clients"):
        assert np.mean([r[name] for r in got]) == pytest.approx(getattr(summary, name), rel=1e-12)
    assert sum(r["feasible"] for r in got) == summary.feasible_rounds
    decided = stagewise.solve(scenario, rounds, method=policy, seed=2)
    for ours, decision in zip(got, decided, strict=True):
        busy = decision.evaluation.clients > 0
        assert ours["kld"] == pytest.approx(decision.evaluation.kld[busy].mean())
        assert (ours["objective"], ours["lower_bound"]) == (decision.objective, None)
    assert (outputs["plan_ms"] is None) == (summary.plan_ms is None)
    assert without_timings(run_cell(setting)) == without_timings(outputs)
    assert json.loads(json.dumps(outputs, allow_nan=False)) == outputs


def test_exact_brings_its_bound_within_its_time(monkeypatch):
    setting = setting_of("decisions", "exact", rounds=1)
    [proven] = run_cell(setting)["rounds"]
    assert proven["lower_bound"] <= proven["objective"] <= 1.001 * proven["lower_bound"]
    given = []
    real = stagewise.make_policy

    def make(name, scenario, seed, seconds):
        given.append(seconds)
        return real(name, scenario, seed, seconds)

    monkeypatch.setattr(decided.stagewise, "make_policy", make, raising=False)
    run_cell(setting)
    assert given[-1] == decided.SECONDS["exact"]


def test_an_edge_without_clients_has_no_divergence():
    # Nobody is ever online.
    outputs = run_cell(setting_of("decisions", "fedcs", {**SMALL, "p_min": 1e-9, "p_max": 1e-9}))
    for got in outputs["rounds"]:
        assert (got["kld"], got["clients"], got["feasible"]) == (None, 0, False)


def test_plans_are_made_again_only_where_there_is_a_plan():
    changing = {"participation": {"fluctuate": True}, "rounds": 6}
    for policy, differs in (("stagewise-paper", True), ("fedcs", False)):
        once = run_cell(setting_of("decisions", policy, **changing))
        again = run_cell(setting_of("decisions", policy, replan_every=2, **changing))
        kept = without_timings(once) == without_timings(again)
        assert kept is not differs
        assert without_timings(once["rounds"][:2]) == without_timings(again["rounds"][:2])


def test_diversity_is_the_pools():
    with pytest.raises(StagewiseError, match="diversity = 2: needs a policy that takes surcharges"):
        run_cell(setting_of("decisions", "fedcs", diversity=2.0))


@pytest.mark.parametrize(("method", "risk"), [("paper", "markov"), ("paper", None)])
def test_planning_is_the_plan(method, risk):
    setting = setting_of("planning", method, risk=risk)
    outputs = run_cell(setting)
    plan = stagewise.plan(make_scenario(setting), method=method, risk=risk or "exact", seed=2)
    assert outputs["plan_ms"] > 0
    assert without_timings(outputs) == {
        "plan_ms": False,
        "objective": plan.objective,
        "feasible": plan.feasible,
        "clients": len(plan.assignment),
    }


def test_an_unknown_method_or_planner_is_refused():
    for measure in ("decisions", "training", "planning", "risk"):
        with pytest.raises(StagewiseError, match="method = 'pols': must be one of"):
            run_cell(setting_of(measure, "pols", dataset="digits"))


def patterns_in_violation(scenario, members):
    """(KLD, data) violation probabilities by every pattern of who is online."""
    chances = scenario.clients.online_probability[members]
    counts = scenario.clients.label_counts[members]
    kld_risk = data_risk = 0.0
    for pattern in itertools.product([0, 1], repeat=len(members)):
        chance = np.prod([p if on else 1 - p for p, on in zip(chances, pattern, strict=True)])
        sums = np.array(pattern) @ counts
        if sums.sum() < scenario.limits.data_min:
            data_risk += chance
        if sums.sum() > 0:
            share = sums / sums.sum()
            kld = sum(s * np.log(s * scenario.labels) for s in share if s > 0)
            kld_risk += chance * (kld > scenario.limits.kld_max)
        else:
            kld_risk += chance
    return kld_risk, data_risk


def test_violations_by_all_patterns():
    scenario = numeric(12, 3, 1, limits=Limits(data_min=1500, kld_max=0.7))
    edge_of = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, -1, -1, -1])
    draws = 40_000
    kld, data = violation_shares(scenario, edge_of, draws, seed=5)
    assert (kld[2], data[2]) == (1, 1)  # nobody is ever there
    for edge in (0, 1):
        members = np.flatnonzero(edge_of == edge)
        expected = patterns_in_violation(scenario, members)
        assert all(0 < chance < 1 for chance in expected[:1])
        for share, chance in zip((kld[edge], data[edge]), expected, strict=True):
            assert abs(share - chance) < 4.5 * np.sqrt(chance * (1 - chance) / draws) + 1e-12


def test_risk_is_that_of_the_plan():
    setting = setting_of("risk", "paper", draws=30_000)
    outputs = run_cell(setting)
    scenario = make_scenario(setting)
    plan = stagewise.plan(scenario, method="paper", seed=2)
    exact = risk_measure(scenario, "exact")
    risks = []
    for edge in range(2):
        members = np.flatnonzero(plan.edge_of == edge)
        risks.append(exact.of(members))
    kld, data = np.array(risks).T
    # Four and a half standard deviations of a share of 30,000 draws.
    for name, true in (("kld", kld), ("data", data)):
        assert outputs[f"{name}_violation"] == pytest.approx(true.mean(), abs=0.013)
        assert outputs[f"{name}_violation_worst"] == pytest.approx(true.max(), abs=0.013)
    assert (outputs["feasible"], outputs["clients"]) == (plan.feasible, len(plan.assignment))
    assert without_timings(run_cell(setting)) == without_timings(outputs)
    other = run_cell(setting_of("risk", "paper", draws=100))
    assert round(100 * 2 * other["data_violation"]) == pytest.approx(200 * other["data_violation"])


DIGITS = {"clients": 12, "edges": 2, "data_min": 2000, "kld_max": 1.0}
FIELDS = ("accuracy", "loss", "objective", "delay_s", "energy_j", "clients", "feasible")


@pytest.fixture
def digits():
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")


@pytest.mark.usefixtures("digits")
def test_no_cell_judges_updates(monkeypatch):
    """Answers are decided ahead of training, so nobody may be quarantined in between."""
    given = {}

    def simulated(*arguments, **options):
        given.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(stagewise, "simulate", simulated)
    with pytest.raises(KeyboardInterrupt):
        run_cell(setting_of("training", "fedcs", DIGITS, dataset="digits", rounds=2))
    assert (given["aggregator"], given["quarantine_rounds"]) == ("plain-mean", 0)


@pytest.mark.parametrize("policy", ["stagewise-paper", "fedcs"])
@pytest.mark.usefixtures("digits")
def test_training_is_simulate(policy):
    setting = setting_of(
        "training", policy, DIGITS, dataset="digits", rounds=5, evaluate_every=2, replan_every=2
    )
    outputs = run_cell(setting)
    scenario, rounds = make_rounds(setting)
    run = stagewise.simulate(
        scenario,
        "digits",
        policy,
        rounds=5,
        seed=2,
        participation=rounds,
        evaluate_every=2,
        replanning=Replanning(every=2 if policy == "stagewise-paper" else None),
    )
    assert len(run.records) == len(outputs["rounds"]) == 5
    for ours, theirs in zip(outputs["rounds"], run.records, strict=True):
        assert {name: ours[name] for name in FIELDS} == {
            name: getattr(theirs, name) for name in FIELDS
        }
    assert len(outputs["plan_ms"]) == len(run.plan_ms) == (3 if run.plan_ms else 0)
    assert (outputs["samples"], outputs["stopped"]) == (1442, None)
    assert without_timings(run_cell(setting)) == without_timings(outputs)
    assert json.loads(json.dumps(outputs, allow_nan=False)) == outputs


@pytest.mark.usefixtures("digits")
def test_training_ends_at_its_target():
    full = setting_of("training", "fedcs", DIGITS, dataset="digits", rounds=6)
    accuracy = [got["accuracy"] for got in run_cell(full)["rounds"]]
    target = sum(accuracy[1:4]) / 3
    until = rounds_to_target(accuracy, target)
    assert until is not None
    assert 3 <= until < 6
    aimed = {"dataset": "digits", "rounds": 6, "target_accuracy": target}
    for stops, expected in ((True, accuracy[:until]), (False, accuracy)):
        outputs = run_cell(setting_of("training", "fedcs", DIGITS, **aimed, stop_at_target=stops))
        assert outputs["target_accuracy"] == target
        assert [got["accuracy"] for got in outputs["rounds"]] == expected


@pytest.mark.usefixtures("digits")
def test_whom_a_model_serves():
    """The model is run again, image after image, and clients draw test images with their own labels."""
    import torch

    from stagewise.models import build_model

    data = read_dataset("digits")
    run = stagewise.simulate(dataset="digits", policy="fedcs", rounds=3, seed=4)
    ever = set()
    for decision in run.decisions:
        ever |= set(decision.assignment)
    assert fairness.clients_trained(run) == len(ever) / len(run.scenario.clients.ids)

    model = build_model(run.config.model, data.classes, data.image_shape).eval()
    model.load_state_dict({name: torch.tensor(part) for name, part in run.weights.items()})
    right = []
    for image in data.test_images:
        scaled = (image / 255.0 - data.mean[:, None, None]) / data.std[:, None, None]
        with torch.no_grad():
            right.append(int(model(torch.tensor(scaled[None], dtype=torch.float32)).argmax()))
    hits = np.array(right) == data.test_labels
    assert hits.mean() == pytest.approx(run.accuracy)
    by_label = [hits[data.test_labels == label].mean() for label in range(data.classes)]
    np.testing.assert_allclose(fairness.label_accuracies(run, data), by_label)
    clients = run.scenario.clients
    own = sorted(
        sum(count * share for count, share in zip(row, by_label, strict=True)) / sum(row)
        for row in clients.label_counts.tolist()
    )
    tenth = own[: -(-len(own) // 10)]
    assert fairness.worst_tenth(run, data) == pytest.approx(sum(tenth) / len(tenth))
    assert fairness.worst_tenth(replace(run, weights=None), data) is None


@pytest.mark.usefixtures("digits")
def test_fewer_test_images_are_spread_over_the_classes():
    data = read_dataset("digits")
    part = fewer_test_images(data, 47)
    assert len(part.test_labels) == 47
    assert set(np.bincount(part.test_labels, minlength=10)) == {4, 5}
    np.testing.assert_array_equal(fewer_test_images(data, 47).test_images, part.test_images)
    whole = {(image.tobytes(), label) for image, label in zip(*images_of(data), strict=True)}
    assert {
        (image.tobytes(), label) for image, label in zip(*images_of(part), strict=True)
    } <= whole
    assert part.train_images is data.train_images
    assert fewer_test_images(data, 355) is data
    assert fewer_test_images(data, 10_000) is data
    setting = setting_of("training", "fedcs", DIGITS, dataset="digits", rounds=1, test_samples=47)
    [got] = run_cell(setting)["rounds"]
    assert round(47 * got["accuracy"]) == pytest.approx(47 * got["accuracy"], abs=1e-9)


def test_the_test_images_taken_do_not_depend_on_their_order():
    """Where the second half is harder, fewer images have as many of them as all do."""
    labels = np.tile(np.arange(10), 400)
    images = np.zeros((4000, 1, 8, 8), dtype=np.uint8)
    images[2000:] = 1
    data = Dataset("sorted", images, labels, images, labels, 10)
    part = fewer_test_images(data, 1000)
    assert abs(part.test_images[:, 0, 0, 0].mean() - 0.5) < 0.06
    assert set(np.bincount(part.test_labels)) == {100}


def test_rare_classes_leave_their_part_to_others():
    images = np.zeros((12, 1, 8, 8), dtype=np.uint8)
    labels = np.array([0] * 9 + [1, 2, 2])
    data = Dataset("rare", images, labels, images, labels, 3)
    assert list(np.bincount(fewer_test_images(data, 8).test_labels)) == [5, 1, 2]


def images_of(data):
    return data.test_images, data.test_labels.tolist()


@pytest.mark.usefixtures("digits")
def test_training_that_diverges_is_a_result(monkeypatch):
    fields = {"dataset": "digits", "rounds": 5, "target_accuracy": 1.0}
    wild = run_cell(setting_of("training", "fedcs", DIGITS, **fields, learning_rate=1e30))
    assert "training diverged" in wild["stopped"]
    assert wild["rounds"] == []

    calm = run_cell(setting_of("training", "fedcs", DIGITS, **fields))
    from stagewise.training import Trainer

    train_round = Trainer.train_round

    def fail_in_the_fourth(team, weights, groups, round_index, **options):
        if round_index == 3:
            raise TrainingDiverged("client 1: the loss is nan")
        return train_round(team, weights, groups, round_index, **options)

    monkeypatch.setattr(Trainer, "train_round", fail_in_the_fourth)
    cut = run_cell(setting_of("training", "fedcs", DIGITS, **fields))
    assert cut["stopped"] == "client 1: the loss is nan"
    assert without_timings(cut["rounds"]) == without_timings(calm["rounds"][:3])


@pytest.mark.usefixtures("digits")
def test_the_device_is_passed_on():
    setting = setting_of("training", "fedcs", DIGITS, dataset="digits", rounds=1)
    with pytest.raises(StagewiseError, match="device = 'tpu': must be 'cpu', 'cuda'"):
        run_cell(setting, "tpu")
