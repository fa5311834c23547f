"""What decides a run's results, all of it; and its file, `config.toml`."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import msgspec

from stagewise.errors import StagewiseError, shown
from stagewise.model_weights import Dtype
from stagewise.policies.remedied import Remedy
from stagewise.policies.replanned import Triggers
from stagewise.robust.rules import Aggregator
from stagewise.runs.target import rounds_to_target
from stagewise.toml import converted, read_toml, toml_lines
from stagewise.world.checks import finite, one_of, seed_number, whole
from stagewise.world.forecasts import FORECASTS, ForecastName
from stagewise.world.participation import LARGEST_ROUNDS

FORMAT: Literal["stagewise-run/1"] = "stagewise-run/1"


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file; a field that is None is left out of it."""


class Participation(_Table, frozen=True, kw_only=True):
    """Who is online in each round, and whether channels and CPUs change from round to round.

    Parameters
    ----------
    model : {"bernoulli", "markov", "trace", "own"}
        How it is drawn; `own`: the rounds were given by the caller.
    mean_session : float
        `markov`: how many rounds a time online lasts in the mean.
    trace, trace_states : str, optional
        `trace`: the file of device states, and which states of it.
    round_seconds : float
        `trace`, and forecasts by the time of day: the seconds from one round to the next.
    fluctuate : bool
        Whether channel gains and CPU frequencies are drawn again in each round.

    Examples
    --------
    >>> import stagewise
    >>> stagewise.Participation(model="markov", mean_session=8).mean_session
    8
    """

    model: Literal["bernoulli", "markov", "trace", "own"] = "bernoulli"
    mean_session: float = 5.0
    trace: str | None = None
    trace_states: str = "states_2"
    round_seconds: float = 600.0
    fluctuate: bool = False

    def __post_init__(self) -> None:
        finite("participation.mean_session", self.mean_session, 1)
        finite("participation.round_seconds", self.round_seconds, 0, open_below=True)
        if (self.trace is None) == (self.model == "trace"):
            raise StagewiseError(
                f"participation.trace: must {'be' if self.trace is None else 'only be'} given with "
                f"the model 'trace'"
            )


class Replanning(_Table, frozen=True, kw_only=True):
    """When Plan A runs again beside training; without any trigger it never does.

    Parameters
    ----------
    every, cost_factor, change_factor, absence_gap : optional
        As those of `Triggers`.
    delay_rounds : int
        A plan ordered in round g takes effect in round g + delay_rounds, whenever it is ready.
    forecast : {"rolling", "markov", "time-of-day", "mixture"}
        What says how likely clients are to be online when a plan is ordered; `rolling` is Eq. 6.

    Examples
    --------
    >>> import stagewise
    >>> stagewise.Replanning(every=10, delay_rounds=2).triggers.every
    10
    """

    every: int | None = None
    cost_factor: float | None = None
    change_factor: float | None = None
    absence_gap: float | None = None
    delay_rounds: int = 1
    forecast: ForecastName = "rolling"

    def __post_init__(self) -> None:
        whole("replanning.delay_rounds", self.delay_rounds, 1)
        one_of("replanning.forecast", self.forecast, FORECASTS)
        triggers = self.triggers
        if self.forecast != "rolling" and not triggers:
            raise StagewiseError(
                f"replanning.forecast = {shown(self.forecast)}: there must be a trigger for new plans"
            )

    @property
    def triggers(self) -> Triggers:
        """These settings as `Replanned` takes them."""
        return Triggers(**{field.name: getattr(self, field.name) for field in fields(Triggers)})


class RunConfig(_Table, frozen=True, kw_only=True):
    """A run, complete: two runs of one configuration give the same results.

    How many processes share the work is no part of it.
    """

    format: Literal["stagewise-run/1"] = FORMAT
    dataset: str
    dataset_fingerprint: str
    data_dir: str | None = None
    image_size: int | None = None
    """For folders of images: the pixels along each side."""
    scenario: str
    """Where the scenario came from; the run keeps its own copy."""
    scenario_sha256: str
    model: str
    policy: str
    given_policy: bool | None = None
    """True where the policy was given as an object, which resuming needs again."""
    rounds: int
    seed: int
    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    dtype: Dtype = "float32"
    device: str = "cpu"
    """Where to train: `cpu`, `cuda`, `cuda:N` or `mps`."""
    remedy: Remedy | None = None
    """What to do with an edge that cannot keep its limits in a round; None: it trains as it is."""
    aggregator: Aggregator = "mean"
    """How models are combined, at edges and at the cloud."""
    quarantine_rounds: int = 10
    """For how long a client is not asked whose updates were rejected twice; 0: it always is."""
    keep_checkpoints: int = 3
    """How many of the last checkpoints are kept, the newest included."""
    evaluate_every: int = 1
    """Rounds from one evaluation to the next; the last round is always evaluated."""
    stop_at_accuracy: float | None = None
    """The run ends when the mean accuracy of three successive evaluations is at least this."""
    participation: Participation = Participation()
    replanning: Replanning = Replanning()
    plan_b: dict[str, str | float] | None = None
    """For a policy that follows a plan: how it does. With `plan.json`, all there is to it."""

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, 1, LARGEST_ROUNDS)
        seed_number(self.seed)
        finite("learning_rate", self.learning_rate, 0, open_below=True)
        finite("momentum", self.momentum, 0, 1)
        finite("weight_decay", self.weight_decay, 0)
        whole("quarantine_rounds", self.quarantine_rounds, 0, LARGEST_ROUNDS)
        whole("keep_checkpoints", self.keep_checkpoints, 1, LARGEST_ROUNDS)
        whole("evaluate_every", self.evaluate_every, 1)
        if self.stop_at_accuracy is not None:
            finite("stop_at_accuracy", self.stop_at_accuracy, 0, 1)

    def evaluates(self, round_index: int) -> bool:
        """Whether the model is evaluated after round `round_index`."""
        return (round_index + 1) % self.evaluate_every == 0 or round_index + 1 == self.rounds

    def is_over(self, accuracies: Sequence[float | None]) -> bool:
        """Whether a run ends after rounds with these accuracies, None where none was measured."""
        if len(accuracies) == self.rounds:
            return True
        target = self.stop_at_accuracy
        return target is not None and rounds_to_target(accuracies, target) is not None


def make_config(**settings: Any) -> RunConfig:
    """A configuration whose fields are checked as those of a file are, types included."""
    plain = msgspec.to_builtins(settings, enc_hook=_plain_number)
    return converted(plain, RunConfig, "simulate: ")


def _plain_number(value: Any) -> Any:
    if hasattr(value, "item"):  # a number of NumPy's
        return value.item()
    raise StagewiseError(f"simulate: {shown(value)}: must be a number or a text")


def to_toml(config: RunConfig) -> str:
    """The file's text: the same configuration gives the same text."""
    scalars: list[str] = []
    tables: list[str] = []
    for name, value in msgspec.to_builtins(config).items():
        if isinstance(value, dict):
            tables += ["", f"[{name}]", *toml_lines(value)]
        else:
            scalars += toml_lines({name: value})
    return "\n".join([*scalars, *tables]) + "\n"


def load_config(path: str | Path) -> RunConfig:
    """Read `config.toml`; whatever is wrong with it is one line."""
    return converted(read_toml(path), RunConfig, f"{path}: ")
