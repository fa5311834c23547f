"""A run from where its files stand to the end, or to an interruption."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from stagewise.deciding import wrapped
from stagewise.errors import StagewiseError, TrainingDiverged, shown
from stagewise.loop import Carrier, PlayedRound, run_rounds
from stagewise.model_weights import ModelWeights
from stagewise.policies.policy import Policy
from stagewise.policies.registry import make_policy
from stagewise.policies.replanned import PlanStore
from stagewise.runs.checkpoint_files import CHECKPOINT
from stagewise.runs.collapse import CollapseWatch
from stagewise.runs.config import RunConfig
from stagewise.runs.defence import Defence
from stagewise.runs.directory import Recorder, RunDirectory
from stagewise.runs.events import Event
from stagewise.runs.loggers import make_logger
from stagewise.runs.metrics import RunMetrics
from stagewise.runs.progress import announce, progress
from stagewise.runs.records import RoundRecord
from stagewise.runs.run import Run, RunDiverged, load_run
from stagewise.world.rounds import Round


class ModelCarrier(Carrier, Protocol):
    """A carrier that trains a model."""

    weights: ModelWeights
    """The model as it is now."""
    defence: Defence
    """What is known about wrong updates; `carry_out` lets it learn."""
    events: Sequence[Event]
    """What happened in the last round beside training."""


@dataclass(frozen=True, eq=False)
class Session:
    """What a run needs to go on, whether it is simulated or deployed."""

    config: RunConfig
    policy: Policy
    rounds: Callable[[int], Iterable[Round]]
    """The rounds from a number on."""
    carrier: ModelCarrier
    before_checkpoint: Callable[[PlayedRound], Mapping[str, bytes]] = lambda played: {}
    """Called with each round before the checkpoint that makes it count.

    It gives the lines that it wrote, by the names of their files.
    """
    show_progress: bool = False
    loggers: Sequence[str] = ()
    metrics: RunMetrics | None = None
    """What serves counters to Prometheus, if anything does."""

    def run_in(self, directory: RunDirectory, recorder: Recorder) -> Run:
        """The rounds that are left of the run in `directory`, which `recorder` writes to."""
        so_far = self.restored(directory)
        self.run(so_far, recorder, _joined(directory, self.carrier.defence))
        return load_run(directory.path)

    def restored(self, directory: RunDirectory) -> Run:
        """The run in `directory` so far; model and policy become as its checkpoint has them.

        Where clients joined after the checkpoint, the policy begins again with the plan that has them.
        """
        so_far = load_run(directory.path)
        if so_far.weights is None:
            return so_far
        _check_alike(directory, so_far.weights, self.carrier.weights)
        self.carrier.weights = so_far.weights
        if _joined(directory, self.carrier.defence):
            self.carrier.defence.restore(directory.defence())
            return so_far
        state = directory.state()
        if not state and self.policy.state():
            raise StagewiseError(
                f"{directory.path / CHECKPOINT}: does not hold the state of policy "
                f"{self.config.policy!r}, as files of an earlier version: start the run again"
            )
        try:
            self.policy.restore(state)
            self.carrier.defence.restore(directory.defence())
        except StagewiseError:
            raise
        except (KeyError, TypeError, ValueError, IndexError):
            raise StagewiseError(
                f"{directory.path / CHECKPOINT}: the state of policy {self.config.policy!r} must be "
                f"as the policy left it"
            ) from None
        return so_far

    def run(self, so_far: Run, recorder: Recorder | None = None, joined: Sequence[str] = ()) -> Run:
        """The rounds that are left; without a recorder nothing is written.

        `joined` are clients that the rounds so far did not have.
        """
        records, decisions = list(so_far.records), list(so_far.decisions)
        weights, watch = self.carrier.weights, CollapseWatch()
        for record in records:
            watch.collapse(record)
        good = _good_model(so_far, watch)
        coming = () if so_far.finished else self.rounds(len(records))
        rounds = map(self.carrier.defence.admitted, coming)
        with closing(self.policy), ExitStack() as stack:
            listeners = () if so_far.finished else self._listeners(stack, so_far)
            try:
                for played in run_rounds(self.policy, rounds, self.carrier):
                    record, decision = RoundRecord.of(played), played.decision.record()
                    events = [_joins(client, record.round) for client in joined]
                    events += self.carrier.events
                    joined = ()
                    reason = watch.collapse(record)
                    if reason and good is not None:
                        self.carrier.weights, to = good, watch.last_good
                        returned = Event(round=record.round, kind="returned", to=to, reason=reason)
                        events.append(returned)
                    weights = self.carrier.weights
                    if record.round == watch.last_good:
                        good = weights
                    if recorder is not None:
                        beside = self.before_checkpoint(played)
                        states = self.policy.state(), self.carrier.defence.state()
                        recorder.add(record, decision, weights, *states, events, beside)
                    for event in events if self.show_progress else ():
                        announce(str(event))
                    records.append(record)
                    decisions.append(decision)
                    for listener in listeners:
                        listener(record)
                    if self.config.is_over([record.accuracy for record in records]):
                        break
            except TrainingDiverged as error:
                run = replace(so_far, records=records, decisions=decisions, weights=weights)
                raise RunDiverged(str(error), run) from error
        return replace(so_far, records=records, decisions=decisions, weights=weights)

    def _listeners(self, stack: ExitStack, so_far: Run) -> list[Callable[[RoundRecord], None]]:
        listeners: list[Callable[[RoundRecord], None]] = []
        for name in self.loggers:
            log_round, close = make_logger(name, self.config, so_far.path)
            stack.callback(close)
            listeners.append(log_round)
        if self.metrics is not None:
            stack.enter_context(self.metrics.serving())
            for record in so_far.records:
                self.metrics.add(record)
            listeners.append(self.metrics.add)
        if self.show_progress:
            done = len(so_far.records)
            listeners.append(stack.enter_context(progress(self.config.rounds, done)))
        return listeners


def _joined(directory: RunDirectory, defence: Defence) -> tuple[str, ...]:
    """The clients that joined after the newest checkpoint, which knew of all that were there."""
    return defence.joined_since(directory.defence()) if directory.complete else ()


def _joins(client: str, round_index: int) -> Event:
    reason = "it was added to the site; the policy began again with a plan that has it"
    return Event(round=round_index, kind="joined", client=client, reason=reason)


def _good_model(so_far: Run, watch: CollapseWatch) -> ModelWeights | None:
    """The model after the last good evaluation of a run that goes on.

    A round that collapsed left the good model in its checkpoint.
    """
    evaluated = [record.round for record in so_far.records if record.accuracy is not None]
    if watch.last_good is None or so_far.path is None:
        return None
    return RunDirectory(so_far.path).weights_of(evaluated[-1])


def policy_of_run(
    config: RunConfig, policy: Policy, store: PlanStore, diversity: float = 0.0
) -> tuple[RunConfig, Policy]:
    """`policy` with all that a run asks for around it, and the run's configuration with it."""
    how: dict[str, str | float] = {}
    if policy.plan_b is not None:
        how = {"method": policy.plan_b, "mode": policy.mode, "diversity": diversity}
    elif diversity:
        how = {"diversity": diversity}
    # As decisions call it: a policy that was given may have a name of its own.
    config = msgspec.structs.replace(config, policy=policy.title, plan_b=how or None)
    return config, _wrapped(config, policy, store)


