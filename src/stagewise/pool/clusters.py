"""Clusters of one edge at given prices, as columns."""

from typing import Any

import numpy as np

from stagewise.exact.columns import NOBODY, Columns
from stagewise.pool.generation import Bench, generate_clusters
from stagewise.pool.prices import Prices
from stagewise.search.instance import AT_ITS_EDGE, Instance
from stagewise.search.random_bits import bits_from
from stagewise.world.scenario import IntArray

_STARTS = 8
_STARTS_FOR_ONE = 3


def cheap_clusters(instance: Instance, edge: int, prices: Prices, bench: Bench) -> Columns:
    """About as many of the cheapest clusters of `edge` as `bench` is made for."""
    found = _generate(instance, edge, prices, _STARTS, bench)
    wanted = len(bench.ranked)
    rows: Any = np.arange(found)
    if found > wanted:
        rows = np.argpartition(bench.cost[:found], wanted)[:wanted]
    inside = np.arange(bench.members.shape[1]) < bench.size[rows, None]
    links = bench.link[np.where(inside, bench.members[rows], 0)]
    base = instance.candidate[instance.candidate_start[edge] : instance.candidate_start[edge + 1]]
    base = base[instance.lock[instance.link_client[base]] == AT_ITS_EDGE]
    energy = np.where(inside, instance.link_energy[links], 0.0).sum(axis=1)
    slowest = np.where(inside, instance.link_delay[links], 0.0).max(axis=1, initial=0.0)
    slowest = np.maximum(slowest, instance.link_delay[base].max(initial=0.0))
    return Columns(
        edge=np.full(len(rows), edge, dtype=np.int32),
        members=np.where(inside, instance.link_client[links], NOBODY).astype(np.int32),
        energy=energy + instance.link_energy[base].sum() + instance.uplink_energy[edge],
        delay=slowest + instance.uplink_delay[edge],
    )


def cheapest_cluster(
    instance: Instance, edge: int, prices: Prices, bench: Bench
) -> IntArray | None:
    """The members of the cheapest cluster of `edge` that a short search finds, pinned ones apart."""
    found = _generate(instance, edge, prices, _STARTS_FOR_ONE, bench)
    if found == 0:
        return None
    row = int(np.argmin(bench.cost[:found]))
    links = bench.link[bench.members[row, : bench.size[row]]]
    return np.asarray(instance.link_client[links])


def _generate(instance: Instance, edge: int, prices: Prices, starts: int, bench: Bench) -> int:
    second = float(prices.delay[edge])
    return int(
        generate_clusters(instance, edge, prices.client, second, starts, bits_from(edge), bench)
    )
