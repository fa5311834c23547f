"""The scenario: every client, edge server and link of one federated system, as arrays."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.world.checks import (
    LARGEST_COUNT,
    BoolArray,
    FieldError,
    FloatArray,
    IntArray,
    finite,
    frozen,
    frozen_array,
    instance_of,
    whole,
)
from stagewise.world.costs import (
    LinkCosts,
    check_costs,
    given,
    link_costs,
    overridden,
    require_model,
    round_values,
)
from stagewise.world.estimator import DEFAULT_WINDOW
from stagewise.world.parts import Clients, Edges, Limits, Links, System, Weights
from stagewise.world.scenario_json import json_parts, sha256_of
from stagewise.world.tables import Table, Tables

__all__ = [
    "LARGEST_COUNT",
    "BoolArray",
    "Clients",
    "Edges",
    "FloatArray",
    "IntArray",
    "Limits",
    "Links",
    "Scenario",
    "Weights",
]


@dataclass(frozen=True, eq=False)
class Scenario(System):
    """One federated system. Every value is checked on construction; nothing in it changes after.

    Parameters
    ----------
    clients, edges, links
        Who there is, and who reaches whom.
    local_steps, edge_rounds
        Steps of a client before its edge aggregates, and edge aggregations in a round.
    model_bits, noise_w_per_hz
        The size of the model and the noise of the channels. None or NaN, where they are not known,
        is allowed if no link has a channel gain.
    weights, limits
        What the problems minimise and what every edge must keep.
    reference
        The reference label distribution Q; None is the uniform one.
    window
        The length of the estimator's window, tau of Eq. 6.
    file_sha256
        The digest of the file the scenario was read from.

    Raises
    ------
    StagewiseError
        If a value cannot be; the message names the field, the value and the rule.

    Examples
    --------
    >>> clients = Clients(["c0", "c1"], label_counts=[[30], [20]], online_probability=[0.9, 0.8])
    >>> edges = Edges(["es0"], capacity=[2], uplink_delay_s=[0.2], uplink_energy_j=[0.1])
    >>> links = Links(start=[0, 1, 2], edge=[0, 0], delay_s=[0.4, 0.7], energy_j=[1.5, 1.1])
    >>> Scenario(clients, edges, links).costs.delay_s
    array([0.4, 0.7])
    """

    file_sha256: str | None = None

    def __post_init__(self) -> None:
        for name, kind in _PARTS.items():
            instance_of(name, getattr(self, name), kind)
        if not isinstance(self.file_sha256, str | None):
            raise StagewiseError(f"file_sha256 = {shown(self.file_sha256)}: must be text or None")
        self._check_scalars()
        self._check_reference()
        self._check_links()
        self._check_model()
        check_costs(
            self,
            self.costs,
            "clients[{}] ({}): the delay or energy of its link to {} is too large to represent",
            "weights, edges, clients: the delay, energy or cost of a round is too large to represent",
        )

    @classmethod
    def from_tables(
        cls,
        clients: Table,
        edges: Table,
        links: Table,
        *,
        local_steps: int = 5,
        edge_rounds: int = 3,
        model_bits: float | None = None,
        noise_w_per_hz: float | None = None,
        weights: Weights | None = None,
        limits: Limits | None = None,
        reference: FloatArray | None = None,
        window: int | None = None,
    ) -> "Scenario":
        """A scenario from three tables, for costs that were measured.

        A table is a pandas data frame, a list of dicts, or the path of a CSV file with a header
        line. An empty cell (None, NaN) is a value that is not given.

        Parameters
        ----------
        clients
            Columns `id`, `online_probability` or `history`, and `label_0`, `label_1`, ... (samples
            of each label), or `data` alone where balance does not matter: `kld_max` is then
            infinite. Taken where present: `x`, `y`, `cpu_hz`, `cycles_per_sample`, `capacitance`,
            `batch_fraction`, `tx_power_w`.
        edges
            Columns `id`, `capacity`, `uplink_delay_s`, `uplink_energy_j`; taken where present:
            `bandwidth_hz`, `x`, `y`.
        links
            Columns `client`, `edge`, and `delay_s` and `energy_j` of one edge round, or `gain`.
        local_steps, edge_rounds, model_bits, noise_w_per_hz, weights, limits, reference, window
            As of `Scenario`; `model_bits` and `noise_w_per_hz` are needed where a link has a gain.

        Raises
        ------
        StagewiseError
            If a value cannot be; the message names the table, the row (the line of a file), the
            column, the value and the rule.

        Examples
        --------
        >>> clients = [{"id": "a", "online_probability": 0.9, "label_0": 30, "label_1": 10},
        ...            {"id": "b", "online_probability": 0.7, "label_0": 5, "label_1": 25}]
        >>> edges = [{"id": "hall", "capacity": 9, "uplink_delay_s": 0.2, "uplink_energy_j": 0.1}]
        >>> links = [{"client": c, "edge": "hall", "delay_s": 0.4, "energy_j": 1.7} for c in "ab"]
        >>> Scenario.from_tables(clients, edges, links, limits=Limits(data_min=50))
        Scenario(2 clients, 1 edges, 2 links, 2 labels)
        """
        tables = Tables(clients, edges, links)
        with tables.errors_named():
            return cls(
                *tables.parts(window),
                local_steps=local_steps,
                edge_rounds=edge_rounds,
                model_bits=math.nan if model_bits is None else model_bits,
                noise_w_per_hz=math.nan if noise_w_per_hz is None else noise_w_per_hz,
                weights=Weights() if weights is None else weights,
                limits=tables.checked_limits(limits),
                reference=reference,
                window=window,
            )

    @property
    def labels(self) -> int:
        """How many labels the data have."""
        return int(self.clients.label_counts.shape[1])

    @cached_property
    def target(self) -> FloatArray:
        """Q: the label distribution every edge should come close to; shape (labels,)."""
        if self.reference is not None:
            return self.reference
        return frozen(np.full(self.labels, 1.0 / self.labels))

    @property
    def estimator_window(self) -> int:
        """Over how many rounds Eq. 6 counts who was online."""
        return DEFAULT_WINDOW if self.window is None else self.window

    @cached_property
    def costs(self) -> LinkCosts:
        """T_ij and E_ij of every link."""
        return link_costs(self)

    @cached_property
    def sha256(self) -> str:
        """The digest of the scenario's JSON file, the one it came from or the one it would be."""
        return self.file_sha256 or sha256_of(json_parts(self))

    def as_of(
        self,
        *,
        online_probability: FloatArray | None = None,
        cpu_hz: FloatArray | None = None,
        gain: FloatArray | None = None,
        delay_s: FloatArray | None = None,
        energy_j: FloatArray | None = None,
    ) -> "Scenario":
        """The scenario as it is in a round: with new estimates, and with the round's costs.

        Parameters
        ----------
        online_probability
            Estimates of who will be online, shape (clients,); None leaves them.
        cpu_hz, gain, delay_s, energy_j
            What the round changes, as `link_costs` takes it. The costs of the scenario are then
            those that `link_costs` gives with it; links with a measured delay or energy become
            measured ones.

        Raises
        ------
        StagewiseError
            If a value cannot be.

        Examples
        --------
        >>> from stagewise.world.generate import numeric
        >>> later = numeric(clients=2, edges=1).as_of(delay_s=np.array([0.5, np.nan]))
        >>> later.links.measured
        array([ True, False])
        """
        clients, links = self.clients, self.links
        own = {"cpu_hz": cpu_hz, "gain": gain, "delay_s": delay_s, "energy_j": energy_j}
        cpu_hz, gain, delay_s, energy_j = round_values(self, own).values()
        if online_probability is not None:
            clients = replace(clients, online_probability=online_probability, history=None)
        if cpu_hz is not None:
            clients = replace(clients, cpu_hz=overridden(clients.cpu_hz, cpu_hz))
        if gain is not None or delay_s is not None or energy_j is not None:
            costs = link_costs(self, cpu_hz, gain, delay_s, energy_j)
            measured = given(delay_s) | given(energy_j) | (links.measured & ~given(gain))
            # What was not measured stays unknown, though the round counts it as 0 J.
            unknown = ~measured | (np.isnan(links.energy_j) & links.measured & ~given(energy_j))
            links = replace(
                links,
                gain=np.where(measured, np.nan, overridden(links.gain, gain)),
                delay_s=np.where(measured, costs.delay_s, np.nan),
                energy_j=np.where(unknown, np.nan, costs.energy_j),
            )
        return replace(self, clients=clients, links=links, file_sha256=None)

    def __repr__(self) -> str:
        return (
            f"Scenario({len(self.clients)} clients, {len(self.edges)} edges, "
            f"{len(self.links)} links, {self.labels} labels)"
        )

    def _check_scalars(self) -> None:
        for name in ("local_steps", "edge_rounds"):
            self._set(name, whole(name, getattr(self, name), 1, LARGEST_COUNT))
        if self.window is not None:
            self._set("window", whole("window", self.window, 1, LARGEST_COUNT))
        for name in ("model_bits", "noise_w_per_hz"):
            value = getattr(self, name)
            absent = value is None or (isinstance(value, float | np.floating) and value != value)
            self._set(name, math.nan if absent else finite(name, value, 0, open_below=True))

    def _check_reference(self) -> None:
        if self.reference is None:
            return
        reference = frozen_array("reference", self.reference, np.float64)
        if reference.shape != (self.labels,):
            raise StagewiseError(
                f"reference has {reference.size} entries: there must be one for each of the "
                f"{self.labels} labels"
            )
        if not (reference > 0).all() or not abs(reference.sum() - 1) <= 1e-6:
            raise StagewiseError(
                f"reference = {shown(reference.tolist())}: all entries must be above 0 and sum to 1"
            )
        self._set("reference", reference)

    def _check_links(self) -> None:
        links, edges = self.links, len(self.edges)
        if len(links.start) != len(self.clients) + 1:
            raise StagewiseError(
                f"links.start has {len(links.start)} entries: must have one more than the "
                f"{len(self.clients)} clients"
            )
        if links.fault is not None:
            raise self._link_error(*links.fault)
        if len(links) and links.last_edge >= edges:
            rule = f"must be below {edges}, the number of edges"
            raise self._link_error(int(np.argmax(links.edge >= edges)), "edge", rule)
        if self.weights.energy > 0 and links.measured.any():
            unknown = links.measured & np.isnan(links.energy_j)
            if unknown.any():
                rule = "must be given where the weight of energy is above 0"
                raise self._link_error(int(np.argmax(unknown)), "energy_j", rule)

    def _check_model(self) -> None:
        by_gain = ~self.links.measured
        for name in ("model_bits", "noise_w_per_hz"):
            if math.isnan(getattr(self, name)) and by_gain.any():
                raise StagewiseError(f"{name} must be given where a link has a channel gain")
        require_model(self, by_gain)

    def _link_error(self, link: int, column: str, rule: str) -> FieldError:
        """The error about a field of a link, with the names of its client and its edge."""
        client, edge = int(self.links.client[link]), int(self.links.edge[link])
        place = f"clients[{client}] ({shown(self.clients.ids[client])}).links"
        if 0 <= edge < len(self.edges) and column != "edge":
            place += f"[{shown(self.edges.ids[edge])}]"
        if column != "gain":
            place += f".{column}"
        found = shown(getattr(self.links, column)[link].item())
        return FieldError(place, "links", link, column, f" = {found}: {rule}")


_PARTS: Mapping[str, Any] = {
    "clients": Clients,
    "edges": Edges,
    "links": Links,
    "weights": Weights,
    "limits": Limits,
}
