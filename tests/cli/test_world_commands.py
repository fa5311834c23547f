"""`stagewise scenario` and `stagewise availability`, on an app of their own."""

import json
import subprocess
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from stagewise.cli.world_commands import availability, scenario_app
from stagewise.errors import StagewiseError
from stagewise.world.generate import numeric, paper_set
from stagewise.world.rounds_file import load_rounds
from stagewise.world.scenario_file import load_scenario

app = typer.Typer()
app.add_typer(scenario_app, name="scenario")
app.command()(availability)

POINTS = "kind,id,lat,lon\nBS,7,-37.810,144.965\nBS,8,-37.812,144.967\n" + "".join(
    f"USER,{i},{-37.81 - i * 1e-4},{144.965 + i * 1e-4}\n" for i in range(9)
)


def run(*arguments: object) -> bytes:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def refused(*arguments: object) -> str:
    with pytest.raises(StagewiseError) as error:
        run(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def scenario_path(tmp_path):
    path = tmp_path / "s.json"
    run("scenario", "numeric", "--clients", 30, "--edges", 2, "--seed", 4, "-o", path)
    return path


def test_numeric_writes_the_scenario_of_its_arguments(scenario_path, tmp_path):
    assert load_scenario(scenario_path).sha256 == numeric(30, 2, 4).sha256
    binary = tmp_path / "s.safetensors"
    run("scenario", "numeric", "--clients", 30, "--edges", 2, "--seed", 4, "-o", binary)
    np.testing.assert_array_equal(load_scenario(binary).links.gain, numeric(30, 2, 4).links.gain)


def test_standard_output_is_the_file(scenario_path):
    shown = run("scenario", "numeric", "--clients", 30, "--edges", 2, "--seed", 4, "-o", "-")
    assert shown == scenario_path.read_bytes()


def test_every_option_arrives(tmp_path):
    path = tmp_path / "s.json"
    options = {
        "--task": "cifar10",
        "--radius-m": 900,
        "--p-min": 0.2,
        "--p-max": 0.3,
        "--local-steps": 7,
        "--edge-rounds": 2,
        "--data-min": 1234,
        "--kld-max": 0.7,
        "--kld-risk": 0.11,
        "--data-risk": 0.22,
        "--delay-weight": 3,
        "--energy-weight": 4,
        "--continuity-weight": 5,
    }
    run("scenario", "numeric", "-o", path, *(word for pair in options.items() for word in pair))
    scenario = load_scenario(path)
    assert scenario.model_bits == 32 * 576_778
    assert len(scenario.links) == 93 * 4
    assert scenario.clients.online_probability.min() >= 0.2
    assert scenario.clients.online_probability.max() < 0.3
    assert (scenario.local_steps, scenario.edge_rounds) == (7, 2)
    limits, weights = scenario.limits, scenario.weights
    assert (limits.data_min, limits.kld_max) == (1234, 0.7)
    assert (limits.kld_risk, limits.data_risk) == (0.11, 0.22)
    assert (weights.delay, weights.energy, weights.continuity) == (3, 4, 5)


def test_random_weights(tmp_path):
    run("scenario", "set1", "--random-weights", "--seed", 3, "-o", tmp_path / "s.json")
    weights = load_scenario(tmp_path / "s.json").weights
    assert weights.delay + weights.energy == pytest.approx(1)
    assert weights.delay != 0.5


@pytest.mark.parametrize(
    ("number", "option", "value"),
    [(1, "--clients", 80), (2, "--edges", 5), (3, "--data-min", 3000), (4, "--p-min", 0.6)],
)
def test_the_papers_sets(tmp_path, number, option, value):
    path = tmp_path / "s.json"
    run("scenario", f"set{number}", option, value, "--seed", 2, "-o", path)
    made, expected = load_scenario(path), paper_set(number, value, 2)
    np.testing.assert_array_equal(made.links.gain, expected.links.gain)
    np.testing.assert_array_equal(
        made.clients.online_probability, expected.clients.online_probability
    )
    assert made.limits.data_min == expected.limits.data_min
    assert "must be one of" in refused("scenario", f"set{number}", option, 9999, "-o", path)


def test_a_map_from_one_file_or_two(tmp_path):
    both, out = tmp_path / "points.csv", tmp_path / "s.json"
    both.write_text(POINTS)
    run("scenario", "map", "--points", both, "-o", out)
    scenario = load_scenario(out)
    assert scenario.edges.ids == ("bs7", "bs8")
    assert len(scenario.clients) == 9
    run("scenario", "map", "--sites", both, "--users", both, "-o", tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == out.read_bytes()
    run("scenario", "map", "--points", both, "--window", "-37.81045,-37.8,144,145", "-o", out)
    assert load_scenario(out).edges.ids == ("bs7",)
    assert len(load_scenario(out).clients) == 5


def test_maps_that_cannot_be_made(tmp_path):
    both, plain, empty = tmp_path / "both.csv", tmp_path / "plain.csv", tmp_path / "empty.csv"
    both.write_text(POINTS)
    plain.write_text("lat,lon\n1,2\n")
    empty.write_text("lat,lon\n")
    command = ("scenario", "map", "-o", tmp_path / "s.json")
    assert "must have --points, or --sites and --users" in refused(*command)
    assert "must have --points" in refused(*command, "--points", both, "--sites", both)
    assert "must have --points" in refused(*command, "--sites", both)
    assert "must have a kind column" in refused(*command, "--points", plain)
    found = refused(*command, "--sites", empty, "--users", plain)
    assert found == f"{empty}: must have at least one base station"
    found = refused(*command, "--sites", plain, "--users", empty)
    assert found == f"{empty}: must have at least one user"
    for window in ("1,2,3", "a,b,c,d", "1,2,3,4,5", ""):
        assert "four numbers" in refused(*command, "--points", both, f"--window={window}")
    assert "low <= high" in refused(*command, "--points", both, "--window=2,1,0,1")
    assert "low <= high" in refused(*command, "--points", both, "--window=nan,1,0,1")
    assert "radius_m = 0.0" in refused(*command, "--points", both, "--radius-m", 0)
    assert not (tmp_path / "s.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clients=0"], "clients = 0"),
        (["--clients=-5"], "clients = -5"),
        (["--edges=0"], "edges = 0"),
        (["--seed=-1"], "seed = -1"),
        (["--seed=-1", "--random-weights"], "seed = -1"),
        (["--radius-m=-3"], "radius_m = -3.0"),
        (["--radius-m=nan"], "radius_m = nan"),
        (["--p-min=0.9", "--p-max=0.1"], "the lower end must not be above the upper end"),
        (["--p-min=nan"], "online_probability = nan"),
        (["--kld-max=nan"], "limits.kld_max = nan"),
        (["--data-risk=2"], "limits.data_risk = 2.0"),
        (["--energy-weight=-1"], "weights.energy = -1.0"),
        (["--task=none"], "task = 'none'"),
        (["--local-steps=0"], "local_steps = 0"),
    ],
)
def test_impossible_options_are_refused_and_nothing_is_written(tmp_path, options, message):
    path = tmp_path / "s.json"
    assert message in refused("scenario", "numeric", *options, "-o", path)
    assert not path.exists()


