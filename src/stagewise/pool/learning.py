"""A library with learned prices: draft, price it on sampled rounds, generate it again."""

from concurrent.futures import Executor

import numpy as np

from stagewise.compiled import NONE
from stagewise.exact.prices import Prices
from stagewise.pool.library import Library, generate_library, unlearned_prices
from stagewise.pool.priced_columns import price
from stagewise.pool.round_clusters import online_columns
from stagewise.pool.sizes import FEW_EDGES
from stagewise.problem.statement import p0
from stagewise.progress import ProgressCallback, ignore_progress
from stagewise.randomness import generator
from stagewise.search.instance import build_instance
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario

_MIN_CLUSTERS, _ENOUGH_CLUSTERS, _MAX_CLUSTERS = 1_000, 2_000, 4_000  # of an edge
_USUAL_IN_ALL, _MANY_IN_ALL = 80_000, 1_000_000  # clusters of all edges together
_DRAFTS = 2
_ROUNDS, _FEWER_ROUNDS = 16, 4
_STEPS = 60
_CEILING = 0.3  # in units of what one client costs
_FEWER_ROUNDS_ABOVE = 2_000  # edges: there a round takes seconds


def build_library(
    scenario: Scenario,
    seed: int = 0,
    *,
    clusters_per_edge: int | None = None,
    executor: Executor | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Library:
    """The library of `scenario`, with prices learned on sampled rounds.

    The clusters of a large system are generated on `executor`, by default on all processors.
    """
    edges = len(scenario.edges)
    clusters = clusters_per_edge or clusters_of_an_edge(edges)
    prices = unlearned_prices(scenario)
    rounds = sampled_rounds(
        scenario, seed, _FEWER_ROUNDS if edges > _FEWER_ROUNDS_ABOVE else _ROUNDS
    )
    for draft_number in range(_DRAFTS):
        # The draft has no name, so that it is gone when the next one is made.
        prices = learned_prices(
            generate_library(scenario, prices, max(1, clusters // 2), executor), rounds
        )
        progress((draft_number + 1) / (_DRAFTS + 2))  # the last one is twice as large
    return generate_library(scenario, prices, clusters, executor)


def clusters_of_an_edge(edges: int) -> int:
    """How many clusters each of so many edges gets: thousands, and a thousand where edges are.

    Fewer leave edges unserved that have many clients to choose from, since the cheapest clusters of
    neighbours want the same ones.
    """
    enough = min(_ENOUGH_CLUSTERS, _MANY_IN_ALL // edges)
    return min(_MAX_CLUSTERS, max(_MIN_CLUSTERS, enough, _USUAL_IN_ALL // edges))


def sampled_rounds(scenario: Scenario, seed: int, number: int) -> list[Round]:
    """Rounds in which every client is online with its own probability."""
    rng = generator(seed, "sampled rounds")
    probability = scenario.clients.online_probability
    return [Round(scenario, rng.random(len(probability)) < probability, g) for g in range(number)]


def learned_prices(library: Library, rounds: list[Round]) -> Prices:
    """The mean of the prices that `rounds` end with; a client's counts where it is online.

    A round in which the library leaves an edge out has prices beyond measure there. It does not count;
    in a large system, where some edge is always left out, it does, with a ceiling on the prices.
    """
    client = np.zeros_like(library.prices.client)
    times = np.zeros_like(client)
    delay = np.zeros_like(library.prices.delay)
    counted = 0
    large = len(delay) > FEW_EDGES
    for round_ in rounds:
        columns, _counts = online_columns(library, round_)
        instance = build_instance(p0(round_))
        priced = price(instance, columns, library.prices, _STEPS, np.inf, everyone=False)
        if priced.choice is None or (not large and (priced.choice == NONE).any()):
            continue
        ceiling = _CEILING * instance.price_scale if large else np.inf
        client += np.where(round_.online, np.minimum(priced.prices.client, ceiling), 0.0)
        times += round_.online
        delay += priced.prices.delay
        counted += 1
    if counted == 0:
        return library.prices
    return Prices(client / np.maximum(times, 1), delay / counted)
