"""The world of a cell: its scenario, and the rounds it goes through."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from stagewise.datasets import Dataset, load_dataset
from stagewise.datasets.catalogue import DATA_VARIABLE, data_root
from stagewise.errors import StagewiseError
from stagewise.experiments.setting import ScenarioSetting, Setting
from stagewise.simulator.config import Participation
from stagewise.simulator.default_scenario import sized_task
from stagewise.simulator.participation import draw_rounds
from stagewise.simulator.start import default_model, need_torch
from stagewise.world.estimator import rolling_estimate
from stagewise.world.generate import (
    TASKS,
    SystemParameters,
    Task,
    from_map,
    numeric,
    random_weights,
    read_points,
)
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Scenario, Weights

EUA_FILE = "eua/derived-window-4bs-93users.csv"
"""4 base stations and 93 users of Melbourne's centre, below the data folder."""

TRACE_FILE = "availability-trace/flame_mobiperf_300dev_6d.json.gz"
"""When 300 phones could train, over six days."""

HISTORY_ROUNDS = 144
"""Rounds of the trace that pass before the first one, a day of ten minutes each."""


def make_world(setting: Setting) -> tuple[Scenario, list[Round]]:
    """The cell's scenario and its rounds, drawn by its seed.

    With the model `trace` the clients' online probabilities are what Eq. 6 makes of the rounds before
    the first: those of the setting say nothing about phones.
    """
    scenario = make_scenario(setting)
    wanted = setting.participation
    traced = wanted.model == "trace"
    past = HISTORY_ROUNDS if traced else 0
    participation = Participation(
        model=wanted.model,
        mean_session=wanted.mean_session,
        trace=str(_data_file(TRACE_FILE)) if traced else None,
        round_seconds=wanted.round_seconds,
        fluctuate=wanted.fluctuate,
    )
    rounds = draw_rounds(participation, scenario, past + setting.rounds, setting.seed)
    if not traced:
        return scenario, rounds
    seen = np.array([round_.online for round_ in rounds[:past]])
    clients = replace(
        scenario.clients, online_probability=rolling_estimate(seen, scenario.estimator_window)
    )
    scenario = replace(scenario, clients=clients)
    return scenario, [replace(round_, scenario=scenario) for round_ in rounds[past:]]


def make_scenario(setting: Setting) -> Scenario:
    """The cell's scenario."""
    wanted, seed = setting.scenario, setting.seed
    task, share = _task(setting)
    parameters = SystemParameters(
        online_probability=(wanted.p_min, wanted.p_max),
        batch_fraction=wanted.batch_fraction,
        local_steps=wanted.local_steps,
        edge_rounds=wanted.edge_rounds,
    )
    limits = Limits(
        kld_max=wanted.kld_max,
        data_min=round(share * wanted.data_min),
        kld_risk=wanted.kld_risk,
        data_risk=wanted.data_risk,
    )
    weights = _weights(wanted, seed)
    if wanted.kind == "eua":
        points = read_points(_data_file(EUA_FILE))
        return from_map(
            points.sites,
            points.users,
            seed,
            task=task,
            parameters=parameters,
            weights=weights,
            limits=limits,
        )
    return numeric(
        wanted.clients,
        wanted.edges,
        seed,
        task=task,
        parameters=parameters,
        weights=weights,
        limits=limits,
    )


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


def _weights(wanted: ScenarioSetting, seed: int) -> Weights:
    if wanted.weights == "random":
        return random_weights(seed)
    delay = {"delay": 1.0, "energy": 0.0, "equal": 0.5}[wanted.weights]
    return Weights(delay=delay, energy=1 - delay)


def _data_file(name: str) -> Path:
    root = data_root()
    if root is None:
        raise StagewiseError(f"{name}: not found: {DATA_VARIABLE} is not set")
    if not (root / name).is_file():
        raise StagewiseError(f"{root / name}: not found: the experiment needs this file")
    return root / name
