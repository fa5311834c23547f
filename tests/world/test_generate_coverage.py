"""Coverage links against all distances written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.errors import StagewiseError
from stagewise.world.generate import coverage, covering_links


@given(
    st.integers(0, 2**31),
    st.integers(1, 40),
    st.integers(1, 12),
    st.sampled_from([2, 3]),
    st.floats(1, 200),
)
def test_links_are_those_of_the_full_distance_matrix(seed, clients, edges, dimensions, radius):
    rng = np.random.default_rng(seed)
    client_xyz = rng.uniform(0, 300, (clients, dimensions))
    edge_xyz = rng.uniform(0, 300, (edges, dimensions))
    start, edge, distance = covering_links(client_xyz, edge_xyz, radius)
    assert start[0] == 0
    assert start[-1] == len(edge) == len(distance)
    for i, place in enumerate(client_xyz):
        away = np.sqrt(((edge_xyz - place) ** 2).sum(axis=1))
        expected = [j for j in range(edges) if away[j] <= radius] or [int(away.argmin())]
        row = slice(start[i], start[i + 1])
        assert edge[row].tolist() == expected
        np.testing.assert_allclose(distance[row], away[expected], rtol=1e-12)


def test_a_client_on_top_of_an_edge_is_covered():
    start, edge, distance = covering_links(np.zeros((2, 2)), np.zeros((1, 2)), 1.0)
    assert (start.tolist(), edge.tolist(), distance.tolist()) == ([0, 1, 2], [0, 0], [0.0, 0.0])


@pytest.mark.parametrize("radius", [0, -1, float("nan"), float("inf")])
def test_an_impossible_radius_is_refused(radius):
    with pytest.raises(StagewiseError, match="radius_m = "):
        covering_links(np.zeros((1, 2)), np.zeros((1, 2)), radius)


def test_too_many_links_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(coverage, "LARGEST_LINKS", 99)
    with pytest.raises(StagewiseError, match="makes 100 links between 10 clients and 10 edges"):
        covering_links(np.zeros((10, 2)), np.zeros((10, 2)), 1.0)