def policy_of_folder(directory: RunDirectory, policy: Policy | None = None) -> Policy:
    """The policy that the run in a folder began with, around its plan where it has one.

    `policy` is given where it was given to the run as an object.
    """
    config, scenario = directory.config(), directory.scenario()
    plan = directory.plan(scenario)
    if policy is None and config.given_policy:
        raise StagewiseError(
            f"policy: must be given again, as policy {config.policy!r} was given to the run as an object"
        )
    if policy is None:
        policy = make_policy(config.policy, scenario, config.seed, plan=plan)
    policy.name = config.policy
    return _wrapped(config, policy, directory)


def _wrapped(config: RunConfig, policy: Policy, store: PlanStore) -> Policy:
    diversity = (config.plan_b or {}).get("diversity", 0.0)
    if not isinstance(diversity, float | int):
        raise StagewiseError(f"plan_b.diversity = {shown(diversity)}: must be a number")
    return wrapped(
        policy,
        remedy=config.remedy,
        diversity=diversity,
        replanning=config.replanning.triggers,
        delay=config.replanning.delay_rounds,
        forecast=config.replanning.forecast,
        round_seconds=config.participation.round_seconds,
        store=store,
    )


def _check_alike(directory: RunDirectory, weights: ModelWeights, expected: ModelWeights) -> None:
    def shapes(of: ModelWeights) -> dict[str, object]:
        return {name: (array.shape, array.dtype) for name, array in of.items()}

    if shapes(weights) != shapes(expected):
        raise StagewiseError(
            f"{directory.path / CHECKPOINT}: the weights must be those of the run's model"
        )
