"""The cells of an experiment: every policy at every point of the axes, with every seed."""

from collections.abc import Container, Iterator
from copy import deepcopy
from itertools import product
from typing import Any

import msgspec

from stagewise.errors import StagewiseError, shown
from stagewise.world.checks import whole
from stagewise_experiments.experiment import Experiment, Point, Profile, ProfileName, StandIn
from stagewise_experiments.setting import Setting, make_setting


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario, policy and seed."""

    setting: Setting
    point: Point
    """Where on the experiment's axes."""

    @property
    def policy(self) -> str:
        return self.setting.policy

    @property
    def seed(self) -> int:
        return self.setting.seed


def profile_of(experiment: Experiment, name: ProfileName) -> Profile:
    """The experiment's size of that name."""
    if name not in experiment.profiles:
        known = ", ".join(experiment.profiles)
        raise StagewiseError(f"profile = {shown(name)}: {experiment.id} has only {known}")
    return experiment.profiles[name]


def cells_of(
    experiment: Experiment,
    profile_name: ProfileName,
    *,
    seeds: int | None = None,
    missing: Container[str] = (),
) -> list[Cell]:
    """All cells: points in the order of the axes, then policies, then seeds.

    `seeds` replaces the profile's number of them. A data set that is `missing` gives way to its
    stand-in, if that is not missing too, in the setting and on the axes, at the values that the
    stand-in keeps.
    """
    profile = profile_of(experiment, profile_name)
    count = profile.seeds if seeds is None else whole("seeds", seeds, 1)
    in_place = {
        real: other
        for real, other in experiment.stand_ins.items()
        if real in missing and other.dataset not in missing
    }
    cells = (
        _cell(experiment, profile, point, policy, profile.first_seed + number, in_place)
        for point in points_of(experiment, profile)
        for policy in experiment.policies
        for number in range(count)
    )
    return [cell for cell in cells if cell is not None]


def in_regime(experiment: Experiment, regime: str) -> Experiment:
    """The experiment with costs of that regime, unless its file names one."""
    setting: dict[str, Any] = {"scenario": {"regime": regime}}
    _merge(setting, experiment.setting)
    return msgspec.structs.replace(experiment, setting=setting)


def points_of(experiment: Experiment, profile: Profile) -> Iterator[Point]:
    """Every point of the axes, the last axis fastest; one empty point where there is none."""
    names = [axis.name for axis in experiment.axes]
    values = [profile.values.get(axis.name, axis.values) for axis in experiment.axes]
    return (dict(zip(names, place, strict=True)) for place in product(*values))


def _cell(
    experiment: Experiment,
    profile: Profile,
    point: Point,
    policy: str,
    seed: int,
    in_place: dict[str, StandIn],
) -> Cell | None:
    """None where a stand-in runs that leaves the point out."""
    fields: dict[str, Any] = {}
    for table in (experiment.setting, profile.setting, experiment.by_policy.get(policy, {})):
        _merge(fields, table)
    for axis in experiment.axes:
        if axis.field is None:
            _merge(fields, axis.fields.get(str(point[axis.name]), {}))
        else:
            _put(fields, axis.field, point[axis.name], experiment.id)
    fields |= {"measure": experiment.measure, "policy": policy, "seed": seed}
    setting = make_setting(fields, experiment.id)
    if setting.dataset in in_place:
        stand_in = in_place[setting.dataset]
        if any(point[axis] not in kept for axis, kept in stand_in.only.items()):
            return None
        _merge(fields, stand_in.setting | {"dataset": stand_in.dataset})
        setting = make_setting(fields, experiment.id)
    of_data = [axis.name for axis in experiment.axes if axis.field == "dataset"]
    return Cell(setting=setting, point=point | dict.fromkeys(of_data, setting.dataset))


def _merge(into: dict[str, Any], table: dict[str, Any]) -> None:
    for name, value in table.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = deepcopy(value)


def _put(fields: dict[str, Any], path: str, value: object, source: str) -> None:
    *tables, last = path.split(".")
    for name in tables:
        fields = fields.setdefault(name, {})
        if not isinstance(fields, dict):
            raise StagewiseError(f"{source}: setting.{name} = {shown(fields)}: must be a table")
    fields[last] = value
