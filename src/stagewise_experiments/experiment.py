"""An experiment as its file declares it: what is run, what is drawn, what the paper says of it."""

from typing import Any, Literal

import msgspec

from stagewise.errors import StagewiseError
from stagewise_experiments.setting import Measure

Value = str | float | int
Point = dict[str, Value]
"""Where on the axes: axis name to value."""

ProfileName = Literal["quick", "full"]
Better = Literal["lower", "higher", "neither"]
"""Which values are the better ones."""


class _Table(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """A table of the file."""


class Axis(_Table, frozen=True, kw_only=True):
    """One thing that is varied."""

    name: str
    field: str | None = None
    """The field of `Setting` it sets, with dots: `scenario.clients`."""
    fields: dict[str, dict[str, Any]] = {}
    """Where a value stands for several fields: by value, those it sets; others set none."""
    values: list[Value]
    label: str
    """For pictures and tables, with the unit."""

    def __post_init__(self) -> None:
        if (self.field is None) != bool(self.fields):
            raise StagewiseError("must have either field or fields")


class Profile(_Table, frozen=True, kw_only=True):
    """How large the experiment is run."""

    seeds: int
    """Cells are run with the seeds `first_seed`, `first_seed` + 1, ..."""
    first_seed: int = 0
    values: dict[str, list[Value]] = {}
    """Other values of an axis, by its name."""
    setting: dict[str, Any] = {}
    """Fields of `Setting` that replace the experiment's."""
    note: str = ""
    """What a reader must know about this size: stand-ins, few rounds."""
    comparable: bool = True
    """Whether the paper's values, and claims on what the model learned, can be compared with this
    size; where not, `note` is the reason."""


class StandIn(_Table, frozen=True, kw_only=True):
    """What runs, under its own name, where a data set is not found."""

    dataset: str
    setting: dict[str, Any] = {}
    """Fields of `Setting` that replace all others, such as a target that it can reach."""
    only: dict[str, list[Value]] = {}
    """The values of an axis at which it runs, by the axis's name, where these are not all."""
    note: str = ""
    """What a reader must know about it."""


class Panel(_Table, frozen=True, kw_only=True):
    """One plot of the picture."""

    form: Literal["curves", "bars", "sweep", "matrix"]
    """curves: accuracy by round; bars: a bar a policy; sweep: a line a policy along `x`;
    matrix: coloured cells along `x` and `y` for one policy, or along `x` with a row a policy."""
    title: str
    quantity: str
    """A name of `stagewise_experiments.quantities`."""
    x: str | None = None
    y: str | None = None
    policy: str | None = None
    where: Point = {}
    """Only the cells at these values of other axes."""
    label: str = ""
    """Of the value axis, with the unit; by default the quantity's own."""
    log: bool = False
    relative_to: str | None = None
    """Each seed's value over this policy's at the same point, minus nothing: 1 is equal."""


class PaperValue(_Table, frozen=True, kw_only=True):
    """A number that the paper prints."""

    quantity: str
    policy: str
    value: float
    """inf where the paper says that the target was never reached."""
    at: Point = {}
    relative_to: str | None = None
    """The value is this policy's increase over that one's: 0.132 is 13.2% more."""
    minus: str | None = None
    """The value is this policy's minus that one's: -0.0034 is 0.34 points less."""
    growth_from: Point | None = None
    """The value is how many times that at these other values of the axes: 16.3 is 16.3-fold growth."""
    better: Better | None = None
    """By default as the quantity says; `neither`: ours agrees or differs, whichever side it is on."""
    comparable: bool = True
    """Whether ours can be compared with it at all; where not, `why` is the reason."""
    fitted: bool = False
    """Whether the calibrated regime was fitted to it: it is counted apart, since to agree proves
    little."""
    source: str = ""
    why: str = ""
    """Why ours differs, where it does and the reason is known."""

    def __post_init__(self) -> None:
        if not self.comparable and not self.why:
            raise StagewiseError("comparable = false: must have why")
        if sum(x is not None for x in (self.relative_to, self.minus, self.growth_from)) > 1:
            raise StagewiseError("must have only one of relative_to, minus and growth_from")


class Claim(_Table, frozen=True, kw_only=True):
    """Something the paper says in words, or that we set ourselves, which numbers can contradict.

    It must hold at every point of the axes that `at` leaves open, `somewhere`, or of all `together`.
    """

    text: str
    quantity: str
    policy: str
    at: Point = {}
    below: float | None = None
    above: float | None = None
    missed: bool = False
    """The claim is that the target is never reached."""
    at_most: list[str] = []
    """The policy's value is not above that of any of these on the same seed."""
    at_least: list[str] = []
    strict: bool = False
    """Whether to be equal to one of them is not to keep the claim."""
    somewhere: bool = False
    """For each of them at one point or more is enough."""
    together: bool = False
    """In the mean over the points (of the logarithms of ratios) in place of at each."""
    rises_with: str | None = None
    """The value at the axis's last value is above that at its first."""
    falls_with: str | None = None
    same_along: str | None = None
    """The value at the axis's last value is that at its first, within the margin."""
    ends: tuple[Value, Value] | None = None
    """The two values of that axis to compare, where they are not its first and its last."""
    margin: float = 0.0
    """How far the other's value may be missed: in parts of it, or absolute."""
    absolute: bool = False
    """By differences in place of ratios; shares always are."""
    ours: bool = False
    """A target of ours, not a sentence of the paper's."""
    headline: bool = False
    """Of ours: one that the page begins with."""
    source: str = ""
    why: str = ""


class Experiment(_Table, frozen=True, kw_only=True):
    """A figure or a table."""

    id: str
    title: str
    paper: str
    """Which figure or table of the paper's; empty where it is ours."""
    about: str
    measure: Measure
    policies: list[str]
    quantities: list[str]
    """The columns of the table."""
    panels: list[Panel]
    profiles: dict[ProfileName, Profile]
    setting: dict[str, Any] = {}
    """Fields of `Setting` that all cells share."""
    axes: list[Axis] = []
    by_policy: dict[str, dict[str, Any]] = {}
    """Fields that cells of one policy have of their own."""
    stand_ins: dict[str, StandIn] = {}
    """A data set to what runs in its place."""
    paper_values: list[PaperValue] = []
    claims: list[Claim] = []
    group: str = ""
    """Experiments of one group stand together on the page."""
    order: int = 100
    """Where it stands among the others: by this number, then by its id."""
