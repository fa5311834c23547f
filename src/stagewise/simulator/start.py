"""Start a run, or go on with one that was interrupted."""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stagewise.datasets import Dataset, load_dataset
from stagewise.errors import StagewiseError, shown
from stagewise.plan_b.remedies import Remedy
from stagewise.policy import Policy, PolicyFactory
from stagewise.simulator.config import Participation, Replanning, RunConfig, make_config
from stagewise.simulator.decider import make_policy, policy_name, with_diversity
from stagewise.simulator.default_scenario import default_scenario
from stagewise.simulator.directory import CONFIG, ONLINE, SCENARIO, RunDirectory, check_unused
from stagewise.simulator.loggers import check_loggers
from stagewise.simulator.participation import draw_rounds
from stagewise.simulator.policy_again import plan_b, policy_again
from stagewise.simulator.progress import announce
from stagewise.simulator.run import Run, load_run
from stagewise.simulator.session import Session, check_policy
from stagewise.simulator.task import training_task
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import load_scenario

if TYPE_CHECKING:
    from stagewise.simulator.task import ModelBuilder
    from stagewise.training import TrainingTeam

DEFAULT_MODELS = {
    "digits": "mlp",
    "mnist5k": "mnist-cnn",
    "mnist": "mnist-cnn",
    "fashion-mnist": "lenet5",
    "cifar10": "cifar-cnn",
    "cifar100": "resnet18",
    "tiny-imagenet": "resnet34",
}
_OTHER_MODEL = "vgg-light"
_LEARNING_RATES = {"mlp": 0.1, "mnist-cnn": 0.1, "lenet5": 0.1}
_OTHER_LEARNING_RATE = 0.05


def simulate(
    scenario: Scenario | str | Path | None = None,
    dataset: str | Dataset = "mnist5k",
    policy: str | Policy | PolicyFactory = "pool",
    rounds: int = 30,
    seed: int = 0,
    out: str | Path | None = None,
    *,
    data_dir: str | Path | None = None,
    image_size: int | None = None,
    model: "str | ModelBuilder | None" = None,
    learning_rate: float | None = None,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    dtype: str = "float32",
    device: str = "cpu",
    participation: Participation | Sequence[Round] = Participation(),  # noqa: B008 (it is frozen)
    replanning: Replanning = Replanning(),  # noqa: B008
    remedy: Remedy | None = None,
    diversity: float = 0.0,
    evaluate_every: int = 1,
    stop_at_accuracy: float | None = None,
    workers: int = 1,
    show_progress: bool = False,
    loggers: Iterable[str] = (),
) -> Run:
    """Train a model while `policy` decides who trains where; every round is recorded.

    Without a scenario it is the paper's system in proportion to the data set. `policy` is a name of
    `stagewise methods`, a policy, or a function that makes one. With `out` the run is written to a
    new folder, and `resume` goes on with it after an interruption; without, nothing is written.
    `model` and `learning_rate` follow the data set by default; `participation` may also be the
    rounds themselves; `diversity` makes clients dearer to the pool the more they have served. Results
    depend on everything but `workers`, `show_progress` and `loggers`. A script that uses several
    workers must be guarded by `if __name__ == "__main__"`.
    """
    need_torch()
    loggers = check_loggers(loggers)
    if out is not None:
        check_unused(out)
    data = (
        load_dataset(dataset, data_dir, image_size=image_size)
        if isinstance(dataset, str)
        else dataset
    )
    network = default_model(data.name) if model is None else model
    world, source = _scenario(scenario, data, network, seed)
    drawn = isinstance(participation, Participation)
    config = make_config(
        dataset=data.name,
        dataset_fingerprint=data.fingerprint,
        data_dir=None if data_dir is None else str(Path(data_dir).resolve()),
        image_size=image_size,
        scenario=source,
        scenario_sha256=world.sha256,
        model=_name(network),
        policy=policy_name(policy),
        rounds=rounds,
        seed=seed,
        learning_rate=_learning_rate(network) if learning_rate is None else learning_rate,
        momentum=momentum,
        weight_decay=weight_decay,
        dtype=dtype,
        device=device,
        remedy=remedy,
        evaluate_every=evaluate_every,
        stop_at_accuracy=stop_at_accuracy,
        participation=participation if drawn else Participation(model="own"),
        replanning=replanning,
    )
    if isinstance(participation, Participation):
        online = draw_rounds(config.participation, world, config.rounds, config.seed)
    else:
        online = list(participation)[:rounds]
    if len(online) < rounds:
        raise StagewiseError(f"participation: {len(online)} rounds: must be at least {rounds}")
    with _team(config, data, network, world, workers) as team:
        if show_progress:
            announce(f"preparing {config.policy}")  # plans may take a while
        decides = with_diversity(make_policy(policy, world, seed), diversity)
        check_policy(config, decides)
        config = msgspec.structs.replace(config, plan_b=plan_b(decides))
        session = Session(config, world, online, decides, team, show_progress, loggers)
        if out is None:
            return session.run_in_memory()
        return session.run_in(RunDirectory.create(out, config, world, online, session.plan))


