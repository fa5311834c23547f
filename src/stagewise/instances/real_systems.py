"""Systems of other people's data: base stations and users of Melbourne, a mesh network in New York,
clusters of another orchestrator."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from stagewise.datasets.catalogue import DATA_VARIABLE, data_root
from stagewise.errors import StagewiseError
from stagewise.instances.cluster_file import read_cluster
from stagewise.world.generate import Points, from_delays, from_map, read_points
from stagewise.world.generate.geo_map import chord_of, earth_xyz
from stagewise.world.scenario import FloatArray, IntArray, Links, Scenario, Weights

EUA_WINDOW_FILES = ("eua/derived-window-4bs-93users.csv",)
"""4 base stations and 93 users of Melbourne's centre, below the data folder, as all files here."""
EUA_CBD_FILES = ("eua/site-optus-melbCBD.csv", "eua/users-melbcbd-generated.csv")
"""125 base stations and 816 users of Melbourne's business district."""
EUA_METRO_FILES = ("eua/derived-optus-metro-sites.csv", "eua/users-aus.csv")
"""1,464 base stations of greater Melbourne, and 4,748 users all over Australia."""
MESH_FILES = (
    "nycmesh/delay_client_to_gateway.csv",
    "nycmesh/comp.txt",
    "nycmesh/delay_gateway_to_cloud.csv",
)
"""184 devices and 6 gateways of a mesh network in New York: seconds of an exchange of models, of local
training, and from gateways to the cloud."""
AIOTWIN_FILES = {10: "aiotwin/cluster_small.csv", 24: "aiotwin/cluster_big.csv"}
"""By the number of clients: what every link of a cluster costs, in units of its authors."""

_USERS_OF_A_SITE = 10
_METRO_REACH_M = 3000.0


def eua_window(seed: int, **options: Any) -> Scenario:
    """The window of Melbourne that has as many base stations and users as the paper's."""
    points = read_points(data_file(EUA_WINDOW_FILES[0]))
    return from_map(points.sites, points.users, seed, **options)


def eua_cbd(seed: int, **options: Any) -> Scenario:
    """All base stations and users of Melbourne's business district."""
    sites, users = (read_points(data_file(name)) for name in EUA_CBD_FILES)
    return from_map(sites.sites, users.users, seed, **options)


def eua_metro(seed: int, **options: Any) -> Scenario:
    """Greater Melbourne: the base stations that can have ten users each, and all users in their reach.

    There are twice as many base stations as users near them, so edge servers stand at some only: the
    next at the one that reaches the most users whom none serves yet, of whom it takes the ten nearest,
    as long as one reaches ten.
    """
    sites, users = (read_points(data_file(name)) for name in EUA_METRO_FILES)
    chosen, reached = _placed(sites, users)
    return from_map(
        _some(sites, chosen), _some(users, reached), seed, radius_m=_METRO_REACH_M, **options
    )


def _placed(sites: Points, users: Points) -> tuple[IntArray, IntArray]:
    """The sites with an edge server in the order of the file, and the users in their reach."""
    site_xyz, user_xyz = earth_xyz(sites), earth_xyz(users)
    reach = chord_of(_METRO_REACH_M)
    found = cKDTree(site_xyz).query_ball_tree(cKDTree(user_xyz), reach)
    near = [np.array(sorted(users_of), dtype=np.int64) for users_of in found]
    free = np.ones(len(users), dtype=np.bool_)
    chosen: list[int] = []
    while True:
        unserved = [free[users_of].sum() for users_of in near]
        site = int(np.argmax(unserved))
        if unserved[site] < _USERS_OF_A_SITE:
            break
        unserved_here = near[site][free[near[site]]]
        distance = np.linalg.norm(user_xyz[unserved_here] - site_xyz[site], axis=1)
        nearest = np.argsort(distance, kind="stable")[:_USERS_OF_A_SITE]
        free[unserved_here[nearest]] = False
        chosen.append(site)
    return np.sort(chosen), np.unique(np.concatenate([near[site] for site in chosen]))


def _some(points: Points, which: IntArray) -> Points:
    return Points(points.latitude[which], points.longitude[which])


def nycmesh(seed: int, **options: Any) -> Scenario:
    """The mesh network, by its delays; energy has no weight."""
    exchange, training, uplink = map(_numbers, MESH_FILES)
    return from_delays(exchange, training, uplink, seed, **options)


def aiotwin(seed: int, clients: int, **options: Any) -> Scenario:
    """A cluster by what its links cost, in place of joules; delay has no weight.

    Costs of communication add up over links, as energy does and delay does not. Shares of CPUs have no
    unit, and are not used.
    """
    cost, uplink = read_cluster(data_file(AIOTWIN_FILES[clients]))
    drawn = from_delays(cost, np.zeros(len(cost)), np.zeros(len(uplink)), seed, **options)
    start, edge, cost_of_link = drawn.links.start, drawn.links.edge, drawn.links.delay_s
    return replace(
        drawn,
        edges=replace(drawn.edges, uplink_energy_j=uplink),
        links=Links(start, edge, delay_s=np.zeros(len(edge)), energy_j=cost_of_link),
        weights=Weights(delay=0.0, energy=1.0),
    )


def data_file(name: str) -> Path:
    """Where a file below the data folder is; an error that says so where it is not."""
    root = data_root()
    if root is None:
        raise StagewiseError(f"{name}: not found: {DATA_VARIABLE} is not set")
    if not (root / name).is_file():
        raise StagewiseError(f"{root / name}: not found: this system is made of it")
    return root / name


def _numbers(file: str) -> FloatArray:
    path = data_file(file)
    try:
        return np.loadtxt(path, delimiter=",")
    except ValueError as error:
        raise StagewiseError(f"{path}: must be numbers with commas between: {error}") from None
