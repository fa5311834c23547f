"""What `deploy up` is told, and the run that follows from it."""

from pathlib import Path
from typing import Any

import msgspec

from stagewise.datasets import load_dataset
from stagewise.deploy.local_scenario import local_scenario
from stagewise.deploy.records import Deployment, DesignName
from stagewise.deploy.remaining import deploy_remedy
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError, shown
from stagewise.plan_b.remedies import Remedy
from stagewise.policy import policy_factory
from stagewise.simulator.config import Participation, Replanning, RunConfig, make_config
from stagewise.simulator.decider import policy_name
from stagewise.simulator.start import default_learning_rate, default_model
from stagewise.world.checks import finite, whole
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import load_scenario


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What `deploy up` was told; None where it was not."""

    site: str | None = None
    """The cloud's folder of a deployment on several machines; None: everything on this one."""
    local: bool | None = None
    """Processes on this machine are wanted: a new run must say so, or name a site."""
    design: DesignName | None = None
    clients: int | None = None
    edges: int | None = None
    scenario: str | None = None
    dataset: str | None = None
    data_dir: str | None = None
    model: str | None = None
    learning_rate: float | None = None
    policy: str | None = None
    rounds: int | None = None
    seed: int | None = None
    remedy: Remedy | None = None
    replan_every: int | None = None
    deadline_factor: float | None = None
    measured_costs: bool | None = None
    polls: int | None = None


DEFAULTS: dict[str, Any] = {
    "design": "H",
    "clients": 8,
    "edges": 2,
    "dataset": "mnist5k",
    "policy": "pool",
    "rounds": 10,
    "seed": 0,
    "remedy": "lend",
    "deadline_factor": 2.0,
    "measured_costs": False,
    "polls": 2,
}


def make_wanted(**options: Any) -> Wanted:
    """What is wanted, by options whose types are checked as those of a file are."""
    try:
        return msgspec.convert(options, Wanted)
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$.")
        name = place.removesuffix("`")
        raise StagewiseError(f"{name} = {shown(options.get(name))}: {rule}") from None


Resolved = tuple[RunConfig, Scenario, Deployment]


def resolve(wanted: Wanted) -> Resolved:
    """The run that is wanted, complete; the scenario's probabilities are those before any poll."""
    return _of_options(wanted) if wanted.site is None else _of_site(wanted, wanted.site)


def check_repeats(path: Path, wanted: Wanted, begun: Resolved) -> None:
    """Refuse to go on with a run in another way than it was begun."""
    config, world, deployment = begun
    known = {
        "site": deployment.site,
        "local": deployment.site is None,
        "design": deployment.design,
        "clients": len(world.clients),
        "edges": len(world.edges),
        "dataset": config.dataset,
        "data_dir": config.data_dir,
        "model": config.model,
        "learning_rate": config.learning_rate,
        "policy": config.policy,
        "rounds": config.rounds,
        "seed": config.seed,
        "remedy": config.remedy,
        "replan_every": config.replanning.every,
        "deadline_factor": deployment.deadline_factor,
        "measured_costs": deployment.measured_costs,
        "polls": deployment.polls,
    }
    for name, value in known.items():
        asked = getattr(wanted, name)
        if asked is not None and name == "policy":
            asked = policy_name(asked)
        if asked is not None and name in ("site", "data_dir"):
            asked = _resolved(asked)
        if asked is not None and asked != value:
            raise StagewiseError(
                f"{name} = {shown(asked)}: must be {shown(value)}, as the run in {path} was begun"
            )
    if wanted.scenario is not None and not _same_system(load_scenario(wanted.scenario), world):
        raise StagewiseError(
            f"scenario = {shown(wanted.scenario)}: must be the one the run in {path} was begun with"
        )


