"""The four parameter sets of Table II, "Parameter setting"."""

from dataclasses import replace

from stagewise.errors import StagewiseError, shown
from stagewise.world.generate.numeric import numeric
from stagewise.world.generate.system import SystemParameters
from stagewise.world.generate.tasks import Task
from stagewise.world.scenario import Limits, Scenario, Weights

_USUAL: dict[str, float] = {"clients": 100, "edges": 4, "data_min": 2500, "p_min": 0.5}

PAPER_SETS: dict[int, tuple[str, tuple[float, ...]]] = {
    1: ("clients", tuple(range(75, 121, 5))),
    2: ("edges", (3, 4, 5, 6, 7)),
    3: ("data_min", (2000, 2500, 3000, 3500, 4000)),
    4: ("p_min", (0.4, 0.45, 0.5, 0.6, 0.7)),
}
"""What each set varies, and the values it takes; `p_min` is the lower end of [p_min, 1)."""


def paper_set(
    number: int,
    value: float | None = None,
    seed: int = 0,
    *,
    task: str | Task = "mnist",
    weights: Weights | None = None,
    limits: Limits | None = None,
) -> Scenario:
    """The scenario of set `number` with what it varies at `value`.

    Scenarios of one seed are alike but for what is varied: the same clients at other limits or
    probabilities, or more of them.

    Parameters
    ----------
    number : {1, 2, 3, 4}
        The set: it varies the clients, the edges, `data_min`, or the least online probability.
    value : float, optional
        By default the value the other sets keep: 100 clients, 4 edges, 2500 samples, p from 0.5.
    seed : int
        Of every random draw.
    task : str or Task
        The learning task.
    weights : Weights, optional
        Of delay, energy and continuity.
    limits : Limits, optional
        What every edge must keep; `data_min` is the table's all the same.

    Examples
    --------
    >>> import stagewise
    >>> len(stagewise.generate.paper_set(1, 75).clients)
    75
    """
    if number not in PAPER_SETS:
        raise StagewiseError(f"set = {shown(number)}: must be one of {_listed(tuple(PAPER_SETS))}")
    name, allowed = PAPER_SETS[number]
    if value is not None and value not in allowed:
        raise StagewiseError(
            f"{name} = {shown(value)}: must be one of {_listed(allowed)} in set {number}"
        )
    chosen = _USUAL if value is None else _USUAL | {name: value}
    return numeric(
        int(chosen["clients"]),
        int(chosen["edges"]),
        seed,
        task=task,
        parameters=SystemParameters(online_probability=(chosen["p_min"], 1.0)),
        weights=weights,
        limits=replace(Limits() if limits is None else limits, data_min=chosen["data_min"]),
    )


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)
