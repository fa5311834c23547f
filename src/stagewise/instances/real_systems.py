"""Systems of other people's data: base stations and users of Melbourne, a mesh network in New York."""

from pathlib import Path
from typing import Any

import numpy as np

from stagewise.datasets.catalogue import DATA_VARIABLE, data_root
from stagewise.errors import StagewiseError
from stagewise.world.generate import from_delays, from_map, read_points
from stagewise.world.scenario import FloatArray, Scenario

EUA_WINDOW_FILES = ("eua/derived-window-4bs-93users.csv",)
"""4 base stations and 93 users of Melbourne's centre, below the data folder, as all files here."""
EUA_CBD_FILES = ("eua/site-optus-melbCBD.csv", "eua/users-melbcbd-generated.csv")
"""125 base stations and 816 users of Melbourne's business district."""
MESH_FILES = (
    "nycmesh/delay_client_to_gateway.csv",
    "nycmesh/comp.txt",
    "nycmesh/delay_gateway_to_cloud.csv",
)
"""184 devices and 6 gateways of a mesh network in New York: seconds of an exchange of models, of local
training, and from gateways to the cloud."""


def eua_window(seed: int, **options: Any) -> Scenario:
    """The window of Melbourne that has as many base stations and users as the paper's."""
    points = read_points(data_file(EUA_WINDOW_FILES[0]))
    return from_map(points.sites, points.users, seed, **options)


def eua_cbd(seed: int, **options: Any) -> Scenario:
    """All base stations and users of Melbourne's business district."""
    sites, users = (read_points(data_file(name)) for name in EUA_CBD_FILES)
    return from_map(sites.sites, users.users, seed, **options)


def nycmesh(seed: int, **options: Any) -> Scenario:
    """The mesh network, by its delays; energy has no weight."""
    exchange, training, uplink = map(_numbers, MESH_FILES)
    return from_delays(exchange, training, uplink, seed, **options)


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
