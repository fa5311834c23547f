"""What a record claims compared with what is so: figures, and the texts of its violations."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stagewise.errors import shown

_RELATIVE = 1e-9
_CONSTRAINTS = ("no clients", "capacity", "data", "kld")
_PRINTED = 1e-5  # the texts give six digits

# "data 80 < data_min 100", "kld risk 0.4 > kld_risk 0.3", "clients 7 > capacity 5"
_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf|nan)"
_COMPARISON = re.compile(
    rf"\b(data|kld|clients)(?: risk)? {_NUMBER} [<>] \w+ {_NUMBER}(?![\w.])", re.I
)


class Broken(NamedTuple):
    """A constraint that does not hold: what there is, and the limit."""

    value: float
    limit: float


BrokenByEdge = Mapping[int, Mapping[str, Broken]]
"""For every edge that breaks something, the constraints it breaks by the names in the texts."""


def broken_limits(
    clients: int, capacity: int, *others: tuple[str, bool, float, float]
) -> dict[str, Broken]:
    """What an edge breaks; of each other limit: its name, whether, what there is, and the limit."""
    if clients == 0:
        return {"no clients": Broken(0, 1)}
    # (9e), (11e)
    every = (("capacity", clients > capacity, clients, capacity), *others)
    return {word: Broken(value, limit) for word, is_broken, value, limit in every if is_broken}


def as_record(claimed: Any) -> Any:
    """What a plan or a decision says of itself; a record of a file is that already."""
    return claimed.record() if hasattr(claimed, "record") else claimed


@dataclass
class Claims:
    """The lines about one record so far; each begins with `where`."""

    where: str
    lines: list[str] = field(default_factory=list)

    def untrue(self, text: str) -> None:
        self.lines.append(f"{self.where}: {text}")

    def exactly(self, name: str, claimed: object, recomputed: object) -> None:
        """A claim that must be equal: a whole number, a truth value, a text."""
        if claimed != recomputed:
            self.untrue(f"{name} = {shown(claimed)}: recomputed {shown(recomputed)}")

    def closely(self, name: str, claimed: float, recomputed: float, slack: float = 0.0) -> None:
        """A claim that must be equal to 1e-9 relative, or to `slack` where differences cancel."""
        if not math.isclose(claimed, recomputed, rel_tol=_RELATIVE, abs_tol=slack):
            self.untrue(f"{name} = {claimed!r}: recomputed {recomputed!r}")

    def duration(self, name: str, claimed: float) -> None:
        if not (math.isfinite(claimed) and claimed >= 0):
            self.untrue(f"{name} = {claimed!r}: must be a finite number of at least 0")

    def edges(
        self, claimed: Sequence[Any], edges: Mapping[str, int]
    ) -> Iterator[tuple[Any, str, int]]:
        """The edges of a record that there are, each with its name here and its number."""
        if [edge.id for edge in claimed] != list(edges):
            self.untrue("edges: must be the scenario's edges in their order")
        for edge in claimed:
            if edge.id in edges:
                yield edge, f"edges[{edge.id}]", edges[edge.id]

    def feasibility(
        self, record: Any, broken: BrokenByEdge, possible: bool, edges: Mapping[str, int]
    ) -> bool:
        """Whether a record is feasible, compared with what it says of that.

        Every broken constraint is mentioned, and nothing else; `edges` is the index by id.
        """
        feasible, texts = possible and not any(broken.values()), record.violations
        self.exactly("feasible", record.feasible, feasible)
        if feasible != (not texts):
            self.untrue(
                f"violations = {shown(list(texts))}: must be empty if and only if the answer is "
                f"feasible, recomputed {feasible}"
            )
        mentioned: set[tuple[int, str]] = set()
        for text in texts:
            readings = list(_readings(text, edges))
            right = [reading for reading in readings if reading.holds(broken)]
            if not readings:
                self.untrue(f"violations: {shown(text)}: names no edge of the scenario")
            elif not right:
                self.untrue(f"violations: {shown(text)}: is not so")
            for reading in right:
                mentioned |= {(edge, word) for edge in reading.edges for word in reading.words}
        names = list(edges)
        for edge in sorted(broken):
            for word, (value, limit) in broken[edge].items():
                if (edge, word) not in mentioned:
                    self.untrue(
                        f"violations: must mention {shown(names[edge])} and {word!r}: recomputed "
                        f"{value!r}, limit {limit!r}"
                    )
        return feasible


class _Reading(NamedTuple):
    """One way to read a text: the edges it blames, and for what."""

    edges: frozenset[int]
    words: frozenset[str]
    figures: tuple[tuple[str, float, float], ...]

    def holds(self, broken: BrokenByEdge) -> bool:
        return all(self._holds_at(broken.get(edge, {})) for edge in self.edges)

    def _holds_at(self, broken: Mapping[str, Broken]) -> bool:
        return (
            bool(broken)
            and self.words <= broken.keys()
            and all(
                word in broken
                and math.isclose(value, broken[word].value, rel_tol=_PRINTED)
                and math.isclose(limit, broken[word].limit, rel_tol=_PRINTED)
                for word, value, limit in self.figures
            )
        )


def _readings(text: str, edges: Mapping[str, int]) -> Iterator[_Reading]:
    """`<edge>: <what>`, which an id with colons makes ambiguous; otherwise ids among the words."""
    found = False
    for colon in re.finditer(":", text):
        edge = edges.get(text[: colon.start()])
        if edge is not None:
            found = True
            yield _reading(frozenset([edge]), text[colon.end() :])
    if found:
        return
    tokens = [token.strip(".,:;()[]'\"") for token in text.split()]
    named = frozenset(edges[token] for token in tokens if token in edges)
    if named:
        yield _reading(named, " ".join(token for token in tokens if token not in edges))


def _reading(edges: frozenset[int], what: str) -> _Reading:
    lowered = what.lower()
    words = frozenset(word for word in _CONSTRAINTS if re.search(rf"\b{word}\b", lowered))
    figures = tuple(
        ("capacity" if word == "clients" else word, float(value), float(limit))
        for word, value, limit in _COMPARISON.findall(lowered)
    )
    return _Reading(edges, words, figures)
