"""What a deployment trains: the task on a data set, and the scenario of its clients and edges."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from stagewise.datasets import load_dataset
from stagewise.datasets.dataset import Dataset
from stagewise.deploy.layout import SCENARIO, SITE, TASK
from stagewise.deploy.site import Site, load_site
from stagewise.deploy.task import TaskFile
from stagewise.randomness import generator
from stagewise.simulator.start import default_learning_rate, default_model, need_torch
from stagewise.world.generate import SystemParameters, image_task, numeric
from stagewise.world.scenario import Limits, Links, Scenario
from stagewise.world.scenario_file import load_scenario

OVERHEAD_BYTES = 1024 * 1024
"""For the text of a message: what became of each update of an edge's round."""

_GAIN_RANGE = (1e-9, 1e-8)


def task_on(
    data: Dataset,
    model: str | None,
    learning_rate: float | None,
    seed: int,
    data_dir: str | None = None,
) -> TaskFile:
    """The task on a data set; None is the model by the data set, the rate by the model."""
    model = model or default_model(data.name)
    rate = default_learning_rate(model) if learning_rate is None else learning_rate
    return TaskFile(
        dataset=data.name, data_dir=data_dir, model=model, learning_rate=rate, seed=seed
    )


def local_scenario(clients: int, edges: int, data: Dataset, model: str, seed: int) -> Scenario:
    """`clients` and `edges` that share a data set and train `model` on it.

    With a few clients to an edge none can be as poor in labels as the paper's: each holds half to
    nine tenths of them, and between a half and the whole of an equal share of the data. An edge needs
    as much as three of the smallest clients have. Everything else is Table I, but that an edge can
    take all clients and averages twice in a round: a message costs seconds here.
    """
    from stagewise.models import parameter_count

    classes, shape = data.classes, data.image_shape
    share = max(2, len(data.train_labels) // clients)
    half = max(1, share // 2)
    labels = max(1, round(0.5 * classes)), max(1, round(0.9 * classes))
    parameters = parameter_count(model, classes, shape)
    task = image_task(data.name, classes, labels, (half, share), shape, parameters)
    return numeric(
        clients,
        edges,
        seed,
        task=task,
        parameters=SystemParameters(
            online_probability=(0.8, 1.0), capacity=(clients, clients), edge_rounds=2
        ),
        limits=Limits(kld_max=0.35, data_min=share + half),
    )


def site_scenario(site: Site, data_dir: str | Path | None = None) -> tuple[Scenario, TaskFile]:
    """The scenario that the site names, or the paper's system for its clients and edges; and the task.

    The data set must be on this machine, in `data_dir` or where it keeps its data; on the others it is
    looked for where they keep theirs.
    """
    need_torch()
    data = load_dataset(site.dataset, data_dir)
    task = task_on(data, site.model, site.learning_rate, site.seed)
    drawn = local_scenario(len(site.clients), len(site.edges), data, task.model, site.seed)
    if site.scenario is not None:
        return load_scenario(site.scenario), task
    return _renamed(drawn, site), task


def largest_message(task: TaskFile) -> int:
    """The bytes that a message of the deployment may have: its model, and as much again for the rest."""
    from stagewise.models import build_model
    from stagewise.training.task import PRECISIONS

    data = load_dataset(task.dataset, task.data_dir, image_size=task.image_size)
    state = build_model(task.model, data.classes, data.image_shape).state_dict()
    number_bytes = PRECISIONS[task.dtype].weights.itemsize
    numbers: int = sum(tensor.numel() for tensor in state.values())
    return OVERHEAD_BYTES + 2 * number_bytes * numbers


def read_cloud_folder(folder: Path) -> tuple[Site, Scenario, TaskFile]:
    """What the cloud is to train, and with whom."""
    site, scenario = load_site(folder / SITE), load_scenario(folder / SCENARIO)
    site.check_scenario(scenario)
    return site, scenario, TaskFile.load(folder / TASK)


def _renamed(drawn: Scenario, site: Site) -> Scenario:
    """The same clients and edges under the site's names and with its links, at no known place."""
    edges = tuple(edge.id for edge in site.edges)
    rows = [sorted(edges.index(edge) for edge in client.edges) for client in site.clients]
    start = np.cumsum([0, *(len(row) for row in rows)])
    edge = np.array([edge for row in rows for edge in row], dtype=np.int64)
    gain = generator(site.seed, "gain").uniform(*_GAIN_RANGE, len(edge))
    clients = tuple(client.id for client in site.clients)
    return replace(
        drawn,
        clients=replace(drawn.clients, ids=clients, position_m=None),
        edges=replace(drawn.edges, ids=edges, position_m=None),
        links=Links(start=start, edge=edge, gain=gain),
        file_sha256=None,
    )
