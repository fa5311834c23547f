"""What a site trains: the scenario of its clients, edges and links, and the task."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from stagewise.datasets import load_dataset
from stagewise.deploy.layout import SCENARIO, SITE, TASK
from stagewise.deploy.local_scenario import local_scenario, task_on
from stagewise.deploy.site import Site, load_site
from stagewise.deploy.task import TaskFile
from stagewise.randomness import generator
from stagewise.simulator.start import need_torch
from stagewise.world.scenario import Links, Scenario
from stagewise.world.scenario_file import load_scenario

_GAIN_RANGE = (1e-9, 1e-8)


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
