"""One sitting of a run: from where its files stand to the end, or to an interruption."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stagewise.decisions import DecisionRecord
from stagewise.errors import StagewiseError, TrainingDiverged
from stagewise.methods.stagewise import StagewisePolicy
from stagewise.plans import Plan
from stagewise.policy import Policy
from stagewise.simulator.checkpoint import Position, Weights
from stagewise.simulator.config import RunConfig
from stagewise.simulator.decider import Decider
from stagewise.simulator.directory import CHECKPOINT, Recorder, RunDirectory
from stagewise.simulator.loggers import make_logger
from stagewise.simulator.loop import train_rounds
from stagewise.simulator.progress import progress
from stagewise.simulator.records import RoundRecord
from stagewise.simulator.run import Run, RunDiverged, load_run
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray, Scenario

if TYPE_CHECKING:
    from stagewise.training import TrainingTeam


@dataclass(frozen=True, eq=False)
class Session:
    """What a run needs to go on."""

    config: RunConfig
    scenario: Scenario
    online: Sequence[Round]
    policy: Policy
    team: "TrainingTeam"
    show_progress: bool = False
    loggers: Sequence[str] = ()

    @property
    def plan(self) -> Plan | None:
        """The plan the policy begins with, if it has one."""
        plan = getattr(self.policy, "plan", None)
        return plan if isinstance(plan, Plan) else None

    def run_in_memory(self) -> Run:
        """All rounds; nothing is written."""
        plan_ms = [] if self.plan is None else [self.plan.plan_ms]
        begin = Run(self.config, self.scenario, self.online, [], [], None, plan_ms)
        with ExitStack() as stack:
            decider = self._decider(stack, lambda ordered_in, plan: plan_ms.append(plan.plan_ms))
            return self._go_on(stack, begin, self.team.initial_weights(), decider, None)

    def run_in(self, directory: RunDirectory) -> Run:
        """The rounds that are left of the run in `directory`."""
        with ExitStack() as stack:
            recorder = stack.enter_context(directory.recording())
            so_far = load_run(directory.path)
            weights = self.team.initial_weights()
            decider = self._decider(stack, directory.save_later_plan)
            position = directory.position()
            if so_far.weights is not None and position is not None:
                _check_alike(directory, so_far.weights, weights)
                weights = so_far.weights
                decider.restore(
                    self.online[: position.round + 1],
                    [_edge_of(decision, self.scenario) for decision in so_far.decisions],
                    position.orders,
                    position.adopted,
                    directory.later_plan,
                )
            if not so_far.finished:
                self._go_on(stack, so_far, weights, decider, recorder)
            directory.finish(self.online)
        return load_run(directory.path)

    def _decider(self, stack: ExitStack, on_new_plan: Callable[[int, Plan], None]) -> Decider:
        config = self.config
        decider = Decider(self.policy, config.policy, config.remedy, config.replanning, on_new_plan)
        stack.callback(decider.close)
        return decider

    def _go_on(
        self,
        stack: ExitStack,
        so_far: Run,
        weights: Weights,
        decider: Decider,
        recorder: Recorder | None,
    ) -> Run:
        records, decisions = list(so_far.records), list(so_far.decisions)
        tell = self._listeners(stack, so_far)
        stopped: TrainingDiverged | None = None
        try:
            for trained in train_rounds(
                self.config, self.online, len(records), weights, decider, self.team
            ):
                record, decision = trained.record, trained.decision.record()
                if recorder is not None:
                    position = Position(record.round, decider.orders, decider.adopted)
                    recorder.add(record, decision, trained.weights, position)
                weights = trained.weights
                records.append(record)
                decisions.append(decision)
                for listener in tell:
                    listener(record)
        except TrainingDiverged as error:
            stopped = error
        run = replace(so_far, records=records, decisions=decisions, weights=weights)
        if stopped is not None:
            raise RunDiverged(str(stopped), run) from stopped
        return run

    def _listeners(self, stack: ExitStack, so_far: Run) -> list[Callable[[RoundRecord], None]]:
        listeners: list[Callable[[RoundRecord], None]] = []
        for name in self.loggers:
            logger = make_logger(name, self.config, so_far.path)
            stack.callback(logger.close)
            listeners.append(logger.log_round)
        if self.show_progress:
            done = len(so_far.records)
            listeners.append(stack.enter_context(progress(self.config.rounds, done)))
        return listeners


def _edge_of(decision: DecisionRecord, scenario: Scenario) -> IntArray:
    edge_of = np.full(len(scenario.clients), UNASSIGNED, dtype=np.int64)
    for client, edge in decision.assignment.items():
        edge_of[scenario.clients.index[client]] = scenario.edges.index[edge]
    return edge_of


def check_policy(config: RunConfig, policy: Policy) -> None:
    """Raise an error if the configuration asks for what only a policy with a plan can do."""
    if isinstance(policy, StagewisePolicy):
        return
    wanted = {"replanning": config.replanning.wanted, "remedy 'lend'": config.remedy == "lend"}
    for what, asked in wanted.items():
        if asked:
            raise StagewiseError(
                f"policy = {config.policy!r}: must be one that follows a plan, for {what}"
            )


def _check_alike(directory: RunDirectory, weights: Weights, expected: Weights) -> None:
    def shapes(of: Weights) -> dict[str, object]:
        return {name: (array.shape, array.dtype) for name, array in of.items()}

    if shapes(weights) != shapes(expected):
        raise StagewiseError(
            f"{directory.path / CHECKPOINT}: the weights must be those of the run's model"
        )
