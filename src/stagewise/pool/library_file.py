"""The library's side file, beside the plan that names it."""

from pathlib import Path
from typing import Any

import numpy as np

from stagewise.errors import StagewiseError
from stagewise.exact.prices import Prices
from stagewise.files import read_bytes, write_bytes
from stagewise.pool.library import Library, member_links
from stagewise.world.scenario import Scenario

FORMAT = "stagewise-library/1"
SUFFIX = ".library.safetensors"


def library_name(plan: str | Path) -> str:
    """The name of the side file of a plan file."""
    return Path(plan).name + SUFFIX


def save_library(library: Library, path: str | Path) -> None:
    write_bytes(path, encode_library(library))


def encode_library(library: Library) -> bytes:
    """The content of the side file."""
    from safetensors.numpy import save

    tensors: dict[str, Any] = {
        "start": library.start,
        "clients": np.ascontiguousarray(library.clients),
        "client_price": library.prices.client,
        "delay_price": library.prices.delay,
    }
    return bytes(save(tensors, metadata={"format": FORMAT}))


def load_library(path: str | Path, scenario: Scenario) -> Library:
    """Read a library made for `scenario`; one that does not fit it is an error."""
    return decode_library(read_bytes(path), scenario, path)


def decode_library(content: bytes, scenario: Scenario, path: str | Path) -> Library:
    """The library in the content of a side file; errors call it `path`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = {name: array.copy() for name, array in load(content).items()}
        start, clients = tensors["start"], tensors["clients"]
        prices = Prices(tensors["client_price"], tensors["delay_price"])
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise StagewiseError(f"{path}: not a valid library: a part is missing or damaged") from None
    if not _fits(scenario, start, clients, prices):
        raise StagewiseError(f"{path}: the library must be made for this scenario")
    links = member_links(scenario, start, clients)
    if ((clients >= 0) & (links < 0)).any():
        raise StagewiseError(f"{path}: the library must only use links that the scenario has")
    return Library(start, clients, links, prices, scenario.costs)


def _fits(scenario: Scenario, start: np.ndarray, clients: np.ndarray, prices: Prices) -> bool:
    count, edges = len(scenario.clients), len(scenario.edges)
    return (
        start.dtype == np.int64
        and clients.dtype == np.int32
        and prices.client.dtype == prices.delay.dtype == np.float64
        and start.shape == (edges + 1,)
        and clients.ndim == 2
        and clients.shape[1] >= 1
        and start[0] == 0
        and start[-1] == len(clients)
        and bool((np.diff(start) >= 0).all())
        and bool(((clients >= -1) & (clients < count)).all())
        and prices.client.shape == (count,)
        and prices.delay.shape == (edges,)
        and all(
            bool((np.isfinite(price) & (price >= 0)).all())
            for price in (prices.client, prices.delay)
        )
    )