def _of_options(wanted: Wanted) -> Resolved:
    """A run on this machine."""
    from stagewise.models import parameter_count

    design = _or_default(wanted, "design")
    if design != "in-process" and not wanted.local:
        raise StagewiseError(
            "local: must be given for processes on this machine, or a site for those on others"
        )
    data = load_dataset(_or_default(wanted, "dataset"), wanted.data_dir)
    model = wanted.model or default_model(data.name)
    seed = _or_default(wanted, "seed")
    if wanted.scenario is None:
        world = local_scenario(
            whole("clients", _or_default(wanted, "clients"), 1),
            whole("edges", _or_default(wanted, "edges"), 1),
            data.name,
            len(data.train_labels),
            data.classes,
            data.image_shape,
            parameter_count(model, data.classes, data.image_shape),
            seed,
        )
    else:
        world = load_scenario(wanted.scenario)
        _check_counts(wanted.scenario, wanted, world)
    rate = default_learning_rate(model) if wanted.learning_rate is None else wanted.learning_rate
    task = TaskFile(
        dataset=data.name,
        data_dir=None if wanted.data_dir is None else _resolved(wanted.data_dir),
        model=model,
        learning_rate=rate,
        seed=seed,
    )
    config = _config(wanted, task, world, data.fingerprint, wanted.scenario or "default")
    return config, world, _deployment(wanted, design)


def _of_site(wanted: Wanted, folder: str) -> Resolved:
    """A run on the machines of a site, whose folder says what is trained and how."""
    from stagewise.deploy.remote import read_cloud_folder

    site, world, task = read_cloud_folder(Path(folder))
    said = {
        "design": site.design,
        "policy": site.policy,
        "rounds": site.rounds,
        "seed": task.seed,
        "dataset": task.dataset,
        "model": task.model,
        "learning_rate": task.learning_rate,
    }
    if wanted.scenario is not None:
        raise StagewiseError(f"scenario = {shown(wanted.scenario)}: must not be given with a site")
    for name, value in said.items():
        asked = getattr(wanted, name)
        if asked is not None and asked != value:
            raise StagewiseError(
                f"{name} = {shown(asked)}: must be {shown(value)}, as {folder} says"
            )
    _check_counts(folder, wanted, world)
    wanted = msgspec.structs.replace(wanted, policy=site.policy, rounds=site.rounds)
    if wanted.data_dir is not None:
        task = msgspec.structs.replace(task, data_dir=_resolved(wanted.data_dir))
    data = load_dataset(task.dataset, task.data_dir, image_size=task.image_size)
    config = _config(wanted, task, world, data.fingerprint, folder)
    return config, world, _deployment(wanted, site.design)


def _config(
    wanted: Wanted, task: TaskFile, world: Scenario, fingerprint: str, source: str
) -> RunConfig:
    policy = policy_name(_or_default(wanted, "policy"))
    policy_factory(policy)  # a name that is not known is better told before anything is started
    trained = {name: getattr(task, name) for name in task.__struct_fields__ if name != "format"}
    return make_config(
        **trained,
        dataset_fingerprint=fingerprint,
        scenario=source,
        scenario_sha256=world.sha256,
        policy=policy,
        rounds=_or_default(wanted, "rounds"),
        remedy=deploy_remedy(_or_default(wanted, "remedy")),
        participation=Participation(model="own"),
        replanning=Replanning(every=wanted.replan_every),
    )


def _deployment(wanted: Wanted, design: DesignName) -> Deployment:
    return Deployment(
        design=design,
        site=None if wanted.site is None else _resolved(wanted.site),
        deadline_factor=finite("deadline_factor", _or_default(wanted, "deadline_factor"), 1),
        measured_costs=_or_default(wanted, "measured_costs"),
        polls=whole("polls", _or_default(wanted, "polls"), 0),
    )


def _same_system(asked: Scenario, begun: Scenario) -> bool:
    """Whether two scenarios differ in nothing but who is likely online, which polls have changed."""
    likely = begun.clients.online_probability
    if len(asked.clients) != len(begun.clients):
        return False
    same = asked.with_online_probability(likely), begun.with_online_probability(likely)
    return same[0].sha256 == same[1].sha256


def _check_counts(source: str, wanted: Wanted, world: Scenario) -> None:
    for name, count in (("clients", len(world.clients)), ("edges", len(world.edges))):
        asked = getattr(wanted, name)
        if asked is not None and asked != count:
            raise StagewiseError(f"{name} = {asked}: must be {count}, as in {source}")


def _resolved(path: str) -> str:
    return str(Path(path).resolve())


def _or_default(wanted: Wanted, name: str) -> Any:
    value = getattr(wanted, name)
    return DEFAULTS[name] if value is None else value
