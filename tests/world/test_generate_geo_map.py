"""Map scenarios: geodesic distances, path loss, positions, ids, and the real data."""

import math

import numpy as np
import pytest
from geographiclib.geodesic import Geodesic
from hypothesis import given
from hypothesis import strategies as st

from stagewise.errors import StagewiseError
from stagewise.world.generate import PathLoss, Points, from_map, read_points
from stagewise.world.generate.geo_map import arc_of, chord_of, earth_xyz

QUIET = PathLoss(shadowing_db=0)
MELBOURNE = (-37.81, 144.965)


def points(*places: tuple[float, float], ids: tuple[str, ...] | None = None) -> Points:
    return Points(np.array([p[0] for p in places]), np.array([p[1] for p in places]), ids)


def geodesic_m(a: tuple[float, float], b: tuple[float, float]) -> float:
    return float(Geodesic.WGS84.Inverse(*a, *b)["s12"])


def away(place: tuple[float, float], azimuth: float, metres: float) -> tuple[float, float]:
    there = Geodesic.WGS84.Direct(*place, azimuth, metres)
    return there["lat2"], there["lon2"]


@given(
    st.floats(-85, 85),
    st.floats(-180, 180),
    st.floats(0, 360),
    st.floats(5, 20_000),
)
def test_arcs_are_geodesics(latitude, longitude, azimuth, metres):
    here = (latitude, longitude)
    there = away(here, azimuth, metres)
    chord = np.linalg.norm(earth_xyz(points(here)) - earth_xyz(points(there)), axis=1)
    # Rounding of Earth-sized coordinates is about a nanometre; the law itself is far below 1e-7.
    assert arc_of(chord)[0] == pytest.approx(geodesic_m(here, there), rel=1e-7, abs=1e-7)


@given(st.floats(1, 2e7))
def test_chord_and_arc_undo_each_other(arc):
    assert arc_of(np.array([chord_of(arc)]))[0] == pytest.approx(arc, rel=1e-6)


def test_a_radius_beyond_the_globe_covers_it():
    scenario = from_map(points((0, 0), (0, 180)), points((0, 1)), radius_m=1e9)
    assert scenario.links.edge.tolist() == [0, 1]


@pytest.mark.parametrize("azimuth", [0, 37, 90, 200, 315])
def test_coverage_ends_at_the_radius_on_the_ground(azimuth):
    site = points(MELBOURNE, away(MELBOURNE, azimuth + 180, 5000))
    users = points(away(MELBOURNE, azimuth, 299.999), away(MELBOURNE, azimuth, 300.001))
    far_site = points(away(MELBOURNE, azimuth, 700))
    sites = Points(
        np.concatenate([site.latitude, far_site.latitude]),
        np.concatenate([site.longitude, far_site.longitude]),
    )
    links = from_map(sites, users, radius_m=300).links
    # The second user is in nobody's reach and goes to the nearest, the same site.
    assert links.edge.tolist() == [0, 0]
    beyond = from_map(sites, users, radius_m=400.0005).links
    assert beyond.start.tolist() == [0, 1, 3]
    assert beyond.edge.tolist() == [0, 0, 2]


def test_gain_without_shadowing_follows_the_law():
    users = points(*(away(MELBOURNE, 70, metres) for metres in (3, 10, 100, 290)))
    gain = from_map(points(MELBOURNE), users, path_loss=QUIET).links.gain
    for value, metres in zip(gain, (10, 10, 100, 290), strict=True):
        loss = 128.1 + 37.6 * math.log10(metres / 1000)
        assert -10 * math.log10(value) == pytest.approx(loss, abs=1e-6)


def test_shadowing_is_normal_in_decibels():
    rng = np.random.default_rng(0)
    gain = PathLoss().gain(np.full(100_000, 200.0), rng)
    extra = -10 * np.log10(gain) - (128.1 + 37.6 * math.log10(0.2))
    assert abs(extra.mean()) < 0.15
    assert extra.std() == pytest.approx(8, rel=0.02)
    assert np.mean(np.abs(extra) < 8) == pytest.approx(0.6827, abs=0.01)


def test_positions_are_metres_from_the_south_west_corner():
    corner = MELBOURNE
    east, north = away(corner, 90, 400), away(corner, 0, 300)
    scenario = from_map(points(corner), points(east, north))
    np.testing.assert_allclose(scenario.edges.position_m, [[0, 0]], atol=0.02)
    np.testing.assert_allclose(scenario.clients.position_m, [[400, 0], [0, 300]], atol=0.05)


