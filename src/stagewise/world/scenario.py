"""The scenario: every client, edge server and link of one federated system, as arrays."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stagewise.errors import StagewiseError, shown
from stagewise.world.estimator import DEFAULT_WINDOW

if TYPE_CHECKING:
    from stagewise.world.costs import LinkCosts

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

FORMAT = "stagewise-scenario/1"
LARGEST_COUNT = 2**31 - 1


@dataclass(frozen=True)
class Weights:
    """The weights of delay (per second), energy (per joule) and continuity in the objectives."""

    delay: float = 0.5
    energy: float = 0.5
    continuity: float = 1.0


@dataclass(frozen=True)
class Limits:
    """What every edge must keep: (9a), (9b) in a round, (11a), (11b) with their margins in a plan."""

    kld_max: float = 0.2
    data_min: float = 2500
    kld_margin: float = 0.0
    data_margin: float = 0
    kld_risk: float = 0.3
    data_risk: float = 0.3


@dataclass(frozen=True, eq=False)
class Edges:
    """Edge servers, one entry of every array each."""

    ids: tuple[str, ...]
    capacity: IntArray
    bandwidth_hz: FloatArray
    uplink_delay_s: FloatArray
    uplink_energy_j: FloatArray
    position_m: FloatArray | None = None
    """Shape (edges, 2); NaN where an edge has no position."""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.ids)}


@dataclass(frozen=True, eq=False)
class Clients:
    """Clients, one entry of every array each."""

    ids: tuple[str, ...]
    label_counts: IntArray
    """Shape (clients, labels): how many samples of each label a client holds."""
    cpu_hz: FloatArray
    cycles_per_sample: FloatArray
    capacitance: FloatArray
    batch_fraction: FloatArray
    tx_power_w: FloatArray
    online_probability: FloatArray
    position_m: FloatArray | None = None
    history: tuple[str | None, ...] | None = None
    """Where given, the history that `online_probability` was estimated from."""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.ids)}

    @cached_property
    def data(self) -> IntArray:
        """The data size of each client."""
        return np.asarray(self.label_counts.sum(axis=1))

    @cached_property
    def label_rows(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """The label counts in compressed rows (start, label, count), and the data sizes."""
        client, label = np.nonzero(self.label_counts)
        start = np.zeros(len(self) + 1, dtype=np.int64)
        np.cumsum(np.bincount(client, minlength=len(self)), out=start[1:])
        return start, label.astype(np.int64), self.label_counts[client, label], self.data


@dataclass(frozen=True, eq=False)
class Links:
    """Which edges cover which clients, in compressed rows: client i has links start[i]:start[i+1]."""

    start: IntArray
    edge: IntArray
    """Ascending within a client."""
    gain: FloatArray

    def __len__(self) -> int:
        return len(self.edge)

    @cached_property
    def client(self) -> IntArray:
        """The client of each link."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def find(self, client: IntArray, edge: IntArray) -> IntArray:
        """The link between each client and edge, or -1 where there is none."""
        if len(self) == 0:
            return np.full(len(client), -1)
        key = client * self._stride + edge
        place = np.minimum(np.searchsorted(self._keys, key), len(self) - 1)
        return np.where(self._keys[place] == key, place, -1)

    @cached_property
    def _stride(self) -> int:
        return int(self.edge.max()) + LARGEST_COUNT

    @cached_property
    def _keys(self) -> IntArray:
        return self.client * self._stride + self.edge


