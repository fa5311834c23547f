"""What must hold between the parts of an experiment's file, beyond the types of its fields."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from stagewise.datasets.catalogue import SOURCES
from stagewise.errors import StagewiseError, shown
from stagewise.plan_a.planners import PLANNERS
from stagewise.policies.registry import policy_factory, policy_names
from stagewise.search.association import reading_of
from stagewise.selection.catalogue import LABEL_WEIGHTS, parts_of
from stagewise_experiments.cells import cells_of
from stagewise_experiments.code_version import policy_version
from stagewise_experiments.experiment import (
    Axis,
    Claim,
    Experiment,
    Panel,
    PaperValue,
    Point,
    ProfileName,
    StandIn,
    Value,
)
from stagewise_experiments.quantities import QUANTITIES
from stagewise_experiments.setting import Setting

OF_THE_CELL = ("measure", "policy", "seed")
"""Fields of `Setting` that no table sets: they follow from the experiment."""


def check_experiment(experiment: Experiment, source: str) -> None:
    """An error that names `source`, the field, its value and the rule, where one is broken."""
    _Check(experiment, source).run()


def setting_fields(kind: type[msgspec.Struct] = Setting, front: str = "") -> Iterator[str]:
    """The fields an axis may set, with dots."""
    for field in msgspec.structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from setting_fields(field.type, f"{front}{field.name}.")
        elif front or field.name not in OF_THE_CELL:
            yield f"{front}{field.name}"


@dataclass(frozen=True)
class _Check:
    experiment: Experiment
    source: str

    def run(self) -> None:
        experiment = self.experiment
        planned = experiment.measure in ("planning", "risk")
        methods = list(PLANNERS) if planned else policy_names()
        self.different("policies", experiment.policies)
        for name in experiment.policies:
            self.method(name, methods, planned)
        self.different("quantities", experiment.quantities)
        for name in experiment.quantities:
            self.quantity("quantities", name)
        for number, axis in enumerate(experiment.axes):
            self.axis(f"axes[{number}]", axis, experiment.axes[:number])
        if not experiment.panels:
            self.refuse("panels", [], "there must be at least one")
        for number, panel in enumerate(experiment.panels):
            self.panel(f"panels[{number}]", panel)
        for number, printed in enumerate(experiment.paper_values):
            where = f"paper_values[{number}]"
            self.quantity(f"{where}.quantity", printed.quantity)
            self.of_policy(f"{where}.policy", printed.policy)
            self.of_policy(f"{where}.relative_to", printed.relative_to)
            self.of_policy(f"{where}.minus", printed.minus)
            self.place(f"{where}.at", printed.at)
            self.place(f"{where}.growth_from", printed.growth_from or {})
        for number, claim in enumerate(experiment.claims):
            self.claim(f"claims[{number}]", claim)
        for real, stand_in in experiment.stand_ins.items():
            self.one("stand_ins", real, SOURCES)
            self.stand_in(f"stand_ins.{real}", real, stand_in)
        self.tables()

    def method(self, name: str, methods: list[str], planned: bool) -> None:
        """A policy or a planner, and how it is read where that stands behind a colon."""
        if not planned:
            name = name.removesuffix(LABEL_WEIGHTS)
        base, colon, reading = name.partition(":")
        if not planned and parts_of(name) is not None:
            try:
                policy_factory(name)
            except StagewiseError as error:
                self.refuse("policies", name, str(error))
            return
        self.one("policies", base, methods)
        if not colon:
            return
        if planned and base != "paper":
            self.refuse("policies", name, f"{base} has no readings")
        try:
            if not planned:
                policy_factory(name)
            if policy_version(base) is None:  # other packages have readings of their own
                reading_of(reading)
        except StagewiseError as error:
            self.refuse("policies", name, str(error))

    def axis(self, where: str, axis: Axis, before: list[Axis]) -> None:
        if not axis.name or axis.name in {other.name for other in before}:
            self.refuse(f"{where}.name", axis.name, "must be a name that no other axis has")
        if axis.field is not None:
            self.one(f"{where}.field", axis.field, list(setting_fields()))
            if any(axis.field in _fields_of(other) for other in before):
                self.refuse(f"{where}.field", axis.field, "must not be set by two axes")
        for value, table in axis.fields.items():
            self.one(f"{where}.fields", value, list(map(str, self.values_of(axis.name))))
            self.own_fields(f"{where}.fields.{value}", table)
            for field in _flat(table):
                if any(field in _fields_of(other) for other in before):
                    self.refuse(f"{where}.fields", field, "must not be set by two axes")
        self.different(f"{where}.values", axis.values)

    def panel(self, where: str, panel: Panel) -> None:
        self.quantity(f"{where}.quantity", panel.quantity)
        self.of_axis(f"{where}.x", panel.x)
        self.of_axis(f"{where}.y", panel.y)
        self.of_policy(f"{where}.policy", panel.policy)
        self.of_policy(f"{where}.relative_to", panel.relative_to)
        self.place(f"{where}.where", panel.where)
        needs = {"sweep": ["x"], "matrix": ["x"]}.get(panel.form, [])
        if panel.form == "matrix" and (panel.y or panel.policy):
            needs += ["y", "policy"]
        for name in needs:
            if getattr(panel, name) is None:
                self.refuse(f"{where}.form", panel.form, f"must have {name}")

    def stand_in(self, where: str, real: str, stand_in: StandIn) -> None:
        self.one(f"{where}.dataset", stand_in.dataset, [name for name in SOURCES if name != real])
        self.own_fields(f"{where}.setting", stand_in.setting)
        axes = self.experiment.axes
        for field in _flat(stand_in.setting):
            if field == "dataset" or any(field in _fields_of(axis) for axis in axes):
                rule = "must not be given here, or set by an axis"
                self.refuse(f"{where}.setting", field, rule)
        for name, kept in stand_in.only.items():
            self.of_axis(f"{where}.only", name)
            self.different(f"{where}.only.{name}", kept)
            for value in kept:
                self.one(f"{where}.only.{name}", value, self.values_of(name))

    def claim(self, where: str, claim: Claim) -> None:
        self.quantity(f"{where}.quantity", claim.quantity)
        self.of_policy(f"{where}.policy", claim.policy)
        for name in claim.at_most:
            self.of_policy(f"{where}.at_most", name)
        for name in claim.at_least:
            self.of_policy(f"{where}.at_least", name)
        self.growing(f"{where}.rises_with", claim.rises_with, claim)
        self.growing(f"{where}.falls_with", claim.falls_with, claim)
        self.growing(f"{where}.same_along", claim.same_along, claim)
        if claim.same_along and not 0 < claim.margin < 1:
            self.refuse(
                f"{where}.margin", claim.margin, "must be above 0 and below 1 for same_along"
            )
        along = (claim.rises_with, claim.falls_with, claim.same_along)
        if claim.ends is not None:
            axis = next(filter(None, along), None)
            if axis is None:
                rule = "must have rises_with, falls_with or same_along"
                self.refuse(f"{where}.ends", claim.ends, rule)
            for value in claim.ends:
                self.one(f"{where}.ends", value, self.values_of(axis))
        if claim.headline and not claim.ours:
            self.refuse(f"{where}.headline", claim.headline, "must have ours")
        self.place(f"{where}.at", claim.at)
        if claim.missed and QUANTITIES[claim.quantity].rounds is None:
            self.refuse(f"{where}.missed", claim.missed, "must be of a quantity to a target")
        for name in ("somewhere", "together"):
            if getattr(claim, name) and not (claim.at_most or claim.at_least):
                self.refuse(f"{where}.{name}", True, "must have at_most or at_least")
        given = claim.missed or claim.at_most or claim.at_least
        if all(limit is None for limit in (claim.below, claim.above, *along)) and not given:
            ways = "below, above, missed, at_most, at_least, rises_with, falls_with or same_along"
            self.refuse(f"{where}.text", claim.text, f"must have {ways}")

    def tables(self) -> None:
        """Everything that goes into settings, profile by profile."""
        experiment = self.experiment
        if not experiment.profiles:
            self.refuse("profiles", {}, "there must be quick, full or both")
        self.own_fields("setting", experiment.setting)
        for policy, table in experiment.by_policy.items():
            self.one("by_policy", policy, experiment.policies)
            self.own_fields(f"by_policy.{policy}", table)
        for name, profile in experiment.profiles.items():
            where = f"profiles.{name}"
            if profile.seeds < 1:
                self.refuse(f"{where}.seeds", profile.seeds, "must be at least 1")
            if profile.first_seed < 0:
                self.refuse(f"{where}.first_seed", profile.first_seed, "must be at least 0")
            self.own_fields(f"{where}.setting", profile.setting)
            for axis, values in profile.values.items():
                self.one(f"{where}.values", axis, [axis.name for axis in experiment.axes])
                self.different(f"{where}.values.{axis}", values)
            self.cells(name, where, f"{where}.values", profile.values)
            for real, stand_in in experiment.stand_ins.items():
                instead = f"stand_ins.{real}"
                self.cells(name, f"{where}, {instead}", f"{instead}.only", stand_in.only, [real])

    def cells(
        self,
        profile: ProfileName,
        where: str,
        left_by: str,
        values: dict[str, list[Value]],
        missing: Collection[str] = (),
    ) -> None:
        """Those of a profile, of which `values`, which stand at `left_by`, leave some."""
        try:
            cells = cells_of(self.experiment, profile, seeds=1, missing=missing)
        except StagewiseError as error:
            rest = str(error).removeprefix(f"{self.experiment.id}: ")
            raise StagewiseError(f"{self.source}: {where}: {rest}") from None
        panels = self.experiment.panels
        if not any(p.where.items() <= cell.point.items() for p in panels for cell in cells):
            self.refuse(left_by, values, "must keep a point of some panel")
        hard = [name for name in self.used() if name.endswith("_to_hard_target")]
        if hard and any(cell.setting.stop_at_target for cell in cells):
            self.refuse(f"{where}: quantity", hard[0], "needs stop_at_target = false")
        for cell in cells:
            self.one(f"{where}: dataset", cell.setting.dataset, SOURCES)
            if cell.setting.scenario.task is not None:
                self.one(f"{where}: scenario.task", cell.setting.scenario.task, SOURCES)

    def used(self) -> list[str]:
        """Every quantity that is shown or compared."""
        of = self.experiment
        parts: list[Panel | Claim | PaperValue] = [*of.panels, *of.claims, *of.paper_values]
        return [*of.quantities, *(part.quantity for part in parts)]

    def own_fields(self, where: str, table: dict[str, Any]) -> None:
        for name in OF_THE_CELL:
            if name in table:
                self.refuse(f"{where}.{name}", table[name], "must not be given here")

    def place(self, where: str, point: Point) -> None:
        for name, value in point.items():
            self.of_axis(where, name)
            self.one(f"{where}.{name}", value, self.values_of(name))

    def values_of(self, name: str) -> list[Value]:
        """Every value that an axis has in any profile."""
        values = [v for axis in self.experiment.axes if axis.name == name for v in axis.values]
        for profile in self.experiment.profiles.values():
            values += profile.values.get(name, [])
        return values

    def of_axis(self, where: str, name: str | None) -> None:
        if name is not None:
            self.one(where, name, [axis.name for axis in self.experiment.axes])

    def growing(self, where: str, name: str | None, claim: Claim) -> None:
        """An axis along which a claim goes, from its first value to its last unless it has ends."""
        self.of_axis(where, name)
        for axis in self.experiment.axes:
            numbers = [value for value in axis.values if isinstance(value, int | float)]
            if axis.name == name and claim.ends is None and numbers != sorted(numbers):
                self.refuse(where, name, "its values must rise, or the claim must have ends")

    def of_policy(self, where: str, name: str | None) -> None:
        if name is not None:
            self.one(where, name, self.experiment.policies)

    def quantity(self, where: str, name: str) -> None:
        self.one(where, name, QUANTITIES)
        beside = QUANTITIES[name].beside
        if beside and beside not in self.experiment.policies:
            self.refuse(where, name, f"needs the policy {beside}")

    def different(self, where: str, values: list[Any]) -> None:
        if not values:
            self.refuse(where, [], "there must be at least one")
        for number, value in enumerate(values):
            if value in values[:number]:
                self.refuse(where, value, "must not be given twice")

    def one(self, where: str, value: Value, known: Collection[Any]) -> None:
        if value not in known:
            choice = ", ".join(str(name) for name in known)
            self.refuse(where, value, f"must be one of {choice}" if choice else "there is none")

    def refuse(self, where: str, value: object, rule: str) -> NoReturn:
        raise StagewiseError(f"{self.source}: {where} = {shown(value)}: {rule}")


def _fields_of(axis: Axis) -> set[str]:
    """The fields that an axis sets, with dots."""
    tables = {field for table in axis.fields.values() for field in _flat(table)}
    return tables if axis.field is None else {axis.field}


def _flat(table: dict[str, Any], front: str = "") -> Iterator[str]:
    """The names of a table's fields, with dots."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{front}{name}.")
        else:
            yield f"{front}{name}"
