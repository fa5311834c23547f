"""Points on a map, read from CSV: base stations, users, or both in one file."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.world.csv_file import number_in, read_csv
from stagewise.world.scenario import BoolArray, FloatArray

Window = tuple[float, float, float, float]
"""lat_min, lat_max, lon_min, lon_max in degrees, all included."""

_COLUMNS = {
    "latitude": ("lat", "latitude"),
    "longitude": ("lon", "lng", "long", "longitude"),
    "id": ("id", "site_id"),
    "kind": ("kind",),
}
_KINDS = ("BS", "USER")
_LIMIT = {"latitude": 90.0, "longitude": 180.0}


@dataclass(frozen=True, eq=False)
class Points:
    """Places in WGS84 degrees; both arrays have shape (points,)."""

    latitude: FloatArray
    longitude: FloatArray
    ids: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    """`BS` or `USER` for each point, where the file says."""

    def __len__(self) -> int:
        return len(self.latitude)

    @property
    def sites(self) -> "Points":
        """The base stations: all points where the file had no `kind` column."""
        return self._of_kind("BS")

    @property
    def users(self) -> "Points":
        """The users: all points where the file had no `kind` column."""
        return self._of_kind("USER")

    def within(self, window: Window) -> "Points":
        """The points inside the window."""
        lat_min, lat_max, lon_min, lon_max = checked_window(window)
        return self._where(
            (self.latitude >= lat_min)
            & (self.latitude <= lat_max)
            & (self.longitude >= lon_min)
            & (self.longitude <= lon_max)
        )

    def _of_kind(self, kind: str) -> "Points":
        if self.kinds is None:
            return self
        return self._where(np.array([found == kind for found in self.kinds], dtype=np.bool_))

    def _where(self, chosen: BoolArray) -> "Points":
        def pick(values: tuple[str, ...] | None) -> tuple[str, ...] | None:
            return None if values is None else tuple(values[i] for i in np.flatnonzero(chosen))

        return Points(
            self.latitude[chosen], self.longitude[chosen], pick(self.ids), pick(self.kinds)
        )


def checked_window(window: Window) -> Window:
    """`window` if it is one: finite, within the globe, and not upside down."""
    bounds = (("latitude", window[0], window[1]), ("longitude", window[2], window[3]))
    for name, low, high in bounds:
        limit = _LIMIT[name]
        if not -limit <= low <= high <= limit:
            raise StagewiseError(
                f"window {name} = {low:g}, {high:g}: must be -{limit:g} <= low <= high <= {limit:g}"
            )
    return window


def read_points(path: str | Path) -> Points:
    """The points of a CSV file whose first line names its columns; `-` is standard input.

    Needed are a latitude (`lat`, `latitude`) and a longitude (`lon`, `lng`, `long`, `longitude`)
    in degrees; used where present are `id` or `site_id`, and `kind` with BS or USER. Upper and
    lower case are alike; other columns are ignored.

    Parameters
    ----------
    path : str or Path
        The file.

    Examples
    --------
    >>> import pathlib, stagewise
    >>> _ = pathlib.Path("sites.csv").write_text("id,lat,lon\\n1,-37.81,144.96\\n")
    >>> len(stagewise.generate.read_points("sites.csv"))
    1
    """
    table = read_csv(path)
    place = _places(f"{path}: line {table.header_line}", table.header)
    latitude, longitude, ids, kinds = [], [], [], []
    seen: dict[tuple[str, str], int] = {}
    for number, row in enumerate(table.rows):
        where = table.where(number)
        latitude.append(_degrees(where, "latitude", row[place["latitude"]]))
        longitude.append(_degrees(where, "longitude", row[place["longitude"]]))
        kind = ""
        if "kind" in place:
            kind = row[place["kind"]].strip().upper()
            if kind not in _KINDS:
                found = shown(row[place["kind"]])
                raise StagewiseError(f"{where}: kind = {found}: must be BS or USER")
            kinds.append(kind)
        if "id" in place:
            name = row[place["id"]].strip()
            if not name:
                raise StagewiseError(f"{where}: id = '': must not be empty")
            first = seen.setdefault((kind, name), number)
            if first != number:
                raise StagewiseError(
                    f"{where}: id = {shown(name)}: must not occur twice, and is on line "
                    f"{table.lines[first]}"
                )
            ids.append(name)
    return Points(
        np.array(latitude, dtype=np.float64),
        np.array(longitude, dtype=np.float64),
        tuple(ids) if "id" in place else None,
        tuple(kinds) if "kind" in place else None,
    )


def _places(where: str, header: list[str]) -> dict[str, int]:
    """Where each known column stands in a row."""
    names = [name.strip().lower() for name in header]
    place = {}
    for column, known in _COLUMNS.items():
        found = [number for number, name in enumerate(names) if name in known]
        if len(found) > 1 or (not found and column in _LIMIT):
            raise StagewiseError(
                f"{where}: columns {shown(', '.join(header))}: must have one {column} "
                f"column ({', '.join(known)}), but has {len(found)}"
            )
        if found:
            place[column] = found[0]
    return place


def _degrees(where: str, name: str, text: str) -> float:
    value, limit = number_in(text), _LIMIT[name]
    if value is None or not -limit <= value <= limit:
        raise StagewiseError(
            f"{where}: {name} = {shown(text)}: must be a number of -{limit:g} to {limit:g} degrees"
        )
    return value