@dataclass(frozen=True, eq=False)
class Scenario:
    """One federated system. Every value is checked on construction; nothing in it changes after."""

    clients: Clients
    edges: Edges
    links: Links
    local_steps: int = 5
    edge_rounds: int = 3
    model_bits: float = 698_880
    noise_w_per_hz: float = 3.981e-21
    weights: Weights = field(default_factory=Weights)
    limits: Limits = field(default_factory=Limits)
    reference: FloatArray | None = None
    """The reference label distribution Q; None is the uniform one."""
    window: int | None = None
    """The length of the estimator's window, tau of Eq. 6."""
    file_sha256: str | None = None
    """The digest of the file the scenario was read from."""

    def __post_init__(self) -> None:
        validate(self)

    @property
    def labels(self) -> int:
        return int(self.clients.label_counts.shape[1])

    @cached_property
    def target(self) -> FloatArray:
        """Q: the label distribution every edge should come close to; shape (labels,)."""
        if self.reference is not None:
            return self.reference
        return np.full(self.labels, 1.0 / self.labels)

    @property
    def estimator_window(self) -> int:
        return DEFAULT_WINDOW if self.window is None else self.window

    @cached_property
    def costs(self) -> "LinkCosts":
        """T_ij and E_ij of every link."""
        from stagewise.world.costs import link_costs

        return link_costs(self)

    @cached_property
    def sha256(self) -> str:
        """The digest of the scenario's JSON file, the one it came from or the one it would be."""
        from stagewise.world.scenario_file import json_sha256

        return self.file_sha256 or json_sha256(self)

    def with_online_probability(self, probability: FloatArray) -> "Scenario":
        """The same scenario with new estimates of who will be online."""
        clients = replace(self.clients, online_probability=probability, history=None)
        return replace(self, clients=clients, file_sha256=None)

    def __repr__(self) -> str:
        return (
            f"Scenario({len(self.clients)} clients, {len(self.edges)} edges, "
            f"{len(self.links)} links, {self.labels} labels)"
        )


def validate(scenario: Scenario) -> None:
    """Raise a `StagewiseError` that names the first field with a value that cannot be."""
    _validate_scalars(scenario)
    edges, clients, links = scenario.edges, scenario.clients, scenario.links
    _distinct("edges", edges.ids)
    _distinct("clients", clients.ids)
    _within("edges", "capacity", edges.ids, edges.capacity, 0, LARGEST_COUNT)
    _positive("edges", "bandwidth_hz", edges.ids, edges.bandwidth_hz)
    _not_negative("edges", "uplink_delay_s", edges.ids, edges.uplink_delay_s)
    _not_negative("edges", "uplink_energy_j", edges.ids, edges.uplink_energy_j)

    for name in ("cpu_hz", "cycles_per_sample", "tx_power_w"):
        _positive("clients", name, clients.ids, getattr(clients, name))
    _not_negative("clients", "capacitance", clients.ids, clients.capacitance)
    _within("clients", "batch_fraction", clients.ids, clients.batch_fraction, 0, 1, open_below=True)
    _within("clients", "online_probability", clients.ids, clients.online_probability, 0, 1)
    if clients.label_counts.ndim != 2 or clients.label_counts.shape[1] < 1:
        raise StagewiseError("clients.label_counts: there must be at least one label")
    lowest = clients.label_counts.min(axis=1)
    _within("clients", "label_counts", clients.ids, lowest, 0, LARGEST_COUNT)
    _within(
        "clients", "data size (sum of label_counts)", clients.ids, clients.data, 1, LARGEST_COUNT
    )

    if scenario.reference is not None:
        if scenario.reference.shape != (scenario.labels,):
            raise StagewiseError(
                f"reference has {len(scenario.reference)} entries: there must be one for each of "
                f"the {scenario.labels} labels"
            )
        if not (scenario.reference > 0).all() or abs(scenario.reference.sum() - 1) > 1e-6:
            raise StagewiseError("reference: all entries must be above 0 and sum to 1")
    if len(links) and not (np.isfinite(links.gain) & (links.gain > 0)).all():
        bad = int(np.argmin(np.isfinite(links.gain) & (links.gain > 0)))
        client, edge = clients.ids[links.client[bad]], edges.ids[links.edge[bad]]
        raise StagewiseError(
            f"clients[{links.client[bad]}] ({shown(client)}).links[{shown(edge)}] = "
            f"{shown(float(links.gain[bad]))}: must be a finite number above 0"
        )
    _validate_costs(scenario)


