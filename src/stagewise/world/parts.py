"""What a scenario is made of: clients, edges and links as arrays, and the rules for their values."""

import math
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.world.checks import (
    LARGEST_COUNT,
    BoolArray,
    FieldError,
    FloatArray,
    Frozen,
    IntArray,
    Rule,
    field_error,
    finite,
    fitting,
    frozen,
    frozen_array,
    indices,
    names,
    not_given,
)

BATCH_FRACTION = 0.1
"""The share of a client's data in a step where nothing else is said."""

_MODEL = Rule(open_below=True, optional=True)

CLIENT_RULES = {
    "cpu_hz": _MODEL,
    "cycles_per_sample": _MODEL,
    "capacitance": Rule(optional=True),
    "batch_fraction": Rule(high=1, open_below=True, optional=True),
    "tx_power_w": _MODEL,
    "online_probability": Rule(high=1),
}
EDGE_RULES = {
    "capacity": Rule(high=LARGEST_COUNT, whole=True),
    "bandwidth_hz": _MODEL,
    "uplink_delay_s": Rule(),
    "uplink_energy_j": Rule(),
}
LINK_RULES = {"gain": _MODEL, "delay_s": Rule(optional=True), "energy_j": Rule(optional=True)}

MODEL_FIELDS = {
    "clients": ("cpu_hz", "cycles_per_sample", "capacitance", "tx_power_w"),
    "edges": ("bandwidth_hz",),
}
"""What the paper's model needs to know of a client and of an edge to give a link's costs."""

_COUNTS = Rule(high=LARGEST_COUNT, whole=True)
_DATA = Rule(1, LARGEST_COUNT, whole=True)
_POSITION = Rule(low=-math.inf, open_below=True, optional=True)

# The default of an array that may be left out; the array itself is never None.
_LEFT_OUT: Any = None


@dataclass(frozen=True)
class Weights(Frozen):
    """The weights of delay, energy and continuity in the objectives.

    Parameters
    ----------
    delay
        Per second.
    energy
        Per joule.
    continuity
        Of how constantly the long-term clients come (Eq. 10).

    Raises
    ------
    StagewiseError
        If a weight is not a finite number of at least 0.

    Examples
    --------
    >>> Weights(delay=1, energy=0)
    Weights(delay=1, energy=0, continuity=1.0)
    """

    delay: float = 0.5
    energy: float = 0.5
    continuity: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            self._set(name, finite(f"weights.{name}", value, 0))


@dataclass(frozen=True)
class Limits(Frozen):
    """What every edge must keep: (9a), (9b) in a round, (11a), (11b) with their margins in a plan.

    Parameters
    ----------
    kld_max
        The largest divergence of an edge's labels from the reference, in nats; infinite where
        balance does not matter.
    data_min
        The least data of an edge, in samples.
    kld_margin, data_margin
        By how much a plan keeps further from these limits.
    kld_risk, data_risk
        How likely an edge of a plan may be to break them.

    Raises
    ------
    StagewiseError
        If a limit is below 0, a risk above 1, or `kld_margin` above `kld_max`.

    Examples
    --------
    >>> Limits(kld_max=math.inf, data_min=100).kld_max
    inf
    """

    kld_max: float = 0.2
    data_min: float = 2500
    kld_margin: float = 0.0
    data_margin: float = 0
    kld_risk: float = 0.3
    data_risk: float = 0.3

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name == "kld_max" and isinstance(value, float) and value == math.inf:
                continue
            high = 1 if name.endswith("_risk") else math.inf
            self._set(name, finite(f"limits.{name}", value, 0, high))
        if self.kld_margin > self.kld_max:
            raise StagewiseError(
                f"limits.kld_margin = {self.kld_margin}: must be at most kld_max = {self.kld_max}"
            )


class Named(Frozen):
    """Clients or edges: a name and an entry of every array for each."""

    ids: tuple[str, ...]
    position_m: FloatArray | None

    def _check(self, group: str, rules: Mapping[str, Rule]) -> None:
        self._set("ids", names(group, self.ids))
        for name, rule in rules.items():
            self._set(name, self._column(group, name, rule, getattr(self, name)))
        if self.position_m is None:
            return
        array = self._column(group, "position_m", _POSITION, self.position_m, ndim=2)
        if array.shape[1] != 2:
            raise StagewiseError(
                f"{group}.position_m has the shape {array.shape}: must have x and y"
            )
        half = np.isnan(array).sum(axis=1) == 1
        if half.any():
            problem = ": x and y must both be given, or neither"
            raise field_error(group, self.ids, int(np.argmax(half)), "position_m", problem)
        self._set("position_m", array)

    def _column(self, group: str, name: str, rule: Rule, values: object, ndim: int = 1) -> Any:
        def wrong(place: tuple[int, ...], problem: str) -> StagewiseError:
            return field_error(group, self.ids, place[0], name + indices(place[1:]), problem)

        return rule.array(f"{group}.{name}", values, len(self), group, wrong, ndim)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.ids)}


