"""A cell's scenario, and the rounds it goes through."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stagewise import Dataset, Limits, Participation, Round, Scenario, Weights, load_dataset
from stagewise.datasets.catalogue import data_root
from stagewise.instances.real_systems import data_file, eua_window, nycmesh
from stagewise.simulator.default_scenario import sized_task
from stagewise.simulator.participation import draw_rounds
from stagewise.simulator.start import default_model, need_torch
from stagewise.world.estimator import rolling_estimate
from stagewise.world.generate import (
    TASKS,
    SystemParameters,
    Task,
    numeric,
    random_weights,
)
from stagewise_experiments.regimes import REGIMES
from stagewise_experiments.setting import Setting

TRACE_FILE = "availability-trace/flame_mobiperf_300dev_6d.json.gz"
"""When 300 phones could train, over six days."""

HISTORY_ROUNDS = 144
"""Rounds of the trace that pass before the first one, a day of ten minutes each."""


def make_rounds(setting: Setting) -> tuple[Scenario, list[Round]]:
    """The cell's scenario and its rounds, drawn by its seed.

    With the model `trace` the clients' online probabilities are what Eq. 6 makes of the rounds before
    the first: those of the setting say nothing about phones.
    """
    scenario, asked = make_scenario(setting), setting.participation
    traced = asked.model == "trace"
    past = HISTORY_ROUNDS if traced else 0
    participation = Participation(
        model=asked.model,
        mean_session=asked.mean_session,
        trace=str(data_file(TRACE_FILE)) if traced else None,
        round_seconds=asked.round_seconds,
        fluctuate=asked.fluctuate,
    )
    rounds = draw_rounds(participation, scenario, past + setting.rounds, setting.seed)
    if not traced:
        return scenario, rounds
    seen = np.array([round_.online for round_ in rounds[:past]])
    estimate = rolling_estimate(seen, scenario.estimator_window)
    scenario = replace(scenario, clients=replace(scenario.clients, online_probability=estimate))
    later = enumerate(rounds[past:])
    return scenario, [replace(round_, scenario=scenario, index=index) for index, round_ in later]


def make_scenario(setting: Setting) -> Scenario:
    """The cell's scenario."""
    asked, seed = setting.scenario, setting.seed
    regime = REGIMES[asked.regime]
    task, share = _task(setting)
    delay = {"delay": 1.0, "energy": 0.0, "equal": 0.5}.get(asked.weights)
    if delay is None:
        delay = random_weights(seed).delay
    options: Any = {
        "task": task,
        "parameters": SystemParameters(
            online_probability=(asked.p_min, asked.p_max),
            batch_fraction=asked.batch_fraction or regime.batch_fraction,
            local_steps=asked.local_steps,
            edge_rounds=asked.edge_rounds,
            uplink_energy_j=regime.uplink_energy_j,
        ),
        "weights": Weights(
            delay=2 * delay * regime.delay_weight, energy=2 * (1 - delay) * regime.energy_weight
        ),
        "limits": Limits(
            kld_max=asked.kld_max,
            data_min=round(share * asked.data_min),
            kld_risk=asked.kld_risk,
            data_risk=asked.data_risk,
        ),
    }
    if asked.kind == "eua":
        return eua_window(seed, radius_m=regime.radius_m, **options)
    if asked.kind == "nycmesh":
        return nycmesh(seed, **options)
    return numeric(asked.clients, asked.edges, seed, radius_m=regime.radius_m, **options)


def read_dataset(name: str, image_size: int | None = None) -> Dataset:
    """The data set of that name; the one read last is kept, since cells in a row share it."""
    return _read_dataset(name, image_size, data_root())


@lru_cache(maxsize=1)
def _read_dataset(name: str, image_size: int | None, root: Path | None) -> Dataset:
    return load_dataset(name, root, image_size=image_size)


def _task(setting: Setting) -> tuple[Task, float]:
    """What clients hold, and by which factor `data_min` goes with it.

    Model updates are as large as the model that is trained, or as the paper says where none is.
    """
    own = setting.scenario.task is None
    name = setting.scenario.task or setting.dataset
    if name in TASKS and not (own and setting.measure == "training"):
        return TASKS[name], 1.0
    data = read_dataset(name, setting.image_size if own else None)
    need_torch()
    from stagewise.models import parameter_count

    model = (setting.model if own else None) or default_model(name)
    shape = data.image_shape
    parameters = parameter_count(model, data.classes, shape)
    return sized_task(name, len(data.train_labels), data.classes, shape, parameters)
