"""Clients, edges and links from three tables: data frames, lists of dicts, or CSV files."""

import contextlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.world.checks import FieldError
from stagewise.world.csv_file import number_in, read_csv
from stagewise.world.parts import Clients, Edges, Limits, Links
from stagewise.world.records import ClientRecord, EdgeRecord, Measured, parts_of

Table = Any
"""A data frame (anything with `columns` and `to_dict`), dicts in a list, or the path of a CSV file."""

_NEEDED = {
    "clients": ("id",),
    "edges": ("id", "capacity", "uplink_delay_s", "uplink_energy_j"),
    "links": ("client", "edge"),
}
_MODEL = ("cpu_hz", "cycles_per_sample", "capacitance", "batch_fraction", "tx_power_w")
_TAKEN = {
    "clients": ("online_probability", "history", "data", "x", "y", *_MODEL),
    "edges": ("bandwidth_hz", "x", "y"),
    "links": ("delay_s", "energy_j", "gain"),
}
_TEXT = ("id", "client", "edge", "history")
_LABEL = re.compile(r"label_(0|[1-9][0-9]*)")


class Tables:
    """The three tables of a scenario, read and checked as far as each can be by itself."""

    def __init__(self, clients: Table, edges: Table, links: Table) -> None:
        self._clients = _Rows("clients", clients)
        self._edges = _Rows("edges", edges)
        self._links = _Rows("links", links)
        self._labels = _label_columns(self._clients)
        self._order: list[int] = []

    def parts(self, window: int | None) -> tuple[Clients, Edges, Links]:
        """The arrays; `window` is that of the estimates from histories (Eq. 6)."""
        clients, edges = self._clients, self._edges
        joined = self._joined()
        client_records = [
            ClientRecord(
                **{name: row[name] for name in ClientRecord.__struct_fields__ if name in row},
                label_counts=[clients.needed(number, name) for name in self._labels],
                links=links,
            )
            for number, (row, links) in enumerate(zip(clients.rows, joined, strict=True))
        ]
        return parts_of(client_records, [EdgeRecord(**row) for row in edges.rows], window)

    def checked_limits(self, limits: Limits | None) -> Limits:
        """`limits`, or the usual ones; infinite is the `kld_max` of tables that know no labels."""
        balanced = self._labels != ["data"]
        if limits is None:
            return Limits() if balanced else Limits(kld_max=math.inf)
        if isinstance(limits, Limits) and not balanced and limits.kld_max != math.inf:
            raise StagewiseError(
                f"limits.kld_max = {limits.kld_max}: must be infinite where {self._clients.name} "
                f"has data in place of label_0, label_1, ..."
            )
        return limits

    @contextlib.contextmanager
    def errors_named(self) -> Iterator[None]:
        """Errors about a client, an edge or a link name the table, its row and its column."""
        try:
            yield
        except FieldError as error:
            rows: _Rows = getattr(self, f"_{error.group}")
            row = self._order[error.row] if error.group == "links" else error.row
            column = re.sub(r"label_counts\[(\d+)\]", r"label_\1", error.column)
            if self._labels == ["data"] and column == "label_0":
                column = "data"
            place = rows.where(row) + (f": {column}" if column else "")
            raise StagewiseError(f"{place}{error.problem}") from None

    def _joined(self) -> list[dict[str, Any]]:
        """The links of each client by edge; `_order` becomes the rows in the order of the links."""
        links = self._links
        number = {"client": self._clients.index(), "edge": self._edges.index()}
        joined: list[dict[str, Any]] = [{} for _ in self._clients.rows]
        ends: list[tuple[int, int]] = []
        first: dict[tuple[int, int], int] = {}
        for row, values in enumerate(links.rows):
            for column, known in number.items():
                if values[column] not in known:
                    of = "a client" if column == "client" else "an edge"
                    raise links.error(row, column, f"must be the id of {of}")
            pair = number["client"][values["client"]], number["edge"][values["edge"]]
            if first.setdefault(pair, row) != row:
                before = links.where(first[pair])
                raise links.error(row, "edge", f"a link must not occur twice, and is in {before}")
            gain, delay_s = values.get("gain"), values.get("delay_s")
            if (gain is None) == (delay_s is None):
                raise links.error(row, "delay_s", "must be given, or a gain, and not both")
            energy_j = values.get("energy_j", math.nan)
            if gain is not None and "energy_j" in values:
                raise links.error(row, "energy_j", "must only be given together with delay_s")
            joined[pair[0]][values["edge"]] = (
                gain if delay_s is None else Measured(delay_s=delay_s, energy_j=energy_j)
            )
            ends.append(pair)
        self._order = sorted(range(len(ends)), key=ends.__getitem__)
        return joined


