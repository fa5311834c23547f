"""The experiments there are: the files that come with the library, and a user's own."""

from importlib.resources import files
from pathlib import Path

import msgspec

from stagewise.errors import StagewiseError, shown
from stagewise.experiments.experiment import Experiment
from stagewise.experiments.rules import check_experiment
from stagewise.experiments.setting import explained
from stagewise.toml import read_toml

PACKAGE = "stagewise_experiments"
SUFFIX = ".toml"
ALL = "all"


def experiments() -> list[str]:
    """The ids of the experiments that come with the library, in the order they are shown in."""
    return [experiment.id for experiment in load_all()]


def load_all() -> list[Experiment]:
    """The experiments that come with the library, in the order they are shown in."""
    found = (_load(path) for path in _folder().iterdir() if path.suffix == SUFFIX)
    return sorted(found, key=lambda experiment: (experiment.order, experiment.id))


def load(name: str) -> Experiment:
    """The experiment with this id, or that a `.toml` file declares."""
    if name.endswith(SUFFIX):
        return _load(Path(name))
    path = _folder() / f"{name}{SUFFIX}"
    if not path.is_file() or path.parent != _folder():
        known = ", ".join(sorted(p.stem for p in _folder().iterdir() if p.suffix == SUFFIX))
        raise StagewiseError(
            f"experiment = {shown(name)}: must be {ALL}, a {SUFFIX} file or one of {known}"
        )
    return _load(path)


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


def _folder() -> Path:
    return Path(str(files(PACKAGE)))


def _load(path: Path) -> Experiment:
    fields = read_toml(path)
    try:
        experiment = msgspec.convert(fields, Experiment)
    except msgspec.ValidationError as error:
        raise StagewiseError(f"{path}: {explained(str(error), fields)}") from None
    if experiment.id != path.stem or experiment.id == ALL:
        rule = f"must not be {ALL}" if experiment.id == ALL else "must be the name of the file"
        raise StagewiseError(f"{path}: id = {shown(experiment.id)}: {rule}")
    check_experiment(experiment, str(path))
    return experiment