def test_ids_come_from_the_points_and_stay_distinct():
    sites, users = points(MELBOURNE, ids=("5",)), points(MELBOURNE, ids=("5",))
    scenario = from_map(sites, users)
    assert (scenario.edges.ids, scenario.clients.ids) == (("bs5",), ("u5",))
    plain = from_map(points(MELBOURNE), points(MELBOURNE, MELBOURNE))
    assert (plain.edges.ids, plain.clients.ids) == (("es0",), ("c0", "c1"))


def test_the_window_filters_both():
    sites = points((0, 0), (1, 1), ids=("a", "b"))
    users = points((0, 0.001), (1, 1.001), (5, 5), ids=("x", "y", "z"))
    scenario = from_map(sites, users, window=(0.5, 2, 0.5, 2))
    assert (scenario.edges.ids, scenario.clients.ids) == (("bsb",), ("uy",))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": (5, 6, 5, 6)}, "there must be at least one site in the window"),
        ({"radius_m": 0}, "radius_m = 0"),
        ({"radius_m": float("nan")}, "radius_m = nan"),
        ({"seed": -1}, "seed = -1"),
        ({"path_loss": PathLoss(shadowing_db=1e5)}, "must be a finite number above 0|too large"),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    many = points(*[MELBOURNE] * 50)
    with pytest.raises(StagewiseError, match=message):
        from_map(many, many, **arguments)


def test_no_site_or_no_user_is_refused():
    with pytest.raises(StagewiseError, match="there must be at least one site"):
        from_map(points(), points(MELBOURNE))
    with pytest.raises(StagewiseError, match="there must be at least one user"):
        from_map(points(MELBOURNE), points())


@pytest.mark.parametrize(
    "loss", [{"shadowing_db": -1}, {"per_decade_db": float("nan")}, {"shortest_m": 0}]
)
def test_impossible_path_loss_is_refused(loss):
    with pytest.raises(StagewiseError, match="path loss"):
        PathLoss(**loss)


def test_the_papers_window_of_melbourne(data_dir):
    both = read_points(data_dir / "eua" / "derived-window-4bs-93users.csv")
    scenario = from_map(both.sites, both.users, path_loss=QUIET)
    assert (len(scenario.edges), len(scenario.clients)) == (4, 93)
    assert "bs101381" in scenario.edges.ids
    assert scenario.clients.ids[0] == "u5"
    assert scenario.clients.position_m.min() >= 0
    assert max(scenario.clients.position_m.max(), scenario.edges.position_m.max()) < 505
    # Every link, and every one that is missing, against the geodesic.
    linked = set(zip(scenario.links.client.tolist(), scenario.links.edge.tolist(), strict=True))
    loss = dict(zip(sorted(linked), -10 * np.log10(scenario.links.gain), strict=True))
    for i, user in enumerate(zip(both.users.latitude, both.users.longitude, strict=True)):
        metres = [
            geodesic_m(user, site)
            for site in zip(both.sites.latitude, both.sites.longitude, strict=True)
        ]
        reached = [j for j in range(4) if metres[j] <= 300] or [int(np.argmin(metres))]
        assert [j for j in range(4) if (i, j) in linked] == reached
        for j in reached:
            expected = 128.1 + 37.6 * math.log10(max(metres[j], 10) / 1000)
            assert loss[i, j] == pytest.approx(expected, abs=1e-4)
            flat = np.hypot(*(scenario.clients.position_m[i] - scenario.edges.position_m[j]))
            assert flat == pytest.approx(metres[j], rel=1e-4, abs=0.01)


def test_the_other_files_of_the_data_set(data_dir):
    folder = data_dir / "eua"
    sites = read_points(folder / "site-optus-melbCBD.csv")
    users = read_points(folder / "users-melbcbd-generated.csv")
    scenario = from_map(sites, users)
    assert (len(scenario.edges), len(scenario.clients)) == (125, 816)
    assert scenario.edges.ids[0] == "bs10003026"
    metro = from_map(
        read_points(folder / "derived-optus-metro-sites.csv"), read_points(folder / "users-aus.csv")
    )
    assert (len(metro.edges), len(metro.clients)) == (1464, 4748)
    assert (np.diff(metro.links.start) >= 1).all()
