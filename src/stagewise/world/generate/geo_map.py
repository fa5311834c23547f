"""Scenarios from a map: base stations and users at their real places, gains from distance."""

from dataclasses import dataclass

import numpy as np

from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.world.checks import finite, frozen, seed_number, whole
from stagewise.world.generate.coverage import covering_links
from stagewise.world.generate.points import Points, Window
from stagewise.world.generate.system import LARGEST_SIZE, SystemParameters, draw_system
from stagewise.world.generate.tasks import Task, task_of
from stagewise.world.scenario import FloatArray, Limits, Links, Scenario, Weights

# WGS84.
_EQUATORIAL_M = 6_378_137.0
_ECCENTRICITY_2 = 6.694379990141317e-3
_MEAN_M = 6_371_008.8


@dataclass(frozen=True)
class PathLoss:
    """How a channel weakens with distance, in decibels: the 3GPP macro-cell law by default.

    loss = at_1_km_db + per_decade_db * log10(distance / 1 km) + a normal draw for each link with
    standard deviation `shadowing_db`. Distances below `shortest_m` count as that.
    """

    at_1_km_db: float = 128.1
    per_decade_db: float = 37.6
    shadowing_db: float = 8.0
    shortest_m: float = 10.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            finite(f"path loss {name}", value, 0, open_below=name == "shortest_m")

    def gain(self, distance_m: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The channel gain, a plain ratio, of links with these lengths."""
        distance_km = np.maximum(distance_m, self.shortest_m) / 1000
        loss_db = self.at_1_km_db + self.per_decade_db * np.log10(distance_km)
        loss_db += self.shadowing_db * rng.standard_normal(len(distance_km))
        # A loss beyond all floating-point numbers is refused with the scenario, by name.
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(10 ** (-loss_db / 10))


def from_map(
    sites: Points,
    users: Points,
    seed: int = 0,
    *,
    window: Window | None = None,
    radius_m: float = 300.0,
    path_loss: PathLoss | None = None,
    task: str | Task = "mnist",
    parameters: SystemParameters | None = None,
    weights: Weights | None = None,
    limits: Limits | None = None,
) -> Scenario:
    """A scenario with an edge at every site and a client at every user, of those in the window.

    Ids are those of the points, after `bs` and `u`, or `es0`, ... and `c0`, ... where they have
    none.

    Parameters
    ----------
    sites, users : Points
        Where edges and clients are.
    seed : int
        Of every random draw.
    window : tuple of float, optional
        South, north, west and east in degrees; by default everything.
    radius_m : float
        How far an edge reaches; a client out of every edge's reach is linked to the nearest.
    path_loss : PathLoss, optional
        How a channel weakens with distance.
    task : str or Task
        The learning task.
    parameters : SystemParameters, optional
        What clients and edges draw from; by default the paper's.
    weights : Weights, optional
        Of delay, energy and continuity.
    limits : Limits, optional
        What every edge must keep.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> sites = stagewise.generate.Points(np.array([-37.81]), np.array([144.96]))
    >>> users = stagewise.generate.Points(np.array([-37.81, -37.812]), np.array([144.961, 144.96]))
    >>> stagewise.generate.from_map(sites, users).edges.ids
    ('es0',)
    """
    seed_number(seed)
    finite("radius_m", radius_m, 0, open_below=True)
    chosen_task = task_of(task)
    if window is not None:
        sites, users = sites.within(window), users.within(window)
    for name, points in (("site", sites), ("user", users)):
        if len(points) == 0:
            raise StagewiseError(
                f"there must be at least one {name}" + (" in the window" if window else "")
            )
        whole(f"number of {name}s", len(points), 1, LARGEST_SIZE)

    start, edge, chord_m = covering_links(earth_xyz(users), earth_xyz(sites), chord_of(radius_m))
    loss = PathLoss() if path_loss is None else path_loss
    gain = loss.gain(arc_of(chord_m), generator(seed, "shadowing"))
    site_xy, user_xy = _local_xy(sites, users)
    return draw_system(
        client_ids=_ids(users, "u", "c"),
        edge_ids=_ids(sites, "bs", "es"),
        client_xy=user_xy,
        edge_xy=site_xy,
        links=Links(start=frozen(start), edge=frozen(edge), gain=frozen(gain)),
        seed=seed,
        task=chosen_task,
        parameters=parameters,
        weights=weights,
        limits=limits,
    )


def earth_xyz(points: Points) -> FloatArray:
    """Earth-centred coordinates on the WGS84 ellipsoid, in metres, shape (points, 3).

    Straight distances in space can be searched with a tree; on the ground they become arcs.
    """
    latitude, longitude = np.radians(points.latitude), np.radians(points.longitude)
    across = _EQUATORIAL_M / np.sqrt(1 - _ECCENTRICITY_2 * np.sin(latitude) ** 2)
    return np.column_stack(
        [
            across * np.cos(latitude) * np.cos(longitude),
            across * np.cos(latitude) * np.sin(longitude),
            across * (1 - _ECCENTRICITY_2) * np.sin(latitude),
        ]
    )


def arc_of(chord_m: FloatArray) -> FloatArray:
    """Straight distances as lengths along the ground; off by under 1e-8 of them up to 10 km."""
    return np.asarray(2 * _MEAN_M * np.arcsin(np.minimum(chord_m / (2 * _MEAN_M), 1)))


def chord_of(arc_m: float) -> float:
    """The straight distance that belongs to a length along the ground."""
    if arc_m >= np.pi * _MEAN_M:
        # Half the way round reaches everything, also across the equator's longer diameter.
        return 2 * _EQUATORIAL_M
    return float(2 * _MEAN_M * np.sin(arc_m / (2 * _MEAN_M)))


def _local_xy(sites: Points, users: Points) -> tuple[FloatArray, FloatArray]:
    """Metres east and north of the south-west corner of all points; (sites, 2), (users, 2)."""
    south = min(sites.latitude.min(), users.latitude.min())
    west = min(sites.longitude.min(), users.longitude.min())
    north = max(sites.latitude.max(), users.latitude.max())
    middle = np.radians((south + north) / 2)
    squared = 1 - _ECCENTRICITY_2 * np.sin(middle) ** 2
    # The radii of curvature at the middle latitude, across and along the meridian.
    east_m = _EQUATORIAL_M / np.sqrt(squared) * np.cos(middle)
    north_m = _EQUATORIAL_M * (1 - _ECCENTRICITY_2) / squared**1.5

    def local(points: Points) -> FloatArray:
        x = np.radians(points.longitude - west) * east_m
        return np.column_stack([x, np.radians(points.latitude - south) * north_m])

    return local(sites), local(users)


def _ids(points: Points, prefix: str, numbered: str) -> tuple[str, ...]:
    if points.ids is None:
        return tuple(f"{numbered}{number}" for number in range(len(points)))
    return tuple(f"{prefix}{name}" for name in points.ids)