def test_availability_writes_rounds(scenario_path, tmp_path):
    out = tmp_path / "r.jsonl"
    scenario = load_scenario(scenario_path)
    run("availability", scenario_path, "--rounds", 40, "--seed", 1, "-o", out)
    rounds = load_rounds(out, scenario)
    assert len(rounds) == 40
    assert np.mean([r.online.mean() for r in rounds]) == pytest.approx(
        scenario.clients.online_probability.mean(), abs=0.08
    )
    assert rounds[0].gain is None
    assert run("availability", scenario_path, "--rounds", 40, "--seed", 1, "-o", "-") == (
        out.read_bytes()
    )
    run("availability", scenario_path, "--rounds", 3, "--fluctuate", "-o", out)
    assert all((r.gain != scenario.links.gain).all() for r in load_rounds(out, scenario))


def test_availability_by_the_other_models(scenario_path, tmp_path):
    out, trace = tmp_path / "r.jsonl", tmp_path / "trace.json"
    scenario = load_scenario(scenario_path)
    command = ("availability", scenario_path, "-o", out, "--rounds")
    run(*command, 60, "--model", "markov", "--mean-session", 50)
    online = np.array([r.online for r in load_rounds(out, scenario)])
    assert (online[1:] != online[:-1]).mean() < 0.08
    changes = [[0, "AVL_TRAIN"], [300, "UN_AVL"], [500, "AVL_TRAIN"], [900, "UN_AVL"]]
    battery = [[0, "AVL_EVAL"], [900, "AVL_TRAIN"]]
    device = {"states_2": changes, "states_3_battery50": battery}
    trace.write_text(json.dumps({"devices": {"1": device}}))
    run(*command, 4, "--model", "trace", "--trace", trace, "--round-seconds", 200)
    assert [bool(r.online.all()) for r in load_rounds(out, scenario)] == [0, 1, 1, 0]
    run(
        *(*command, 4, "--model", "trace", "--trace", trace, "--round-seconds", 200),
        *("--trace-states", "states_3_battery50"),
    )
    assert [bool(r.online.all()) for r in load_rounds(out, scenario)] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rounds=0"], "rounds = 0"),
        (["--rounds=-4"], "rounds = -4"),
        (
            ["--rounds=2", "--model=poisson"],
            "model = 'poisson': must be bernoulli, markov or trace",
        ),
        (["--rounds=2", "--model=trace"], "--trace: must be given with --model trace"),
        (["--rounds=2", "--mean-session=3"], "--mean-session = 3.0: must only be given with"),
        (["--rounds=2", "--trace=x"], "--trace = 'x': must only be given with --model trace"),
        (["--rounds=2", "--model=markov", "--mean-session=0"], "mean_session = 0.0"),
        (["--rounds=2", "--seed=-1"], "seed = -1"),
        (["--rounds=2", "--model=trace", "--trace=none.json"], "none.json: cannot be read"),
    ],
)
def test_impossible_availability_is_refused(scenario_path, tmp_path, options, message):
    out = tmp_path / "r.jsonl"
    assert message in refused("availability", scenario_path, *options, "-o", out)
    assert not out.exists()


def test_importing_the_commands_needs_no_numpy():
    code = (
        "import sys, stagewise.cli.world_commands; "
        "sys.exit(any(name in sys.modules for name in ('numpy', 'scipy', 'stagewise.world')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
