"""The instances there are: how each is made, and the digest that tells whether it is the same."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from stagewise.errors import StagewiseError, shown
from stagewise.files import convert
from stagewise.instances.adversarial import chain
from stagewise.instances.real_systems import (
    AIOTWIN_FILES,
    EUA_CBD_FILES,
    EUA_METRO_FILES,
    EUA_WINDOW_FILES,
    MESH_FILES,
    aiotwin,
    eua_cbd,
    eua_metro,
    eua_window,
    nycmesh,
)
from stagewise.toml import read_toml
from stagewise.world.generate import numeric, paper_set
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Scenario

Size = Literal["tiny", "tight", "paper", "medium", "large", "huge", "real"]
_FILE = Path(__file__).with_name("instances.toml")

_MAKERS: dict[str, Callable[..., Scenario]] = {
    "numeric": numeric,
    "paper-set": paper_set,
    "chain": chain,
    "eua-window": eua_window,
    "eua-cbd": eua_cbd,
    "eua-metro": eua_metro,
    "nycmesh": nycmesh,
    "aiotwin": aiotwin,
}
_NEEDED = {
    "eua-window": EUA_WINDOW_FILES,
    "eua-cbd": EUA_CBD_FILES,
    "eua-metro": EUA_METRO_FILES,
    "nycmesh": MESH_FILES,
    "aiotwin": tuple(AIOTWIN_FILES.values()),
}


@dataclass(frozen=True)
class BenchmarkInstance:
    """A system and its rounds, made from their seeds: the same everywhere.

    Examples
    --------
    >>> import stagewise
    >>> instance = stagewise.load_instance("paper-100x4-1")
    >>> scenario, rounds = instance.make()
    >>> len(scenario.clients), len(rounds)
    (100, 5)
    """

    name: str
    size: Size
    source: str
    """By what it is made: a generator, or the name of a real system."""
    seed: int
    """Of the system and of its rounds."""
    rounds: int
    sha256: str
    """Of the scenario and of who is online."""
    options: dict[str, Any]
    """Of the generator."""
    limits: dict[str, float]

    @property
    def files(self) -> tuple[str, ...]:
        """What it needs below the folder of data."""
        return _NEEDED.get(self.source, ())

    def make(self) -> tuple[Scenario, list[Round]]:
        """The scenario and its rounds.

        Raises
        ------
        StagewiseError
            If a file is missing, or if what is made here is not what others have.
        """
        scenario, rounds = self._made()
        digest = digest_of(scenario, rounds)
        if digest != self.sha256:
            raise StagewiseError(
                f"{self.name}: its digest is {digest[:16]}, must be {self.sha256[:16]}: other data, or "
                f"another version of the generators"
            )
        return scenario, rounds

    def _made(self) -> tuple[Scenario, list[Round]]:
        options = dict(self.options)
        if self.limits:
            options["limits"] = Limits(**self.limits)
        scenario = _MAKERS[self.source](seed=self.seed, **options)
        return scenario, bernoulli(scenario, self.rounds, self.seed)


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file."""

    name: str
    size: Size
    source: str
    seed: int
    rounds: int
    sha256: str = ""
    options: dict[str, Any] = {}
    limits: dict[str, float] = {}


def digest_of(scenario: Scenario, rounds: list[Round]) -> str:
    """Of everything that a decision may depend on."""
    digest = hashlib.sha256(scenario.sha256.encode())
    for round_ in rounds:
        digest.update(round_.online.tobytes())
    return digest.hexdigest()


@cache
def load_instances() -> dict[str, BenchmarkInstance]:
    """All instances by name, the small ones first."""
    entries = convert(read_toml(_FILE), dict[str, list[_Entry]])["instance"]
    made = (BenchmarkInstance(**msgspec.structs.asdict(entry)) for entry in entries)
    return {instance.name: instance for instance in made}


def instance_names() -> list[str]:
    """The names of all instances.

    Examples
    --------
    >>> import stagewise
    >>> "nycmesh-184x6" in stagewise.instance_names()
    True
    """
    return list(load_instances())


def load_instance(name: str) -> BenchmarkInstance:
    """The instance of that name.

    Parameters
    ----------
    name : str
        One of `instance_names`.

    Examples
    --------
    >>> import stagewise
    >>> stagewise.load_instance("numeric-1000x40-1").size
    'large'
    """
    known = load_instances()
    if name not in known:
        raise StagewiseError(f"instance = {shown(name)}: must be one of {', '.join(known)}")
    return known[name]
