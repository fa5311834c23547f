"""`config.toml`: written complete, read back the same, and refused in one line when damaged."""

import random
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.errors import StagewiseError
from stagewise.runs.config import (
    Participation,
    Replanning,
    RunConfig,
    load_config,
    make_config,
    to_toml,
)
from stagewise.world.forecasts import FORECASTS

CONFIG = RunConfig(
    dataset="digits",
    dataset_fingerprint="f" * 64,
    scenario="default",
    scenario_sha256="0" * 64,
    model="mlp",
    policy="pool-flexible",
    rounds=30,
    seed=0,
    learning_rate=0.05,
    plan_b={"method": "pool", "mode": "flexible", "diversity": 0.25},
)

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
positive = st.floats(1e-300, 1e300)
share = st.floats(0, 1)
maybe_share = st.none() | share
participations = st.one_of(
    st.builds(
        Participation,
        model=st.sampled_from(("bernoulli", "markov")),
        mean_session=st.floats(1, 1e9),
        fluctuate=st.booleans(),
    ),
    st.builds(Participation, model=st.just("trace"), trace=texts, round_seconds=positive),
)
replannings = st.builds(
    Replanning,
    every=st.none() | st.integers(1, 10**9),
    cost_factor=st.none() | positive,
    change_factor=st.none() | st.floats(1, 1e9),
    absence_gap=maybe_share,
    delay_rounds=st.integers(1, 1000),
)
replannings |= st.builds(
    Replanning, every=st.integers(1, 10**9), forecast=st.sampled_from(FORECASTS)
)
configs = st.builds(
    RunConfig,
    dataset=texts,
    dataset_fingerprint=texts,
    data_dir=st.none() | texts,
    image_size=st.none() | st.integers(1, 1000),
    scenario=texts,
    scenario_sha256=texts,
    model=texts,
    policy=texts,
    rounds=st.integers(1, 10**6),
    seed=st.integers(0, 2**70),
    learning_rate=positive,
    momentum=share,
    weight_decay=st.floats(0, 1e300),
    dtype=st.sampled_from(("float32", "float64", "bfloat16")),
    remedy=st.sampled_from((None, "drop", "reweight", "lend")),
    evaluate_every=st.integers(1, 100),
    stop_at_accuracy=maybe_share,
    participation=participations,
    replanning=replannings,
    plan_b=st.none()
    | st.dictionaries(
        st.from_regex("[a-z_]+", fullmatch=True), texts | st.floats(allow_nan=False), min_size=1
    ),
)


@given(configs)
def test_what_is_written_is_read_back(tmp_path_factory, config):
    text = to_toml(config)
    path = tmp_path_factory.getbasetemp() / "config.toml"
    path.write_bytes(text.encode())
    assert load_config(path) == config
    assert to_toml(load_config(path)) == text


def test_every_field_that_has_a_value_is_written():
    fields = tomllib.loads(to_toml(CONFIG))
    unset = {"data_dir", "given_policy", "image_size", "remedy", "stop_at_accuracy"}
    assert set(fields) == set(RunConfig.__struct_fields__) - unset
    assert fields["participation"]["model"] == "bernoulli"
    assert fields["replanning"] == {"delay_rounds": 1, "forecast": "rolling"}
    assert "workers" not in fields


@pytest.mark.parametrize(
    ("line", "replacement", "complaint"),
    [
        ("rounds = 30", "rounds = 0", "rounds = 0: must be at least 1"),
        ("rounds = 30", 'rounds = "30"', "rounds: Expected `int`, got `str`"),
        ("rounds = 30", "", "missing required field `rounds`"),
        ("rounds = 30", "rounds = 30\nround = 3", "unknown field `round`"),
        ("seed = 0", "seed = -1", "seed = -1: must be at least 0"),
        ("learning_rate = 0.05", "learning_rate = 0.0", "learning_rate = 0.0: must be a finite"),
        ("learning_rate = 0.05", "learning_rate = nan", "learning_rate = nan: must be a finite"),
        ("momentum = 0.0", "momentum = 1.5", "momentum = 1.5: must be"),
        ('dtype = "float32"', 'dtype = "float16"', "dtype: Invalid enum value 'float16'"),
        ('format = "stagewise-run/1"', 'format = "stagewise-run/2"', "format: Invalid enum value"),
        ("delay_rounds = 1", "delay_rounds = 0", "replanning.delay_rounds = 0: must be at least 1"),
        ("delay_rounds = 1", "every = 0", "every = 0: must be at least 1"),
        ('"rolling"', '"arima"', "replanning.forecast: Invalid enum value 'arima'"),
        ('"rolling"', '"markov"', "forecast = 'markov': there must be a trigger for new plans"),
        ("mean_session = 5.0", "mean_session = 0.5", "participation.mean_session = 0.5: must be"),
        ('mode = "flexible"', "mode = []", "plan_b[...]: Expected `float | str`, got `array`"),
        ("seed = 0", "seed = ", "not valid TOML"),
        ("seed = 0", "seed = 0\nseed = 0", "not valid TOML"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path, line, replacement, complaint):
    text = to_toml(CONFIG)
    assert line in text
    path = tmp_path / "config.toml"
    path.write_text(text.replace(line, replacement))
    with pytest.raises(StagewiseError) as caught:
        load_config(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert complaint in message or complaint[0].upper() + complaint[1:] in message
    assert "\n" not in message


def test_random_damage_never_crashes(tmp_path):
    content, path, rng = to_toml(CONFIG).encode(), tmp_path / "config.toml", random.Random(0)
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(damaged))
            damaged[place : place + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 3))
        path.write_bytes(bytes(damaged))
        try:
            load_config(path)
        except StagewiseError as error:
            assert "\n" not in str(error)


def test_types_are_checked_in_python_too():
    with pytest.raises(StagewiseError, match="momentum"):
        make_config(**{**_fields(), "momentum": "fast"})
    with pytest.raises(StagewiseError, match="remedy"):
        make_config(**{**_fields(), "remedy": "pray"})
    assert make_config(**{**_fields(), "rounds": np.int64(7)}).rounds == 7
    with pytest.raises(StagewiseError, match=r"participation\.trace: must be given"):
        Participation(model="trace")
    with pytest.raises(StagewiseError, match=r"participation\.trace: must only be given"):
        Participation(trace="trace.json")


def _fields() -> dict:
    return {name: getattr(CONFIG, name) for name in RunConfig.__struct_fields__}


def test_rounds_that_are_evaluated():
    config = RunConfig(**{**_fields(), "rounds": 8, "evaluate_every": 3})
    assert [g for g in range(8) if config.evaluates(g)] == [2, 5, 7]
