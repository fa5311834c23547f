"""A Flower strategy that asks a policy whom to configure, and averages by edge first."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import get_args

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from stagewise.decisions import Decision
from stagewise.errors import StagewiseError, shown
from stagewise.flower.chosen_nodes import ChosenNodes
from stagewise.flower.orders import Order, as_sent
from stagewise.flower.replies import (
    Judged,
    all_alike,
    arrays_of,
    asked_for,
    judge_figures,
    judge_update,
)
from stagewise.flower.report import RoundReport, Update, save_reports
from stagewise.flower.roll_call import Presence, await_nodes, call_roll
from stagewise.flower.wrapped import by_client, check_wrapped, default_strategy, weight_key
from stagewise.plan_b.remedies import Remedy, edge_weights
from stagewise.policy import Policy, PolicyFactory
from stagewise.simulator.config import Replanning
from stagewise.simulator.decider import Decider, make_policy, policy_name
from stagewise.world.checks import finite, seed_number, whole
from stagewise.world.rounds import round_of
from stagewise.world.scenario import Scenario

_log = logging.getLogger("flwr")


class StagewiseStrategy(Strategy):
    """In each round: who is there, the policy's decision, training of exactly those, a new model.

    `wrapped` makes the messages and combines what comes back; FedAvg by default. With
    `aggregate_by_edge` it is given a model for each edge, the mean of its clients' by their data in the
    scenario (Eq. 2), and its own mean of these is Eq. 3; without, it is given every client's update.
    With `edge_rounds` above 1 the clients of an edge train on from its model that often before the
    cloud sees it; an edge round without an update leaves that model as it was. `rounds` tells what
    became of every round.
    """

    def __init__(
        self,
        scenario: Scenario,
        policy: str | Policy | PolicyFactory = "pool",
        seed: int = 0,
        *,
        wrapped: Strategy | None = None,
        aggregate_by_edge: bool = True,
        edge_rounds: int = 1,
        remedy: Remedy | None = None,
        answer_s: float = 60.0,
    ) -> None:
        """`answer_s` seconds are waited for answers to the query, and before it for nodes."""
        self.scenario = scenario
        self.wrapped = default_strategy() if wrapped is None else wrapped
        self.aggregate_by_edge = aggregate_by_edge
        self.edge_rounds = whole("edge_rounds", edge_rounds, 1)
        self.remedy = remedy
        self.answer_s = finite("answer_s", answer_s, 0, open_below=True)
        self.rounds: list[RoundReport] = []
        check_wrapped(self.wrapped)
        self._check_remedy()
        self._name = policy_name(policy)
        made = make_policy(policy, scenario, seed_number(seed))
        self._decider = Decider(made, self._name, remedy, Replanning(), lambda index, plan: None)
        self._presence = Presence({})
        self._order: Order | None = None
        self._evaluating: dict[int, str] = {}
        self._timeout_s = 3600.0

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """As Flower's; `timeout` seconds hold for every edge round."""
        self._timeout_s = finite("timeout", timeout, 0, open_below=True)
        await_nodes(grid, len(self.scenario.clients), self.answer_s)
        return super().start(
            grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn
        )

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Messages to the clients the policy assigns, and to no others."""
        self._order = None
        decision = self._decide(grid, server_round)
        node_of = {client: self._presence.node_of[client] for client in decision.assignment}
        if not node_of:
            return []
        visible = ChosenNodes(grid, list(node_of.values()))
        made = self.wrapped.configure_train(server_round, arrays, config, visible)
        order = self._first_order(server_round, decision, by_client(made, node_of), arrays)
        for _ in range(self.edge_rounds - 1):
            messages = list(order.message_of.values())
            replies = grid.send_and_receive(messages, timeout=self._timeout_s)
            order = order.next(self._counted(order, replies))
        self._order = order
        return list(order.message_of.values())

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The new model, or None where no update is of use: the model then stays as it is."""
        order, self._order = self._order, None
        if order is None:
            return None, None
        counted = self._counted(order, replies)
        combined = [each.reply for each in counted.values() if each.reply]
        if self.aggregate_by_edge:
            combined = order.edge_replies(counted, weight_key(self.wrapped), self._shares())
        if not combined:
            _log.warning("round %d: no update is of use; the model stays as it is", server_round)
            return None, None
        arrays, metrics = self.wrapped.aggregate_train(server_round, combined)  # Eq. 3
        return None if arrays is None else as_sent(arrays, order.like), metrics or None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the wrapped strategy does it, among the clients that answered the query."""
        client_of = {node: client for client, node in self._presence.node_of.items()}
        self._evaluating = {}
        if not client_of:
            return []
        visible = ChosenNodes(grid, list(client_of))
        messages = self.wrapped.configure_evaluate(server_round, arrays, config, visible)
        messages = list(messages)
        for message in messages:
            message.metadata.group_id = str(server_round)
            message.metadata.ttl = self._timeout_s
            node = message.metadata.dst_node_id
            self._evaluating[node] = client_of[node]
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """As the wrapped strategy does it, over the evaluations of use."""
        came = asked_for(replies, list(self._evaluating), str(server_round))
        key = weight_key(self.wrapped)
        judged = {c: judge_figures(came.get(node), key) for node, c in self._evaluating.items()}
        judged = all_alike(judged)
        for client, each in judged.items():
            if each.reason:
                _log.warning("evaluation by client %s %s: %s", client, each.fate, each.reason)
        usable = [each.reply for each in judged.values() if each.reply]
        return self.wrapped.aggregate_evaluate(server_round, usable) if usable else None

    def summary(self) -> None:
        """Log what the strategy was made with."""
        how = f"by edge, edge rounds: {self.edge_rounds}" if self.aggregate_by_edge else "by client"
        _log.info("\t├──> %r", self.scenario)
        _log.info("\t├──> Policy: %s | remedy: %s | averaged %s", self._name, self.remedy, how)
        self.wrapped.summary()

    def save(self, folder: str | Path) -> None:
        """Write scenario.json, online.jsonl and decisions.jsonl, which `stagewise check` reads."""
        save_reports(self.scenario, self.rounds, Path(folder))

    def _check_remedy(self) -> None:
        names = get_args(Remedy)
        if self.remedy is not None and self.remedy not in names:
            rule = f"must be one of {', '.join(names)}"
            raise StagewiseError(f"remedy = {shown(self.remedy)}: {rule}")
        if self.aggregate_by_edge:
            return
        if self.remedy == "reweight" or self.edge_rounds > 1:
            what = "remedy" if self.remedy == "reweight" else "edge_rounds"
            value = shown(getattr(self, what))
            raise StagewiseError(f"{what} = {value}: must go with aggregate_by_edge = True")

    def _decide(self, grid: Grid, server_round: int) -> Decision:
        clients = self.scenario.clients
        self._presence = call_roll(
            grid, clients, self._presence.node_of, server_round, self.answer_s
        )
        for node, reason in self._presence.refused.items():
            _log.warning("node %d is left out: %s", node, reason)
        online = round_of(self.scenario, self._presence.node_of)
        decision = self._decider.decide(online, server_round - 1)
        self.rounds.append(RoundReport(online, decision, self._presence.refused, []))
        _log.info(
            "configure_train: %d of %d clients are there, %d train at %d edges%s",
            len(self._presence.node_of),
            len(clients),
            len(decision.assignment),
            len(set(decision.assignment.values())),
            "" if decision.feasible else f"; not within the limits: {decision.violations[0]}",
        )
        return decision

    def _first_order(
        self,
        server_round: int,
        decision: Decision,
        message_of: Mapping[str, Message],
        arrays: ArrayRecord,
    ) -> Order:
        clients = self.scenario.clients
        return Order(
            server_round=server_round,
            edge_round=0,
            edge_of=decision.assignment,
            message_of=message_of,
            data_of={client: int(clients.data[clients.index[client]]) for client in message_of},
            like=arrays_of(arrays),
            timeout_s=self._timeout_s,
        )

    def _counted(self, order: Order, replies: Iterable[Message]) -> dict[str, Judged]:
        """The updates of use, by client; the fate of every one asked for is reported."""
        node_of = {c: message.metadata.dst_node_id for c, message in order.message_of.items()}
        came = asked_for(replies, list(node_of.values()), order.group)
        key = None if self.aggregate_by_edge else weight_key(self.wrapped)
        judged = {c: judge_update(came.get(node), order.like, key) for c, node in node_of.items()}
        if not self.aggregate_by_edge:
            judged = all_alike(judged)
        for client, each in judged.items():
            edge = order.edge_of[client]
            update = Update(client, edge, order.edge_round, each.fate, each.reason)
            self.rounds[-1].updates.append(update)
            if each.reason:
                _log.warning("update of client %s %s: %s", client, each.fate, each.reason)
        counted = {client: each for client, each in judged.items() if each.fate == "counted"}
        _log.info("%d of %d updates are counted", len(counted), len(judged))
        return counted

    def _shares(self) -> Mapping[str, float]:
        """What each edge's data is multiplied by in Eq. 3; nothing stands for 1."""
        if self.remedy != "reweight":
            return {}
        weights = edge_weights(self.rounds[-1].decision)
        return dict(zip(self.scenario.edges.ids, weights.tolist(), strict=True))
