"""Flower's rounds on the loop of all others: a roll call, the policy's decision, what came of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result

from stagewise.deploy.outcome import outcome_of
from stagewise.flower.replies import finite_numbers
from stagewise.loop import run_rounds, unknown_losses

if TYPE_CHECKING:
    from stagewise.decisions import Decision
    from stagewise.flower.strategy import StagewiseStrategy
    from stagewise.outcomes import Outcome
    from stagewise.world.rounds import Round
    from stagewise.world.scenario import FloatArray, IntArray

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]

_log = logging.getLogger("flwr")


@dataclass(eq=False)
class FlowerTraining:
    """Carries decisions out by a strategy's steps; `result` is what `Strategy.start` returns."""

    strategy: StagewiseStrategy
    grid: Grid
    arrays: ArrayRecord
    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    evaluate_fn: EvaluateFn | None
    result: Result = field(default_factory=Result)

    def run(self, rounds: int) -> Result:
        """Train for so many rounds."""
        began = time.monotonic()
        _log.info("Starting %s for %d rounds:", type(self.strategy).__name__, rounds)
        self.strategy.summary()
        self._evaluate(0)
        with closing(self.strategy.policy) as policy:
            for played in run_rounds(policy, self._rounds(rounds), self):
                _log.info("round %d took %.1f s", played.decision.round.index + 1, played.wall_s)
        _log.info("Finished in %.1f s:", time.monotonic() - began)
        for line in str(self.result).splitlines():
            _log.info("\t%s", line)
        return self.result

    def carry_out(self, decision: Decision) -> Outcome:
        """Have a round trained, then evaluated by clients and by the server, as Flower does it."""
        strategy, server_round = self.strategy, decision.round.index + 1
        report = strategy.begin_round(decision)
        messages = strategy.configure_train(server_round, self.arrays, self.train_config, self.grid)
        replies = self.grid.send_and_receive(messages, timeout=strategy.timeout_s)
        arrays, metrics = strategy.aggregate_train(server_round, replies)
        if arrays is not None:
            self.arrays = self.result.arrays = arrays
        _keep("trained", self.result.train_metrics_clientapp, server_round, metrics)
        messages = strategy.configure_evaluate(
            server_round, self.arrays, self.evaluate_config, self.grid
        )
        replies = self.grid.send_and_receive(messages, timeout=strategy.timeout_s)
        metrics = strategy.aggregate_evaluate(server_round, replies)
        _keep("evaluated", self.result.evaluate_metrics_clientapp, server_round, metrics)
        tested = self._evaluate(server_round)
        outcome = outcome_of(decision, report.updates)
        return replace(outcome, accuracy=tested.get("accuracy"), loss=tested.get("loss"))

    def losses(self, clients: IntArray) -> FloatArray:
        """Unknown: no message asks clients for a loss without training."""
        return unknown_losses(clients)

    def _rounds(self, count: int) -> Iterator[Round]:
        for server_round in range(1, count + 1):
            _log.info("[ROUND %d/%d]", server_round, count)
            yield self.strategy.call_roll(self.grid, server_round)

    def _evaluate(self, server_round: int) -> dict[str, float]:
        """What the server finds of the model as it is now."""
        if self.evaluate_fn is None:
            return {}
        metrics = self.evaluate_fn(server_round, self.arrays)
        _keep("tested", self.result.evaluate_metrics_serverapp, server_round, metrics)
        return {} if metrics is None else finite_numbers(metrics)


def _keep(
    what: str, kept: dict[int, MetricRecord], server_round: int, metrics: MetricRecord | None
) -> None:
    if metrics is not None:
        _log.info("%s: %s", what, metrics)
        kept[server_round] = metrics
