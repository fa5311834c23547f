"""The experiments there are: the files that come with the library, and a user's own."""

from functools import cache
from pathlib import Path

import msgspec

from stagewise.errors import StagewiseError, shown
from stagewise.toml import read_toml
from stagewise_experiments.cells import cells_of, in_regime
from stagewise_experiments.experiment import Experiment
from stagewise_experiments.results import Result
from stagewise_experiments.rules import check_experiment
from stagewise_experiments.setting import convert

SUFFIX = ".toml"
ALL = "all"
_FOLDER = Path(__file__).parent / "definitions"


@cache
def experiments() -> tuple[str, ...]:
    """The ids of the experiments that come with the library, in the order they are shown in."""
    return tuple(experiment.id for experiment in load_all())


def load_all() -> list[Experiment]:
    """The experiments that come with the library, in the order they are shown in."""
    found = map(_load, _FOLDER.glob(f"*{SUFFIX}"))
    return sorted(found, key=lambda experiment: (experiment.order, experiment.id))


def load(name: str) -> Experiment:
    """The experiment with this id, or that a `.toml` file declares."""
    if name.endswith(SUFFIX):
        return _load(Path(name))
    path = _FOLDER / f"{name}{SUFFIX}"
    if not path.is_file() or path.parent != _FOLDER:
        known = ", ".join(sorted(path.stem for path in _FOLDER.glob(f"*{SUFFIX}")))
        raise StagewiseError(
            f"experiment = {shown(name)}: must be {ALL}, a {SUFFIX} file or one of {known}"
        )
    return _load(path)


def by_todays_file(result: Result) -> Result:
    """The result judged and told as the library's file of the experiment has it now.

    Where the library has no file of that id, or one that has not all of its cells any more, it stays as
    it was run.
    """
    if result.experiment.id not in experiments():
        return result
    today = load(result.experiment.id)
    if result.profile not in today.profiles:
        return result
    seeds = max(result.seeds, default=0) + 1
    known = {
        (cell.setting, tuple(cell.point.items()))
        for regime in {cell.setting.scenario.regime for cell in result.cells}
        for cell in cells_of(
            in_regime(today, regime), result.profile, seeds=seeds, missing=result.stand_ins
        )
    }
    same = all((cell.setting, tuple(cell.point.items())) in known for cell in result.cells)
    return msgspec.structs.replace(result, experiment=today) if same else result


def choose(names: list[str]) -> list[Experiment]:
    """The experiments of these names, each once; `all` is every one of the library's."""
    chosen: dict[str, Experiment] = {}
    for name in names:
        for experiment in load_all() if name == ALL else [load(name)]:
            known = chosen.setdefault(experiment.id, experiment)
            if known != experiment:
                raise StagewiseError(
                    f"{name}: id = {shown(experiment.id)}: must not be that of another experiment"
                )
    return list(chosen.values())


def _load(path: Path) -> Experiment:
    experiment = convert(read_toml(path), Experiment, str(path))
    if experiment.id != path.stem or experiment.id == ALL:
        rule = f"must not be {ALL}" if experiment.id == ALL else "must be the name of the file"
        raise StagewiseError(f"{path}: id = {shown(experiment.id)}: {rule}")
    check_experiment(experiment, str(path))
    return experiment