@dataclass(frozen=True, eq=False)
class Edges(Named):
    """Edge servers, one entry of every array each.

    Parameters
    ----------
    ids
        Their names, all different.
    capacity
        How many clients each can serve.
    uplink_delay_s, uplink_energy_j
        What sending an edge's model to the cloud takes.
    bandwidth_hz
        May be left out, or NaN, for edges all of whose links are measured.
    position_m
        Shape (edges, 2); NaN where an edge has no position.

    Raises
    ------
    StagewiseError
        If a value cannot be; the message names it and the rule.

    Examples
    --------
    >>> Edges(["es0"], capacity=[5], uplink_delay_s=[0.2], uplink_energy_j=[0.1]).bandwidth_hz
    array([nan])
    """

    ids: tuple[str, ...]
    capacity: IntArray
    uplink_delay_s: FloatArray
    uplink_energy_j: FloatArray
    _: KW_ONLY
    bandwidth_hz: FloatArray = _LEFT_OUT
    position_m: FloatArray | None = None

    def __post_init__(self) -> None:
        self._check("edges", EDGE_RULES)


@dataclass(frozen=True, eq=False)
class Clients(Named):
    """Clients, one entry of every array each.

    Parameters
    ----------
    ids
        Their names, all different.
    label_counts
        Shape (clients, labels): how many samples of each label a client holds.
    online_probability
        How likely each is to be online in a round.
    cpu_hz, cycles_per_sample, capacitance, tx_power_w
        What the paper's model needs for the costs of a link. May be left out, or NaN, for clients
        all of whose links are measured.
    batch_fraction
        The share of its data that a client trains on in a step; 0.1 where left out or NaN.
    position_m
        Shape (clients, 2); NaN where a client has no position.
    history
        Where given, the history that `online_probability` was estimated from.

    Raises
    ------
    StagewiseError
        If a value cannot be; the message names it and the rule.

    Examples
    --------
    >>> Clients(["c0", "c1"], label_counts=[[30, 10], [0, 25]], online_probability=[1, 0.8]).data
    array([40, 25])
    """

    ids: tuple[str, ...]
    label_counts: IntArray
    online_probability: FloatArray
    _: KW_ONLY
    cpu_hz: FloatArray = _LEFT_OUT
    cycles_per_sample: FloatArray = _LEFT_OUT
    capacitance: FloatArray = _LEFT_OUT
    batch_fraction: FloatArray = _LEFT_OUT
    tx_power_w: FloatArray = _LEFT_OUT
    position_m: FloatArray | None = None
    history: tuple[str | None, ...] | None = None

    def __post_init__(self) -> None:
        self._check("clients", CLIENT_RULES)
        counts = self._column("clients", "label_counts", _COUNTS, self.label_counts, ndim=2)
        if counts.shape[1] == 0:
            raise StagewiseError("clients.label_counts: there must be at least one label")
        self._set("label_counts", counts)
        self._column("clients", "data size (sum of label_counts)", _DATA, self.data)
        absent = np.isnan(self.batch_fraction)
        if absent.any():
            filled = frozen(np.where(absent, BATCH_FRACTION, self.batch_fraction))
            self._set("batch_fraction", filled)
        if self.history is not None:
            self._set("history", checked_history(self.history, self.ids))

    @cached_property
    def data(self) -> IntArray:
        """The data size of each client."""
        return frozen(self.label_counts.sum(axis=1))

    @cached_property
    def label_rows(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """The label counts in compressed rows (start, label, count), and the data sizes.

        Compiled loops take them as they are, and a frozen array as another type: so these are not.
        """
        client, label = np.nonzero(self.label_counts)
        start = np.zeros(len(self) + 1, dtype=np.int64)
        np.cumsum(np.bincount(client, minlength=len(self)), out=start[1:])
        counts = self.label_counts[client, label]
        return start, label.astype(np.int64), counts, self.data.copy()


@dataclass(frozen=True, eq=False)
class Links(Frozen):
    """Which edges cover which clients, in compressed rows: client i has links start[i]:start[i+1].

    A link has a channel gain, from which the paper's model gives its costs, or costs that were
    measured: `delay_s` and `energy_j` of one edge round, local steps and upload.

    Parameters
    ----------
    start
        Shape (clients + 1,).
    edge
        The edge of each link, ascending within a client.
    gain
        NaN where the costs were measured, None where all were.
    delay_s
        NaN where there is a gain, None where there are only gains.
    energy_j
        As `delay_s`. NaN also where only the delay was measured; the weight of energy must then be
        0, and the link counts 0 J.

    Raises
    ------
    StagewiseError
        If the arrays do not fit each other. What is wrong with a single link is found together
        with the clients and edges it joins, by `Scenario`, which can name them.

    Examples
    --------
    >>> links = Links(start=[0, 2, 3], edge=[0, 1, 1], delay_s=[0.4, 0.7, 0.5])
    >>> links.client, links.measured
    (array([0, 0, 1]), array([ True,  True,  True]))
    """

    start: IntArray
    edge: IntArray
    gain: FloatArray = _LEFT_OUT
    delay_s: FloatArray = _LEFT_OUT
    energy_j: FloatArray = _LEFT_OUT

    def __post_init__(self) -> None:
        for name in ("start", "edge"):
            self._set(name, frozen_array(f"links.{name}", getattr(self, name), np.int64))
        links = len(self)
        fitting("links.edge", self.edge, links, "links")
        for name in LINK_RULES:
            values = not_given(links) if getattr(self, name) is None else getattr(self, name)
            array = frozen_array(f"links.{name}", values, np.float64, partial(_wrong_link, name))
            self._set(name, fitting(f"links.{name}", array, links, "links"))
        start = self.start
        if start.ndim != 1 or len(start) == 0 or start[0] != 0:
            raise StagewiseError(f"links.start = {shown(start.tolist())}: must begin with 0")
        falling = np.flatnonzero(start[1:] < start[:-1])
        if len(falling):
            at = int(falling[0]) + 1
            raise StagewiseError(
                f"links.start[{at}] = {start[at]}: must not be below the one before, {start[at - 1]}"
            )
        if start[-1] != links:
            raise StagewiseError(
                f"links.start[{len(start) - 1}] = {start[-1]}: must be the number of links, {links}"
            )

    def __len__(self) -> int:
        return len(self.edge)

    @cached_property
    def client(self) -> IntArray:
        """The client of each link."""
        return frozen(np.repeat(np.arange(len(self.start) - 1), np.diff(self.start)))

    @cached_property
    def measured(self) -> BoolArray:
        """Which links have measured costs in place of a gain."""
        return frozen(np.isnan(self.gain))

    def find(self, client: IntArray, edge: IntArray) -> IntArray:
        """The link between each client and edge, or -1 where there is none."""
        if len(self) == 0:
            return np.full(len(client), -1)
        key = client * self._stride + edge
        place = np.minimum(np.searchsorted(self._keys, key), len(self) - 1)
        return np.where(self._keys[place] == key, place, -1)

    @cached_property
    def fault(self) -> tuple[int, str, str] | None:
        """The first link that cannot be: which, its field and the rule; None where all can be."""
        edge, measured = self.edge, self.measured
        rising = np.ones(len(edge), dtype=np.bool_)
        rising[1:] = edge[1:] > edge[:-1]
        rising[self.start[:-1][np.diff(self.start) > 0]] = True
        checks = [
            ("edge", edge >= 0, "must be at least 0"),
            ("edge", rising, "edges must ascend within a client"),
            *(
                (name, rule.kept_by(getattr(self, name)), rule.text)
                for name, rule in LINK_RULES.items()
            ),
            (
                "delay_s",
                measured ^ np.isnan(self.delay_s),
                "a link must have a gain or a delay_s, and not both",
            ),
            (
                "energy_j",
                measured | np.isnan(self.energy_j),
                "must only be given together with delay_s",
            ),
        ]
        for name, kept, rule in checks:
            if not kept.all():
                return int(np.argmin(kept)), name, rule
        return None

    @cached_property
    def last_edge(self) -> int:
        """The highest number of an edge; -1 without links."""
        return int(self.edge.max(initial=-1))

    @property
    def _stride(self) -> int:
        return self.last_edge + LARGEST_COUNT

    @cached_property
    def _keys(self) -> IntArray:
        return frozen(self.client * self._stride + self.edge)


@dataclass(frozen=True, eq=False)
class System(Frozen):
    """The fields of a scenario: what its costs and its files are made from."""

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
    window: int | None = None


def _wrong_link(name: str, place: tuple[int, ...], problem: str) -> StagewiseError:
    return FieldError(f"links.{name}[{place[0]}]", "links", place[0], name, problem)


def checked_history(history: object, ids: tuple[str, ...]) -> tuple[str | None, ...]:
    """`history` if it has None or a text of 0 and 1 for each client."""
    if not isinstance(history, list | tuple) or len(history) != len(ids):
        raise StagewiseError(
            f"clients.history = {shown(history)}: must have one entry for each of the {len(ids)} "
            f"clients"
        )
    for row, past in enumerate(history):
        if past is not None and not (isinstance(past, str) and re.fullmatch("[01]+", past)):
            problem = f" = {shown(past)}: must be text of 0 and 1, oldest first"
            raise field_error("clients", ids, row, "history", problem)
    return tuple(history)
