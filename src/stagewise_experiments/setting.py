"""What one cell of an experiment is made of: the fields a file may set, and their rules."""

from typing import Any, Literal, TypeVar

import msgspec

from stagewise.errors import StagewiseError, one_line, shown
from stagewise.world.checks import finite, interval, seed_number, whole

T = TypeVar("T")
Measure = Literal["decisions", "training", "planning", "risk"]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file; whatever it does not name keeps its default."""


class ScenarioSetting(_Table, frozen=True, kw_only=True):
    """The world of a cell. Everything drawn in it is drawn by the cell's seed."""

    kind: Literal["numeric", "eua", "nycmesh"] = "numeric"
    """`eua`: 4 base stations and 93 users of the EUA data; `nycmesh`: the delays between 184
    devices and 6 gateways of a mesh network, without energies; `numeric`: random places."""
    clients: int = 100
    """Of a numeric scenario, as `edges` is."""
    edges: int = 4
    task: str | None = None
    """Sizes as for this data set; by default the cell's own."""
    data_min: float = 2500.0
    """As for MNIST's 60,000 images; in proportion where the data set has fewer."""
    kld_max: float = 0.2
    kld_risk: float = 0.3
    data_risk: float = 0.3
    p_min: float = 0.5
    """Online probabilities are uniform in [p_min, p_max)."""
    p_max: float = 1.0
    regime: Literal["calibrated", "literal"] = "calibrated"
    """What the paper does not say, of costs and of training: as fitted to its Tables III and IV and to
    one curve, or as its text reads (docs/calibration.md)."""
    weights: Literal["delay", "energy", "random", "equal"] = "equal"
    """Of the objective: (1, 0), (0, 1), random with sum 1, or (0.5, 0.5)."""
    local_steps: int = 5
    edge_rounds: int = 3
    batch_fraction: float | None = None
    """By default the regime's."""

    def __post_init__(self) -> None:
        whole("clients", self.clients, 1)
        whole("edges", self.edges, 1)
        finite("data_min", self.data_min, 0)
        finite("kld_max", self.kld_max, 0)
        finite("kld_risk", self.kld_risk, 0, 1)
        finite("data_risk", self.data_risk, 0, 1)
        interval("[p_min, p_max]", (self.p_min, self.p_max), 0, 1, open_below=True)
        whole("local_steps", self.local_steps, 1)
        whole("edge_rounds", self.edge_rounds, 1)
        if self.batch_fraction is not None:
            finite("batch_fraction", self.batch_fraction, 0, 1, open_below=True)


class ParticipationSetting(_Table, frozen=True, kw_only=True):
    """Who comes, and whether channels and CPUs change from round to round."""

    model: Literal["bernoulli", "markov", "trace"] = "bernoulli"
    mean_session: float = 5.0
    round_seconds: float = 600.0
    """`trace`: how far apart the rounds are in the phones' time."""
    fluctuate: bool = False

    def __post_init__(self) -> None:
        finite("mean_session", self.mean_session, 1)
        finite("round_seconds", self.round_seconds, 0, open_below=True)


class Setting(_Table, frozen=True, kw_only=True):
    """A cell's inputs, all of them: two cells with equal settings are the same cell."""

    measure: Measure
    policy: str
    """A method of `stagewise methods`; for `planning` and `risk` a planner: `paper`, `local-search`
    or `pool`."""
    seed: int
    training_seed: int | None = None
    """Of the data's distribution over clients, the first model and the batches; by default `seed`. Cells
    that differ in it alone share scenario, rounds, plans and decisions."""
    scenario: ScenarioSetting = ScenarioSetting()
    participation: ParticipationSetting = ParticipationSetting()
    rounds: int = 30
    """Rounds decided or trained; training may end before, at its target."""
    dataset: str = "mnist"
    model: str | None = None
    """By default the data set's."""
    image_size: int | None = None
    learning_rate: float | None = None
    """By default the regime's for the data set, or else the library's."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the products of matrices in training."""
    target_accuracy: float | None = None
    """What `cost_to_target` and its like count up to."""
    stop_at_target: bool = True
    """Whether training ends once the model is that good, or goes through all rounds."""
    evaluate_every: int = 1
    test_samples: int | None = None
    """The accuracy is that on so many test images, as many of each class as can be, the same for
    every seed; by default on all."""
    replan_every: int | None = None
    """Plan A again after so many rounds, for policies that follow a plan."""
    diversity: float = 0.0
    risk: Literal["markov", "exact", "sampled"] | None = None
    """`planning` and `risk`: how Plan A measures risk; by default exact where it can be."""
    draws: int = 2000
    """`risk`: rounds drawn to count violations in."""

    def __post_init__(self) -> None:
        seed_number(self.seed)
        if self.training_seed is not None:
            seed_number(self.training_seed)
        whole("rounds", self.rounds, 1)
        whole("evaluate_every", self.evaluate_every, 1)
        whole("draws", self.draws, 1)
        finite("diversity", self.diversity, 0)
        for name in ("image_size", "test_samples", "replan_every"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)
        if self.learning_rate is not None:
            finite("learning_rate", self.learning_rate, 0, open_below=True)
        if self.target_accuracy is not None:
            finite("target_accuracy", self.target_accuracy, 0, 1, open_below=True)


def make_setting(fields: dict[str, Any], source: str) -> Setting:
    """The setting with these fields; whatever is wrong with them is one line."""
    return convert(fields, Setting, source)


def convert(fields: dict[str, Any], kind: type[T], source: str) -> T:
    """`fields` as a `kind`; the error names `source`, the field, its value and the rule."""
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$")
    path = place.removesuffix("`").lstrip(".")
    value: Any = fields
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, dict) else None
    front = f"{path}: " if path else ""
    if path and not isinstance(value, dict | list | None):
        front = f"{path} = {shown(value)}: "
    raise StagewiseError(one_line(f"{source}: {front}{rule[:1].lower()}{rule[1:]}"))
