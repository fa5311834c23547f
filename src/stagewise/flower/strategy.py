"""A Flower strategy that asks a policy whom to configure, and averages by edge first."""

import logging
from collections.abc import Iterable
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from stagewise.decisions import Decision
from stagewise.errors import StagewiseError, shown
from stagewise.flower.chosen_nodes import ChosenNodes
from stagewise.flower.edge_round import EdgeRound, as_sent
from stagewise.flower.replies import NodeReply, all_alike, arrays_of, asked_for, judge
from stagewise.flower.report import RoundReport, save_reports
from stagewise.flower.roll_call import ClientNodes, await_nodes, roll_call
from stagewise.flower.training import EvaluateFn, FlowerTraining
from stagewise.flower.wrapped import by_client, check_wrapped, default_strategy, weight_key
from stagewise.outcomes import trains_anything
from stagewise.policies.registry import PolicyLike, make_policy
from stagewise.policies.remedied import Remedied, Remedy, checked_remedy
from stagewise.world.checks import finite, whole
from stagewise.world.rounds import Round, round_of
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
        policy: PolicyLike = "pool",
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
        made = make_policy(policy, scenario, seed)
        self.policy = made if remedy is None else Remedied(made, remedy)
        self._present = ClientNodes({})
        self._edge_round: EdgeRound | None = None
        self._evaluating: dict[int, str] = {}
        self.timeout_s = 3600.0

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """As Flower's; `timeout` seconds hold for every edge round.

        The policy is told `accuracy` and `loss` of what `evaluate_fn` returns.
        """
        whole("num_rounds", num_rounds, 0)
        self.timeout_s = finite("timeout", timeout, 0, open_below=True)
        await_nodes(grid, len(self.scenario.clients), self.answer_s)
        configs = train_config or ConfigRecord(), evaluate_config or ConfigRecord()
        return FlowerTraining(self, grid, initial_arrays, *configs, evaluate_fn).run(num_rounds)

    def call_roll(self, grid: Grid, server_round: int) -> Round:
        """The round of those who answer the roll call."""
        self._present = roll_call(
            grid, self.scenario.clients, self._present.node_of, server_round, self.answer_s
        )
        for node, reason in self._present.refused.items():
            _log.warning("node %d is left out: %s", node, reason)
        return round_of(self.scenario, self._present.node_of, server_round - 1)

    def begin_round(self, decision: Decision) -> RoundReport:
        """Take a decision as that of the round at hand."""
        if decision.answer.named_weights(self.scenario) and not self.aggregate_by_edge:
            raise StagewiseError(
                f"round {decision.round.index + 1}: weights of edges or clients in the answer of "
                f"{shown(decision.method)}: must go with aggregate_by_edge = True"
            )
        self.rounds.append(RoundReport(decision, self._present.refused, []))
        self._edge_round = None
        _log.info(
            "configure_train: %d of %d clients are there, %d train at %d edges%s",
            len(self._present.node_of),
            len(self.scenario.clients),
            len(decision.assignment),
            len(set(decision.assignment.values())),
            "" if decision.feasible else f"; not within the limits: {decision.violations[0]}",
        )
        return self.rounds[-1]

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Orders to the clients the policy assigns, and to no others."""
        decision = self._decision(server_round)
        node_of = {client: self._present.node_of[client] for client in decision.assignment}
        if not node_of or not trains_anything(decision):
            return []
        visible = ChosenNodes(grid, list(node_of.values()))
        made = self.wrapped.configure_train(server_round, arrays, config, visible)
        clients = self.scenario.clients
        current = EdgeRound(
            server_round=server_round,
            edge_round=0,
            edge_of=decision.assignment,
            order_of=by_client(made, node_of),
            data_of={client: int(clients.data[clients.index[client]]) for client in node_of},
            weight_of=decision.answer.named_weights(self.scenario).clients or {},
            like=arrays_of(arrays),
            timeout_s=self.timeout_s,
        )
        for _ in range(self.edge_rounds - 1):
            orders = list(current.order_of.values())
            replies = grid.send_and_receive(orders, timeout=self.timeout_s)
            current = current.next(self._counted(current, replies))
        self._edge_round = current
        return list(current.order_of.values())

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The new model, or None where no update is of use: the model then stays as it is."""
        last, self._edge_round = self._edge_round, None
        if last is None:
            return None, None
        counted = self._counted(last, replies)
        combined = [each.message for each in counted.values() if each.message]
        if self.aggregate_by_edge:
            answer = self.rounds[-1].decision.answer
            edge_weights = answer.named_weights(self.scenario).edges or {}
            combined = last.edge_replies(counted, weight_key(self.wrapped), edge_weights)
        if not combined:
            _log.warning("round %d: no update is of use; the model stays as it is", server_round)
            return None, None
        arrays, metrics = self.wrapped.aggregate_train(server_round, combined)  # Eq. 3
        return None if arrays is None else as_sent(arrays, last.like), metrics or None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the wrapped strategy does it, among the clients that answered the query."""
        client_of = {node: client for client, node in self._present.node_of.items()}
        self._evaluating = {}
        if not client_of:
            return []
        visible = ChosenNodes(grid, list(client_of))
        messages = list(self.wrapped.configure_evaluate(server_round, arrays, config, visible))
        for message in messages:
            message.metadata.group_id = str(server_round)
            message.metadata.ttl = self.timeout_s
            node = message.metadata.dst_node_id
            self._evaluating[node] = client_of[node]
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """As the wrapped strategy does it, over the evaluations of use."""
        came = asked_for(replies, list(self._evaluating), str(server_round))
        key = weight_key(self.wrapped)
        judged = {c: judge(came.get(node), None, key) for node, c in self._evaluating.items()}
        judged = all_alike(judged)
        for client, each in judged.items():
            if each.reason:
                _log.warning("evaluation by client %s %s: %s", client, each.fate, each.reason)
        usable = [each.message for each in judged.values() if each.message]
        return self.wrapped.aggregate_evaluate(server_round, usable) if usable else None

    def summary(self) -> None:
        """Log what the strategy was made with."""
        how = f"by edge, edge rounds: {self.edge_rounds}" if self.aggregate_by_edge else "by client"
        _log.info("\t├──> %r", self.scenario)
        _log.info(
            "\t├──> Policy: %s | remedy: %s | averaged %s", self.policy.title, self.remedy, how
        )
        self.wrapped.summary()

    def save(self, folder: str | Path) -> None:
        """Write scenario.json, online.jsonl and decisions.jsonl, which `stagewise check` reads."""
        save_reports(self.scenario, self.rounds, Path(folder))

    def _check_remedy(self) -> None:
        if self.remedy is not None:
            checked_remedy(self.remedy)
        if self.aggregate_by_edge:
            return
        if self.remedy == "reweight" or self.edge_rounds > 1:
            what = "remedy" if self.remedy == "reweight" else "edge_rounds"
            value = shown(getattr(self, what))
            raise StagewiseError(f"{what} = {value}: must go with aggregate_by_edge = True")

    def _decision(self, server_round: int) -> Decision:
        """The decision of the round at hand."""
        if not self.rounds or self.rounds[-1].decision.round.index != server_round - 1:
            raise StagewiseError(
                f"round {server_round}: nothing is decided: StagewiseStrategy must be the strategy that "
                f"is started; another strategy goes into `wrapped`, not around it"
            )
        return self.rounds[-1].decision

    def _counted(self, sent: EdgeRound, replies: Iterable[Message]) -> dict[str, NodeReply]:
        """The updates of use, by client; the fate of every one asked for is reported."""
        node_of = {client: order.metadata.dst_node_id for client, order in sent.order_of.items()}
        came = asked_for(replies, list(node_of.values()), sent.group)
        key = None if self.aggregate_by_edge else weight_key(self.wrapped)
        judged = {c: judge(came.get(node), sent.model_for(c), key) for c, node in node_of.items()}
        if not self.aggregate_by_edge:
            judged = all_alike(judged)
        for client, each in judged.items():
            self.rounds[-1].updates.append(sent.report(client, each, came.get(node_of[client])))
            if each.reason:
                _log.warning("update of client %s %s: %s", client, each.fate, each.reason)
        counted = {client: each for client, each in judged.items() if each.fate == "counted"}
        _log.info("%d of %d updates are counted", len(counted), len(judged))
        return counted
