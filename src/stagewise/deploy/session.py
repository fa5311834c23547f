"""One sitting of a deployed run: from where its files stand to the last round, or to an end before."""

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stagewise.deploy.availability import ObservedRound, observed_round
from stagewise.deploy.coordinator import Coordinator
from stagewise.deploy.costs import MeasuredCosts
from stagewise.deploy.deadlines import Deadlines
from stagewise.deploy.records import Deployment, LiveRecord, live_file, load_live, save_status
from stagewise.deploy.transport import Presence, Transport
from stagewise.errors import StagewiseError
from stagewise.policy import Policy
from stagewise.simulator.checkpoint import Position, Weights
from stagewise.simulator.config import RunConfig
from stagewise.simulator.decider import Decider
from stagewise.simulator.directory import CHECKPOINT, ONLINE, Recorder, RunDirectory
from stagewise.simulator.progress import announce, progress
from stagewise.simulator.run import Run, load_run
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round, save_rounds
from stagewise.world.scenario import IntArray, Scenario

if TYPE_CHECKING:
    from stagewise.training import TrainingTeam

LEGS = {"H": 2, "F": 1, "in-process": 0}
"""How many messages one after the other ask a client and bring its answer: over its edge, or not."""


@dataclass(frozen=True, eq=False)
class LiveSession:
    """What a deployed run needs to go on."""

    deployment: Deployment
    config: RunConfig
    scenario: Scenario
    policy: Policy
    transport: Transport
    team: "TrainingTeam"
    """Evaluates at the cloud."""
    show_progress: bool = False

    def run(self, directory: RunDirectory, recorder: Recorder) -> Run:
        """The rounds that are left; each is complete once the checkpoint says so."""
        path, so_far = directory.path, load_run(directory.path)
        done = len(so_far.records)
        rounds, known = list(so_far.online[:done]), load_live(path, done)
        weights = self._weights(path, so_far.weights)
        with ExitStack() as stack:
            decider = self._decider(stack, directory)
            position = directory.position()
            if position is not None:
                decided = [
                    _edge_of(record.assignment, self.scenario) for record in so_far.decisions
                ]
                observed = [_observed(*pair) for pair in zip(rounds, known, strict=True)]
                decider.restore(
                    observed, decided, position.orders, position.adopted, directory.later_plan
                )
            coordinator = self._coordinator(path, decider)
            coordinator.restore(known)
            live = stack.enter_context(live_file(path, done))
            stack.enter_context(_last_words(coordinator))
            advance = (
                stack.enter_context(progress(self.config.rounds, done))
                if self.show_progress
                else lambda record: None
            )
            for index in range(done, self.config.rounds):
                played = coordinator.play(index, weights)
                weights = played.weights
                rounds.append(played.round)
                save_rounds(rounds, path / ONLINE)
                live.add(played.live)
                now = Position(index, decider.orders, decider.adopted)
                recorder.add(played.record, played.decision.record(), weights, now)
                advance(played.record)
                for fault in played.live.faults:
                    announce(f"round {index + 1}: {fault}")
        return load_run(path)

    def _decider(self, stack: ExitStack, directory: RunDirectory) -> Decider:
        config = self.config
        # The policy applies the remedy itself: it knows which links are there.
        decider = Decider(
            self.policy, config.policy, None, config.replanning, directory.save_later_plan
        )
        stack.callback(decider.close)
        return decider

    def _coordinator(self, path: Path, decider: Decider) -> Coordinator:
        deployment = self.deployment
        return Coordinator(
            config=self.config,
            scenario=self.scenario,
            design=deployment.design,
            transport=self.transport,
            decider=decider,
            evaluate=self.team.evaluate,
            deadlines=Deadlines(deployment.deadline_factor, LEGS[deployment.design]),
            costs=MeasuredCosts(self.scenario),
            measured_costs=deployment.measured_costs,
            tell=lambda status: save_status(status, path),
        )

    def _weights(self, path: Path, saved: Weights | None) -> Weights:
        initial = self.team.initial_weights()
        if saved is None:
            return initial
        if {name: (a.shape, a.dtype) for name, a in saved.items()} != {
            name: (a.shape, a.dtype) for name, a in initial.items()
        }:
            raise StagewiseError(
                f"{path / CHECKPOINT}: the weights must be those of the run's model"
            )
        return saved


@contextlib.contextmanager
def _last_words(coordinator: Coordinator) -> Iterator[None]:
    """Leave a status that says how it ended."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(StagewiseError):
            coordinator.end("stopped")
        raise
    coordinator.end("finished")


def _observed(round_: Round, record: LiveRecord) -> ObservedRound:
    """A round as its decision was made: which links were there stands in `live.jsonl` alone."""
    edges_of = {client: tuple(edges) for client, edges in record.reached.items()}
    presence = Presence(edges_of, record.answer_s, tuple(record.edges))
    return observed_round(round_.scenario, presence, round_.cpu_hz)


def _edge_of(assignment: dict[str, str], scenario: Scenario) -> IntArray:
    edge_of = np.full(len(scenario.clients), UNASSIGNED, dtype=np.int64)
    for client, edge in assignment.items():
        edge_of[scenario.clients.index[client]] = scenario.edges.index[edge]
    return edge_of
