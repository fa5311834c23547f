"""Start a run, or go on with one that was interrupted."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from stagewise.datasets import Dataset, load_dataset
from stagewise.errors import StagewiseError, shown
from stagewise.plans import Plan
from stagewise.policies.policy import Policy, PolicyFactory
from stagewise.policies.registry import PolicyLike, make_policy, policy_name
from stagewise.policies.remedied import Remedy
from stagewise.robust.rules import Aggregator
from stagewise.runs.config import Participation, Replanning, RunConfig, make_config
from stagewise.runs.directory import CONFIG, ONLINE, SCENARIO, RunDirectory, check_unused
from stagewise.runs.loggers import check_loggers
from stagewise.runs.metrics import RunMetrics
from stagewise.runs.progress import announce
from stagewise.runs.run import Run, load_run
from stagewise.runs.session import Session, policy_of_folder, policy_of_run
from stagewise.simulator.carrier import SimulatedTraining
from stagewise.simulator.default_scenario import default_scenario
from stagewise.simulator.participation import draw_rounds
from stagewise.simulator.task import training_task
from stagewise.world.rounds import OnlineRounds, Round, round_of
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import load_scenario

if TYPE_CHECKING:
    from stagewise.simulator.task import ModelBuilder

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
    policy: PolicyLike = "pool",
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
    participation: Participation | OnlineRounds = Participation(),  # noqa: B008 (it is frozen)
    replanning: Replanning = Replanning(),  # noqa: B008
    remedy: Remedy | None = None,
    diversity: float = 0.0,
    aggregator: Aggregator = "mean",
    quarantine_rounds: int = 10,
    keep_checkpoints: int = 3,
    evaluate_every: int = 1,
    stop_at_accuracy: float | None = None,
    workers: int = 1,
    show_progress: bool = False,
    loggers: Iterable[str] = (),
    metrics_port: int | None = None,
) -> Run:
    """Train a model while `policy` decides who trains where; every round is recorded.

    Results depend on everything but `workers`, `show_progress`, `loggers` and `metrics_port`.

    Parameters
    ----------
    scenario : Scenario, str or Path, optional
        The system or its file; by default the paper's, in proportion to the data set.
    dataset : str or Dataset
        A name of `stagewise data`, or the data.
    policy : str, Policy or function
        A name of `stagewise methods`, a policy, or a function that makes one.
    rounds : int
        How many there are.
    seed : int
        Of every random draw.
    out : str or Path, optional
        A new folder to write the run to, with which `resume` goes on after an interruption; by
        default nothing is written.
    data_dir : str or Path, optional
        The folder of data sets; by default $STAGEWISE_DATA.
    image_size : int, optional
        For folders of images: the pixels along each side.
    model : str or function, optional
        A name, or a function that makes a module; by default as goes with the data set.
    learning_rate, momentum, weight_decay : float, optional
        Of each local step; the learning rate follows the model by default.
    dtype : {"float32", "float64", "bfloat16"}
        Of the model's weights; with `bfloat16` they are float32, and training multiplies matrices in
        bfloat16.
    device : str
        Where to train: `cpu`, `cuda`, `cuda:N` or `mps`.
    participation : Participation or sequence of Round
        Who is online: how it is drawn, or the rounds themselves.
    replanning : Replanning
        When Plan A runs again.
    remedy : {"drop", "reweight", "lend"}, optional
        What to do where a round cannot be made feasible.
    diversity : float
        How much more a client costs for having served.
    aggregator : {"mean", "plain-mean", "trimmed-mean", "median", "multi-krum"}
        How models are combined, at edges and at the cloud; `plain-mean` trusts every update.
    quarantine_rounds : int
        For how long a client is not asked whose updates were rejected twice; 0: it always is.
    keep_checkpoints : int
        How many of the last checkpoints the folder keeps, the newest included.
    evaluate_every : int
        Rounds from one evaluation to the next; the last round is always evaluated.
    stop_at_accuracy : float, optional
        End when the mean test accuracy of three successive evaluations is at least this.
    workers : int
        Processes that share the training. A script that uses several must be guarded by
        `if __name__ == "__main__"`.
    show_progress : bool
        Whether to show each round on standard error.
    loggers : iterable of str
        `tensorboard`, `mlflow` or both.
    metrics_port : int, optional
        The port of 127.0.0.1 at which counters for Prometheus are served as long as the run goes on.

    Examples
    --------
    >>> import stagewise
    >>> run = stagewise.simulate(dataset="digits", policy="pool", rounds=2, out="my-run")
    >>> [record.round for record in run.records]
    [0, 1]
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
        rounds=rounds,
        seed=seed,
        image_size=image_size,
        momentum=momentum,
        weight_decay=weight_decay,
        dtype=dtype,
        device=device,
        replanning=replanning,
        remedy=remedy,
        aggregator=aggregator,
        quarantine_rounds=quarantine_rounds,
        keep_checkpoints=keep_checkpoints,
        evaluate_every=evaluate_every,
        stop_at_accuracy=stop_at_accuracy,
        dataset=data.name,
        dataset_fingerprint=data.fingerprint,
        data_dir=None if data_dir is None else str(Path(data_dir).resolve()),
        scenario=source,
        scenario_sha256=world.sha256,
        model=_name(network),
        policy=policy_name(policy),
        given_policy=None if isinstance(policy, str) else True,
        learning_rate=learning_rate
        if learning_rate is not None
        else default_learning_rate(_name(network)),
        participation=participation if drawn else Participation(model="own"),
    )
    if isinstance(participation, Participation):
        online = draw_rounds(config.participation, world, config.rounds, config.seed)
    elif isinstance(participation, str) or not isinstance(participation, Iterable):
        raise StagewiseError(
            f"participation = {shown(participation)}: must be a Participation, or the rounds themselves"
        )
    else:
        own = (round_of(world, given, g) for g, given in enumerate(participation))
        online = [replace(round_, index=g) for g, round_ in enumerate(islice(own, rounds))]
    if len(online) < rounds:
        raise StagewiseError(f"participation: {len(online)} rounds: must be at least {rounds}")
    with _carrier(config, data, network, world, workers) as carrier:
        if show_progress:
            announce(f"preparing {config.policy}")  # plans may take a while
        made = make_policy(policy, world, seed)
        times = _PlanTimes(made.plan)
        store = times if out is None else RunDirectory(Path(out))
        config, decides = policy_of_run(config, made, store, diversity)
        session = Session(
            config,
            decides,
            lambda first: online[first:],
            carrier,
            show_progress=show_progress,
            loggers=loggers,
            metrics=None if metrics_port is None else RunMetrics(metrics_port),
        )
        if out is None:
            return session.run(Run(config, world, online, [], [], None, times.plan_ms))
        directory = RunDirectory.create(out, config, world, online, decides.plan)
        return _run_in(directory, session, online)


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

    Parameters
    ----------
    path : str or Path
        The run's folder.
    policy : Policy or function, optional
        Where it was given to `simulate` as one.
    dataset : Dataset, optional
        Where it was given to `simulate` as one.
    model : function, optional
        Where it was given to `simulate` as one.
    workers, show_progress, loggers
        As those of `simulate`.

    Examples
    --------
    >>> import stagewise
    >>> run = stagewise.simulate(dataset="digits", policy="fedcs", rounds=1, out="the-run")
    >>> stagewise.resume("the-run").finished
    True
    """
    need_torch()
    loggers = check_loggers(loggers)
    directory = RunDirectory.open(path)
    for refused in directory.repair():
        announce(f"{refused}: the one before it is used")
    so_far = load_run(path)
    config, world = so_far.config, so_far.scenario
    if world.sha256 != config.scenario_sha256:
        raise StagewiseError(f"{directory.path / SCENARIO}: must be as it was when the run began")
    if so_far.finished:
        directory.finish(so_far.online)
        return load_run(path)
    if len(so_far.online) < config.rounds:
        # Versions before ended a run at its first evaluation above the accuracy to stop at.
        ended = config.stop_at_accuracy is not None and len(so_far.online) == len(so_far.records)
        raise StagewiseError(
            f"{directory.path / ONLINE}: has {len(so_far.online)} rounds: must have "
            f"{config.rounds}, as {CONFIG} says"
            + (", unless an earlier version ended the run there" if ended else "")
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
    with _carrier(config, data, network, world, workers) as carrier:
        made = None if policy is None else make_policy(policy, world, config.seed)
        session = Session(
            config,
            policy_of_folder(directory, made),
            lambda first: so_far.online[first:],
            carrier,
            show_progress=show_progress,
            loggers=loggers,
        )
        return _run_in(directory, session, so_far.online)


def _run_in(directory: RunDirectory, session: Session, online: Sequence[Round]) -> Run:
    """The rest of a run; of its rounds, those that took place remain in its folder."""
    with directory.recording() as recorder:
        session.run(session.restored(directory), recorder)
        directory.finish(online)
    return load_run(directory.path)


class _PlanTimes:
    """A store of plans that keeps nothing but how long each took."""

    def __init__(self, first: Plan | None) -> None:
        self.plan_ms = [] if first is None else [first.plan_ms]

    def save_plan(self, ordered_in: int, plan: Plan) -> None:
        self.plan_ms.append(plan.plan_ms)

    def load_plan(self, ordered_in: int, made_for: Scenario) -> Plan | None:
        return None


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


@contextmanager
def _carrier(
    config: RunConfig, data: Dataset, model: "str | ModelBuilder", scenario: Scenario, workers: int
) -> Iterator[SimulatedTraining]:
    from stagewise.training import Trainer

    task = training_task(config, data, model, scenario, config.device)
    with Trainer(task, workers) as trainer:
        yield SimulatedTraining(config, scenario, trainer)


def _name(model: "str | ModelBuilder") -> str:
    return model if isinstance(model, str) else getattr(model, "__name__", type(model).__name__)
