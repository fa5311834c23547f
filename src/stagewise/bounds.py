"""Bounds on what rounds cost, with the prices that prove them, and their file, `stagewise-bound/1`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from stagewise.errors import StagewiseError
from stagewise.exact.prices import Prices
from stagewise.files import decode_json_lines, read_bytes, write_json_lines
from stagewise.plan_b.pool import library_for, library_of
from stagewise.plans import Plan
from stagewise.pool.bound import bound_round
from stagewise.world.checks import finite
from stagewise.world.records import Count
from stagewise.world.rounds import OnlineRounds, Round, numbered
from stagewise.world.scenario import FloatArray, Scenario

FORMAT: Literal["stagewise-bound/1"] = "stagewise-bound/1"


class CutRecord(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Three clients or edges, and what a cluster pays that has two of them."""

    clients: list[str]
    price: float
    edges: list[str] = []


class BoundRecord(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One line of a bounds file."""

    format: Literal["stagewise-bound/1"]
    round: Count
    lower_bound: float
    client_prices: dict[str, float]
    """Of the clients that have one, on top of their energy."""
    delay_prices: dict[str, float]
    """Of a second of each edge."""
    cuts: list[CutRecord] = []


@dataclass(frozen=True, eq=False)
class Bound:
    """No assignment within the limits costs less in `round` than `value`, and why.

    Parameters
    ----------
    round : Round
        The round.
    value : float
        The bound; infinite where an edge has no cluster, so that no assignment is within the limits.
    prices : Prices
        What proves it: `stagewise check --bound` needs nothing else.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=1)
    >>> [bound] = stagewise.bound(scenario, rounds)
    >>> [decision] = stagewise.solve(scenario, rounds, "pool")
    >>> bound.value <= decision.objective
    True
    """

    round: Round
    value: float
    prices: Prices

    def record(self) -> BoundRecord:
        """The bound as it stands in a file."""
        scenario, prices = self.round.scenario, self.prices
        clients, edges = scenario.clients.ids, scenario.edges.ids
        cuts = []
        for items, price in zip(
            prices.cuts.items.tolist(), prices.cuts.price.tolist(), strict=True
        ):
            if price > 0:
                of_clients = [clients[item] for item in items if item < len(clients)]
                of_edges = [edges[item - len(clients)] for item in items if item >= len(clients)]
                cuts.append(CutRecord(of_clients, price, of_edges))
        return BoundRecord(
            FORMAT,
            self.round.index,
            self.value,
            _named(clients, prices.client),
            _named(edges, prices.delay),
            cuts,
        )


def _named(ids: Sequence[str], values: FloatArray) -> dict[str, float]:
    return {ids[n]: float(values[n]) for n in np.flatnonzero(values > 0).tolist()}


def bound(
    scenario: Scenario,
    rounds: OnlineRounds,
    plan: Plan | None = None,
    *,
    seconds: float | None = None,
    progress: Callable[[Bound], None] | None = None,
) -> list[Bound]:
    """A lower bound for each round, whoever decides it, with prices that anybody can check.

    Parameters
    ----------
    scenario : Scenario
        The system.
    rounds : iterable of Round
        Or of who is online in each: a mask over the clients, or ids.
    plan : Plan, optional
        One by `pool`, whose library is then used; otherwise one is made.
    seconds : float, optional
        The time that one bound may take.
    progress : function, optional
        Called with every bound.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2)
    >>> bounds = stagewise.bound(scenario, rounds)
    >>> stagewise.check_bounds(scenario, bounds, rounds)
    []
    """
    if seconds is not None:
        finite("seconds", seconds, 0, open_below=True)
    if plan is not None and plan.scenario.sha256 != scenario.sha256:
        raise StagewiseError("plan: must be made for this scenario")
    library = library_for(scenario) if plan is None else library_of(plan)
    bounds = []
    for round_ in numbered(scenario, rounds):
        priced = bound_round(round_, library, seconds)
        bounds.append(Bound(round_, priced.bound, priced.prices))
        if progress is not None:
            progress(bounds[-1])
    return bounds


def save_bounds(bounds: Sequence[Bound], path: str | Path) -> None:
    """Write a bounds file, a line for each round that has a finite one.

    Parameters
    ----------
    bounds : sequence of Bound
        In the order of their rounds.
    path : str or Path
        The file; `-` is standard output.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2)
    >>> stagewise.save_bounds(stagewise.bound(scenario, rounds), "bounds.jsonl")
    """
    write_json_lines(path, (one.record() for one in bounds if np.isfinite(one.value)))


def load_bound_records(path: str | Path) -> list[BoundRecord]:
    """Read a bounds file as it is: what it claims is not checked against anything."""
    records: list[Any] = decode_json_lines(read_bytes(path), BoundRecord, str(path))
    return records