class _Rows:
    """The rows of one table: text for ids, numbers for all else; without what is empty."""

    def __init__(self, kind: str, table: Table) -> None:
        self.kind, self.name = kind, f"table of {kind}"
        convert: Callable[[Any], Any] = _python_number
        if isinstance(table, str | os.PathLike):
            file = read_csv(table)  # type: ignore[arg-type]
            self.name, self.where, convert = file.path, file.where, number_in  # type: ignore[method-assign]
            columns: list[Any] = [name.strip() for name in file.header]
            table = [dict(zip(columns, row, strict=True)) for row in file.rows]
        elif hasattr(table, "columns") and hasattr(table, "to_dict"):
            columns = list(table.columns)
        else:
            table = self._dicts(table)
            # A dict holds the columns once, in the order in which they come.
            columns = list(dict.fromkeys(name for record in table for name in record))
        self._check_columns(columns)
        # Only now: data frames warn of columns of one name.
        records = table.to_dict("records") if hasattr(table, "to_dict") else table
        self.columns: list[str] = columns
        self.rows = [
            {
                name: self._cell(number, name, cell, convert)
                for name, cell in record.items()
                if not _is_empty(cell)
            }
            for number, record in enumerate(records)
        ]
        if not self.rows and kind != "links":
            raise StagewiseError(f"{self.name}: must have at least one row")
        for number in range(len(self.rows)):
            for name in _NEEDED[kind]:
                self.needed(number, name)

    def where(self, row: int) -> str:
        """Where a row stands, for an error."""
        return f"{self.name}: row {row}"

    def error(self, row: int, column: str, rule: str) -> StagewiseError:
        found = shown(self.rows[row].get(column))
        return StagewiseError(f"{self.where(row)}: {column} = {found}: {rule}")

    def needed(self, row: int, column: str) -> Any:
        """A cell that must not be empty."""
        if column not in self.rows[row]:
            raise StagewiseError(f"{self.where(row)}: {column}: must not be empty")
        return self.rows[row][column]

    def index(self) -> dict[str, int]:
        """The row of each id, which must not occur twice."""
        known: dict[str, int] = {}
        for row, values in enumerate(self.rows):
            before = known.setdefault(values["id"], row)
            if before != row:
                rule = f"must not occur twice, and is in {self.where(before)}"
                raise self.error(row, "id", rule)
        return known

    def _dicts(self, table: Table) -> list[Mapping[str, Any]]:
        if isinstance(table, Mapping) or not isinstance(table, Iterable):
            raise StagewiseError(
                f"{self.name} = {shown(table)}: must be a data frame, a list of dicts or a path"
            )
        records = list(table)
        for row, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise StagewiseError(f"{self.where(row)} = {shown(record)}: must be a dict")
        return records

    def _check_columns(self, columns: list[Any]) -> None:
        known = (*_NEEDED[self.kind], *_TAKEN[self.kind])
        labels = self.kind == "clients"
        for name in columns:
            text = name if isinstance(name, str) else ""
            if text not in known and not (labels and _LABEL.fullmatch(text)):
                more = ", label_0, label_1, ..." if labels else ""
                raise StagewiseError(
                    f"{self.name}: column {shown(name)}: must be one of {', '.join(known)}{more}"
                )
            if columns.count(name) > 1:
                raise StagewiseError(f"{self.name}: column {shown(name)}: must not occur twice")
        for name in _NEEDED[self.kind]:
            if name not in columns:
                raise StagewiseError(f"{self.name}: must have a column {name}")

    def _cell(self, row: int, name: str, cell: Any, convert: Callable[[Any], Any]) -> Any:
        text = name in _TEXT
        value = _text(cell, name) if text else convert(cell)
        if value is None:
            rule = "must be text" if text else "must be a number"
            if name == "history":
                rule += " of 0 and 1, oldest first"
            raise StagewiseError(f"{self.where(row)}: {name} = {shown(cell)}: {rule}")
        return value


def _label_columns(clients: _Rows) -> list[str]:
    """The columns with the data of the clients, label by label or in one."""
    labels = sum(name.startswith("label_") for name in clients.columns)
    found = [f"label_{number}" for number in range(labels)]
    for name in found:
        if name not in clients.columns:
            raise StagewiseError(
                f"{clients.name}: must have a column {name}: labels are numbered from 0 without gaps"
            )
    if bool(found) == ("data" in clients.columns):
        raise StagewiseError(
            f"{clients.name}: must have columns label_0, label_1, ..., or a column data, and not both"
        )
    return found or ["data"]


def _text(cell: Any, name: str) -> str | None:
    if isinstance(cell, str):
        return cell.strip()
    # Data frames read ids of digits as numbers; a history would have lost its leading zeros.
    number = isinstance(cell, int | np.integer) and not isinstance(cell, bool)
    return str(int(cell)) if number and name != "history" else None


def _python_number(cell: Any) -> Any:
    return None if isinstance(cell, str) else cell


def _is_empty(cell: Any) -> bool:
    if isinstance(cell, str):
        return not cell.strip()
    if isinstance(cell, float | np.floating):
        return bool(np.isnan(cell))
    return cell is None or type(cell).__name__ in ("NAType", "NaTType")  # pandas' own
