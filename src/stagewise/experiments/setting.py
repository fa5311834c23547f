"""What one cell of an experiment is made of: the fields a file may set, and their rules."""

from typing import Any, Literal

import msgspec

from stagewise.errors import StagewiseError, one_line

Measure = Literal["decisions", "training", "planning", "risk"]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file; whatever it does not name keeps its default."""


class ScenarioSetting(_Table, frozen=True, kw_only=True):
    """The world of a cell. Everything drawn in it is drawn by the cell's seed."""

    kind: Literal["numeric", "eua"] = "numeric"
    """`eua`: 4 base stations and 93 users of the EUA data; `numeric`: random places."""
    clients: int = 100
    """Of a numeric scenario, as `edges` is."""
    edges: int = 4
    task: str | None = None
    """Sizes as for this data set; by default the cell's own."""
    data_min: float = 2500
    """As for MNIST's 60,000 images; in proportion where the data set has fewer."""
    kld_max: float = 0.2
    kld_risk: float = 0.3
    data_risk: float = 0.3
    p_min: float = 0.5
    """Online probabilities are uniform in [p_min, p_max)."""
    p_max: float = 1.0
    weights: Literal["delay", "energy", "random", "equal"] = "equal"
    """Of the objective: (1, 0), (0, 1), random with sum 1, or (0.5, 0.5)."""
    local_steps: int = 5
    edge_rounds: int = 3
    batch_fraction: float = 0.1


class ParticipationSetting(_Table, frozen=True, kw_only=True):
    """Who comes, and whether channels and CPUs change from round to round."""

    model: Literal["bernoulli", "markov", "trace"] = "bernoulli"
    mean_session: float = 5.0
    round_seconds: float = 600.0
    """`trace`: how far apart the rounds are in the phones' time."""
    fluctuate: bool = False


class Setting(_Table, frozen=True, kw_only=True):
    """A cell's inputs, all of them: two cells with equal settings are the same cell."""

    measure: Measure
    policy: str
    """A method of `stagewise methods`; for `planning` and `risk` a planner (`paper`, `local-search`, `pool`)."""
    seed: int
    scenario: ScenarioSetting = ScenarioSetting()
    participation: ParticipationSetting = ParticipationSetting()
    rounds: int = 30
    """Rounds decided or trained; training may end before, at its target."""
    dataset: str = "mnist"
    model: str | None = None
    """By default the data set's."""
    image_size: int | None = None
    learning_rate: float | None = None
    target_accuracy: float | None = None
    """Training ends once the model is this good."""
    evaluate_every: int = 1
    replan_every: int | None = None
    """Plan A again after so many rounds, for policies that follow a plan."""
    diversity: float = 0.0
    risk: Literal["markov", "exact", "sampled"] | None = None
    """`planning` and `risk`: how Plan A measures risk; by default exact where it can be."""
    draws: int = 2000
    """`risk`: rounds drawn to count violations in."""


def make_setting(fields: dict[str, Any], source: str) -> Setting:
    """The setting with these fields; whatever is wrong with them is one line."""
    try:
        return msgspec.convert(fields, Setting)
    except msgspec.ValidationError as error:
        raise StagewiseError(one_line(f"{source}: {error}")) from None
