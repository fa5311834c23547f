"""Selectors and associators by name: ours, and those that installed packages declare.

A name may have options: `oort,k=20,exploration=0.5`. They are the parameters of its class or function;
`scenario`, `seed` and `seconds` are given to whatever asks for them.
"""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter, signature
from typing import Any, get_args

from stagewise.errors import StagewiseError, shown
from stagewise.plug_ins import load_named, names_in
from stagewise.selection.associator import Associator
from stagewise.selection.selector import Selector
from stagewise.world.checks import finite, instance_of, seed_number
from stagewise.world.scenario import Scenario

DEFAULT_SELECTOR, DEFAULT_ASSOCIATOR = "all-online", "least-delay"

LABEL_WEIGHTS = "+label-weights"
"""Behind a policy's name: what else becomes of its answers."""

_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

SELECTORS = {
    "all-online": "stagewise.selection.random_selection:AllOnline",
    "random-k": "stagewise.selection.random_selection:RandomK",
    "oort": "stagewise.selection.oort:Oort",
    "power-of-choice": "stagewise.selection.power_of_choice:PowerOfChoice",
    "fedcor": "stagewise.selection.fedcor:FedCor",
    "refl": "stagewise.selection.refl:Refl",
    "fedlecc": "stagewise.selection.fedlecc:FedLecc",
}
ASSOCIATORS = {
    "nearest": "stagewise.selection.associators:Nearest",
    "least-delay": "stagewise.selection.associators:LeastDelay",
    "random": "stagewise.selection.associators:RandomEdge",
    "hashed": "stagewise.selection.associators:Hashed",
    "balanced": "stagewise.selection.associators:Balanced",
    "pool": "stagewise.selection.associators:PoolAssociator",
    "shapefl": "stagewise.selection.shapefl:ShapeFl",
    "async-hfl": "stagewise.selection.async_hfl:AsyncHfl",
}
METHODS_THAT_ASSOCIATE = ("shapefl", "async-hfl")
"""Published methods that say where clients train, and leave open who does."""

_TABLES: dict[str, Mapping[str, str]] = {"selector": SELECTORS, "associator": ASSOCIATORS}
_GIVEN = ("scenario", "seed", "seconds")
_READ: dict[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    str: str,
    bool: {"true": True, "false": False}.__getitem__,
}

Make = Callable[..., Any]


def selector_names() -> list[str]:
    """The names of all selectors: our own first, then those of installed packages.

    Examples
    --------
    >>> import stagewise
    >>> "oort" in stagewise.selector_names()
    True
    """
    return _names("selector")


def associator_names() -> list[str]:
    """The names of all associators: our own first, then those of installed packages.

    Examples
    --------
    >>> import stagewise
    >>> "nearest" in stagewise.associator_names()
    True
    """
    return _names("associator")


def make_selector(
    name: str, scenario: Scenario, seed: int = 0, seconds: float | None = None
) -> Selector:
    """The selector of that name, with the options that stand behind it.

    Parameters
    ----------
    name : str
        One of `selector_names()`; options follow, as in `random-k,k=20`.
    scenario : Scenario
        The system it is to select for.
    seed : int
        Of every random draw.
    seconds : float, optional
        The time that one decision may take.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> stagewise.make_selector("random-k,k=20", scenario).k
    20
    """
    return _made("selector", Selector, name, scenario, seed, seconds)  # type: ignore[no-any-return]


def make_associator(
    name: str, scenario: Scenario, seed: int = 0, seconds: float | None = None
) -> Associator:
    """The associator of that name, with the options that stand behind it.

    Parameters
    ----------
    name : str
        One of `associator_names()`; options follow, as in `shapefl,gamma=2`.
    scenario : Scenario
        The system whose clients it is to place.
    seed : int
        Of every random draw.
    seconds : float, optional
        The time that one decision may take.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> stagewise.make_associator("nearest", scenario).title
    'nearest'
    """
    return _made("associator", Associator, name, scenario, seed, seconds)  # type: ignore[no-any-return]


def parts_of(name: str) -> tuple[str, str] | None:
    """The selector and the associator that a policy's name is made of; None where it is not.

    `oort+nearest` names both; `oort` alone goes with `least-delay`, and a method that only associates
    (`shapefl`) is one for everybody who is online. How clients are weighted is no part.
    """
    first, plus, second = name.removesuffix(LABEL_WEIGHTS).partition("+")
    if plus:
        return first, second
    if first.partition(",")[0] in selector_names():
        return first, DEFAULT_ASSOCIATOR
    if first.partition(",")[0] in METHODS_THAT_ASSOCIATE:
        return DEFAULT_SELECTOR, first
    return None


def component_factory(kind: str, name: str) -> Make:
    """What makes the `kind` called `name`, with its options; every mistake in it is an error."""
    base, *options = name.split(",")
    make = _loaded(kind, base)
    parameters = _parameters(make)
    known = {key: p for key, p in parameters.items() if key not in _GIVEN}
    read = {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals or key not in known or key in read:
            rule = (
                f"{base} has the options {', '.join(known)}" if known else f"{base} has no options"
            )
            raise StagewiseError(f"{kind} = {shown(name)}: {shown(option)}: {rule}, each once")
        read[key] = _value(f"{kind} = {shown(name)}: {key}", text, known[key])
    for key, parameter in known.items():
        if key not in read and parameter.default is Parameter.empty and parameter.kind in _BY_NAME:
            raise StagewiseError(f"{kind} = {shown(name)}: must have the option {key}")
    return partial(make, **read)


def _parameters(make: Make) -> Mapping[str, Parameter]:
    """Those of a class or function, with annotations that were written as text."""
    try:
        return signature(make, eval_str=True).parameters
    except NameError:  # a name that is there for type checkers only
        return signature(make).parameters


def _value(field: str, text: str, parameter: Parameter) -> object:
    """An option's text as its parameter is annotated, or else as its default is."""
    annotated = (parameter.annotation, *get_args(parameter.annotation))
    kinds = [kind for kind in (*annotated, type(parameter.default)) if kind in _READ]
    kind = kinds[0] if kinds else str
    try:
        return _READ[kind](text)
    except (ValueError, KeyError):
        rule = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise StagewiseError(f"{field} = {shown(text)}: must be {rule}") from None


def _made(
    kind: str, wanted: type, name: str, scenario: Scenario, seed: int, seconds: float | None
) -> Any:
    instance_of("name", name, str)
    instance_of("scenario", scenario, Scenario)
    if seconds is not None:
        finite("seconds", seconds, 0, open_below=True)
    make = component_factory(kind, name)
    given = {"scenario": scenario, "seed": seed_number(seed), "seconds": seconds}
    parameters = signature(make).parameters
    made = make(**{key: value for key, value in given.items() if key in parameters})
    instance_of(kind, made, wanted)
    made.name = name
    return made


def _names(kind: str) -> list[str]:
    return names_in(_TABLES[kind], f"stagewise.{kind}s")


def _loaded(kind: str, name: str) -> Make:
    make: Make | None = load_named(kind, name, _TABLES[kind], f"stagewise.{kind}s")
    if make is None:
        raise StagewiseError(f"{kind} = {shown(name)}: must be one of {', '.join(_names(kind))}")
    return make
