"""The options of `deploy up`, and the run that follows from it."""

from pathlib import Path
from typing import Any

import msgspec

from stagewise.datasets import load_dataset
from stagewise.deploy.records import Deployment, DesignName
from stagewise.deploy.site_scenario import local_scenario, read_cloud_folder, task_on
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError, shown
from stagewise.files import convert
from stagewise.policies.registry import policy_factory, policy_name
from stagewise.policies.remedied import Remedy
from stagewise.robust.rules import Aggregator
from stagewise.runs.config import Participation, Replanning, RunConfig, make_config
from stagewise.world.checks import finite, whole
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import client_records, load_scenario, with_clients


class DeployOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `deploy up`; None where one was not given."""

    site: str | None = None
    """The cloud's folder of a deployment on several machines; None: everything on this one."""
    local: bool | None = None
    """Whether processes are to run on this machine: a new run must say so, or name a site."""
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
    aggregator: Aggregator | None = None
    quarantine_rounds: int | None = None
    keep_checkpoints: int | None = None
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
    "aggregator": "mean",
    "quarantine_rounds": 10,
    "keep_checkpoints": 3,
    "deadline_factor": 2.0,
    "measured_costs": False,
    "polls": 2,
}


def make_options(**fields: Any) -> DeployOptions:
    """The options, with their types checked as those of a file are."""
    try:
        return convert(fields, DeployOptions)
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$.")
        name = place.removesuffix("`")
        raise StagewiseError(f"{name} = {shown(fields.get(name))}: {rule}") from None


Resolved = tuple[RunConfig, Scenario, Deployment]


def resolve(options: DeployOptions) -> Resolved:
    """The run that follows from the options; its scenario is as it was before any roll call."""
    return _of_options(options) if options.site is None else _of_site(options, options.site)


def check_repeats(path: Path, options: DeployOptions, begun: Resolved) -> None:
    """Refuse to go on with a run in another way than it was begun."""
    config, world, deployment = begun
    known = {
        **msgspec.structs.asdict(config),
        **msgspec.structs.asdict(deployment),
        **_counts(world),
        "clients": deployment.clients or len(world.clients),
        "local": deployment.site is None,
        "replan_every": config.replanning.every,
    }
    del known["scenario"]  # where it came from; it is compared itself
    _check_same(options, known, f"as the run in {path} was begun")
    if options.scenario is None:
        return
    asked = load_scenario(options.scenario)
    began_with = known["clients"]
    joined = client_records(world)[began_with:] if len(asked.clients) == began_with else []
    if not same_system(with_clients(asked, joined) if joined else asked, world):
        raise StagewiseError(
            f"scenario = {shown(options.scenario)}: must be the one the run in {path} was begun with"
        )


def _of_options(options: DeployOptions) -> Resolved:
    """A run on this machine."""
    design = _or_default(options, "design")
    if design != "in-process" and not options.local:
        raise StagewiseError(
            "local: must be given for processes on this machine, or a site for those on others"
        )
    data = load_dataset(_or_default(options, "dataset"), options.data_dir)
    data_dir = None if options.data_dir is None else _resolved(options.data_dir)
    seed = _or_default(options, "seed")
    task = task_on(data, options.model, options.learning_rate, seed, data_dir)
    if options.scenario is None:
        clients = whole("clients", _or_default(options, "clients"), 1)
        edges = whole("edges", _or_default(options, "edges"), 1)
        world = local_scenario(clients, edges, data, task.model, seed)
    else:
        world = load_scenario(options.scenario)
        _check_same(options, _counts(world), f"as in {options.scenario}")
    source = options.scenario or "default"
    return _run(options, design, task, data.fingerprint, world, source)


def _of_site(options: DeployOptions, folder: str) -> Resolved:
    """A run on the machines of a site, whose folder says what is trained and how."""
    site, world, task = read_cloud_folder(Path(folder))
    fixed = {name: getattr(task, name) for name in ("seed", "dataset", "model", "learning_rate")}
    fixed |= {"design": site.design, "policy": policy_name(site.policy), "rounds": site.rounds}
    if options.scenario is not None:
        raise StagewiseError(f"scenario = {shown(options.scenario)}: must not be given with a site")
    _check_same(options, fixed, f"as {folder} says")
    _check_same(options, _counts(world), f"as in {folder}")
    options = msgspec.structs.replace(options, policy=site.policy, rounds=site.rounds)
    if options.data_dir is not None:
        task = msgspec.structs.replace(task, data_dir=_resolved(options.data_dir))
    data = load_dataset(task.dataset, task.data_dir, image_size=task.image_size)
    return _run(options, site.design, task, data.fingerprint, world, folder)


def _run(
    options: DeployOptions,
    design: DesignName,
    task: TaskFile,
    fingerprint: str,
    world: Scenario,
    source: str,
) -> Resolved:
    """The run of a task on data of this fingerprint; `source` is where the scenario came from."""
    policy = policy_name(_or_default(options, "policy"))
    policy_factory(policy)  # an unknown name is refused before anything is started
    trained = msgspec.structs.asdict(task)
    del trained["format"]
    config = make_config(
        **trained,
        dataset_fingerprint=fingerprint,
        scenario=source,
        scenario_sha256=world.sha256,
        policy=policy,
        rounds=_or_default(options, "rounds"),
        remedy=_or_default(options, "remedy"),
        aggregator=_or_default(options, "aggregator"),
        quarantine_rounds=_or_default(options, "quarantine_rounds"),
        keep_checkpoints=_or_default(options, "keep_checkpoints"),
        participation=Participation(model="own"),
        replanning=Replanning(every=options.replan_every),
    )
    deployment = Deployment(
        design=design,
        site=None if options.site is None else _resolved(options.site),
        deadline_factor=finite("deadline_factor", _or_default(options, "deadline_factor"), 1),
        measured_costs=_or_default(options, "measured_costs"),
        polls=whole("polls", _or_default(options, "polls"), 0),
        clients=len(world.clients),
    )
    return config, world, deployment


def same_system(asked: Scenario, begun: Scenario) -> bool:
    """Whether two scenarios differ only in who is likely online, which roll calls change."""
    likely = begun.clients.online_probability
    if len(asked.clients) != len(begun.clients):
        return False
    same = asked.as_of(online_probability=likely), begun.as_of(online_probability=likely)
    return same[0].sha256 == same[1].sha256


def _check_same(options: DeployOptions, known: dict[str, Any], source: str) -> None:
    """Refuse options that contradict what is known, if they were given."""
    as_known = {"site": _resolved, "data_dir": _resolved, "policy": policy_name}
    for name, asked in msgspec.structs.asdict(options).items():
        if asked is not None and name in known:
            asked = as_known[name](asked) if name in as_known else asked
            if asked != known[name]:
                rule = f"must be {shown(known[name])}, {source}"
                raise StagewiseError(f"{name} = {shown(asked)}: {rule}")


def _counts(world: Scenario) -> dict[str, int]:
    return {"clients": len(world.clients), "edges": len(world.edges)}


def _resolved(path: str) -> str:
    return str(Path(path).resolve())


def _or_default(options: DeployOptions, name: str) -> Any:
    value = getattr(options, name)
    return DEFAULTS[name] if value is None else value