def _validate_scalars(scenario: Scenario) -> None:
    weights, limits = scenario.weights, scenario.limits
    for name in ("local_steps", "edge_rounds"):
        _scalar(name, getattr(scenario, name), 1, LARGEST_COUNT)
    for name in ("model_bits", "noise_w_per_hz"):
        _scalar(name, getattr(scenario, name), 0, np.inf, open_below=True)
    for name in ("delay", "energy", "continuity"):
        _scalar(f"weights.{name}", getattr(weights, name), 0, np.inf)
    for name in ("kld_max", "data_min", "kld_margin", "data_margin"):
        _scalar(f"limits.{name}", getattr(limits, name), 0, np.inf)
    for name in ("kld_risk", "data_risk"):
        _scalar(f"limits.{name}", getattr(limits, name), 0, 1)
    if limits.kld_margin > limits.kld_max:
        raise StagewiseError(
            f"limits.kld_margin = {limits.kld_margin}: must be at most kld_max = {limits.kld_max}"
        )
    if scenario.window is not None:
        _scalar("window", scenario.window, 1, LARGEST_COUNT)
    if len(scenario.edges) == 0:
        raise StagewiseError("edges: there must be at least one")
    if len(scenario.clients) == 0:
        raise StagewiseError("clients: there must be at least one")


def _validate_costs(scenario: Scenario) -> None:
    costs = scenario.costs
    finite = np.isfinite(costs.delay_s) & np.isfinite(costs.energy_j)
    if not finite.all():
        bad = int(np.argmin(finite))
        client = scenario.links.client[bad]
        raise StagewiseError(
            f"clients[{client}] ({shown(scenario.clients.ids[client])}): the delay or energy of its "
            f"link to {shown(scenario.edges.ids[scenario.links.edge[bad]])} is too large to represent"
        )
    from stagewise.world.costs import LARGEST_COST, largest_cost

    if not largest_cost(scenario, costs) <= LARGEST_COST:
        raise StagewiseError(
            "weights, edges, clients: the delay, energy or cost of a round is too large to represent"
        )


def _scalar(name: str, value: float, low: float, high: float, open_below: bool = False) -> None:
    if not np.isfinite(value) or value < low or value > high or (open_below and value == low):
        raise StagewiseError(f"{name} = {shown(value)}: {_rule(low, high, open_below)}")


def _rule(low: float, high: float, open_below: bool) -> str:
    rule = f"must be a finite number {'above' if open_below else 'of at least'} {low:g}"
    return rule if np.isinf(high) else f"{rule} and at most {high:.12g}"


def _within(
    group: str,
    name: str,
    ids: tuple[str, ...],
    values: IntArray | FloatArray,
    low: float,
    high: float,
    open_below: bool = False,
) -> None:
    if values.shape != (len(ids),):
        raise StagewiseError(
            f"{group}.{name}: must have one value for each of the {len(ids)} {group}"
        )
    good = np.isfinite(values) & (values >= low) & (values <= high)
    if open_below:
        good &= values > low
    if not good.all():
        bad = int(np.argmin(good))
        raise StagewiseError(
            f"{group}[{bad}] ({shown(ids[bad])}).{name} = {shown(values[bad].item())}: "
            f"{_rule(low, high, open_below)}"
        )


def _positive(group: str, name: str, ids: tuple[str, ...], values: FloatArray) -> None:
    _within(group, name, ids, values, 0, np.inf, open_below=True)


def _not_negative(group: str, name: str, ids: tuple[str, ...], values: FloatArray) -> None:
    _within(group, name, ids, values, 0, np.inf)


def _distinct(group: str, ids: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for number, name in enumerate(ids):
        if name == "":
            raise StagewiseError(f"{group}[{number}].id = '': must not be empty")
        if name in seen:
            raise StagewiseError(f"{group}[{number}].id = {shown(name)}: must not occur twice")
        seen.add(name)