def resume(
    path: str | Path,
    *,
    policy: Policy | PolicyFactory | None = None,
    dataset: Dataset | None = None,
    model: "ModelBuilder | None" = None,
    workers: int = 1,
    show_progress: bool = False,
    loggers: Iterable[str] = (),
) -> Run:
    """Go on with the run in the folder `path`; one that is finished comes back as it is.

    The files become those of a run that was never interrupted, timings apart. What was given to
    `simulate` as an object and not by name must be given again.
    """
    need_torch()
    loggers = check_loggers(loggers)
    directory = RunDirectory.open(path)
    so_far = load_run(path)
    config, world = so_far.config, so_far.scenario
    if world.sha256 != config.scenario_sha256:
        raise StagewiseError(f"{directory.path / SCENARIO}: must be as it was when the run began")
    if so_far.finished:
        directory.finish(so_far.online)
        return load_run(path)
    if len(so_far.online) < config.rounds:
        raise StagewiseError(
            f"{directory.path / ONLINE}: has {len(so_far.online)} rounds: must have "
            f"{config.rounds}, as {CONFIG} says"
        )
    data = (
        load_dataset(config.dataset, config.data_dir, image_size=config.image_size)
        if dataset is None
        else dataset
    )
    if data.fingerprint != config.dataset_fingerprint:
        raise StagewiseError(
            f"{path}: the data set {shown(config.dataset)} must be the one the run began with"
        )
    network = config.model if model is None else model
    with _team(config, data, network, world, workers) as team:
        if policy is None:
            decides = policy_again(directory, config, world)
        else:
            decides = make_policy(policy, world, config.seed)
        session = Session(config, world, so_far.online, decides, team, show_progress, loggers)
        return session.run_in(directory)


def default_model(dataset: str) -> str:
    """The name of the model that a data set is trained with unless another is asked for."""
    return DEFAULT_MODELS.get(dataset, _OTHER_MODEL)


def default_learning_rate(model: str) -> float:
    """The learning rate that a model is trained with unless another is asked for."""
    return _LEARNING_RATES.get(model, _OTHER_LEARNING_RATE)


def need_torch() -> None:
    """Raise an error if there is no PyTorch: planning does without, training does not."""
    if find_spec("torch") is None:
        raise StagewiseError("training needs PyTorch: pip install 'stagewise-hfl[simulate]'")


def _scenario(
    given: Scenario | str | Path | None, data: Dataset, model: "str | ModelBuilder", seed: int
) -> tuple[Scenario, str]:
    """The scenario, and where it came from."""
    if isinstance(given, Scenario):
        return given, "given"
    if given is not None:
        return load_scenario(given), str(given)
    from stagewise.models import parameter_count

    shape = data.image_shape
    if isinstance(model, str):
        parameters = parameter_count(model, data.classes, shape)
    else:
        parameters = sum(parameter.numel() for parameter in model().parameters())
    samples = len(data.train_labels)
    return default_scenario(data.name, samples, data.classes, shape, parameters, seed), "default"


def _team(
    config: RunConfig,
    data: Dataset,
    model: "str | ModelBuilder",
    scenario: Scenario,
    workers: int,
) -> "TrainingTeam":
    from stagewise.training import TrainingTeam

    return TrainingTeam(training_task(config, data, model, scenario, config.device), workers)


def _learning_rate(model: "str | ModelBuilder") -> float:
    return default_learning_rate(_name(model))


def _name(model: "str | ModelBuilder") -> str:
    return model if isinstance(model, str) else getattr(model, "__name__", type(model).__name__)
