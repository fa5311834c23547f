"""What one edge round sends, and the edges' models from what comes back (Eqs. 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from stagewise.deploy.aggregation import mean_model, weighted_data
from stagewise.deploy.exchange import ClientReport
from stagewise.flower.replies import NodeReply, figures_of

if TYPE_CHECKING:
    from stagewise.model_weights import ModelWeights


@dataclass(frozen=True, eq=False)
class EdgeModel:
    """An edge's model, and the updates it is the mean of, by client."""

    weights: ModelWeights
    updates: Mapping[str, NodeReply]


@dataclass(frozen=True, eq=False)
class EdgeRound:
    """Who is sent what in one edge round; every mapping is by client, in the scenario's order."""

    server_round: int
    edge_round: int
    edge_of: Mapping[str, str]
    order_of: Mapping[str, Message]
    data_of: Mapping[str, int]
    weight_of: Mapping[str, float]
    """What a client's data is multiplied by in its edge's mean (Eq. 2); 1 for whoever is not named."""
    like: ModelWeights
    """The global model."""
    timeout_s: float
    models: Mapping[str, EdgeModel] = field(default_factory=dict)
    """The model of every edge that had an update in this round, from its last edge round with one."""

    def __post_init__(self) -> None:
        for order in self.order_of.values():
            order.metadata.group_id = self.group
            order.metadata.ttl = self.timeout_s

    @property
    def group(self) -> str:
        """Marks the orders of this edge round, and thereby the replies."""
        return f"{self.server_round}.{self.edge_round}"

    def next(self, counted: Mapping[str, NodeReply]) -> EdgeRound:
        """The next edge round: each edge's model to its clients, the global one if it has none."""
        models = self.edge_models(counted)
        order_of = {
            client: _with_arrays(order, _sent(models, self.edge_of[client], self.like))
            for client, order in self.order_of.items()
        }
        number = self.edge_round + 1
        return replace(self, edge_round=number, order_of=order_of, models=models)

    def model_for(self, client: str) -> ModelWeights:
        """The model that a client is sent."""
        return _sent(self.models, self.edge_of[client], self.like)

    def report(self, client: str, reply: NodeReply, arrived: Message | None) -> ClientReport:
        """What became of a client's update, which arrived in a message or not at all."""
        content = None if arrived is None or arrived.has_error() else arrived.content
        return ClientReport(
            client=client,
            edge=self.edge_of[client],
            edge_round=self.edge_round,
            fate=reply.fate,
            reason=reply.reason,
            bytes_up=0 if content is None else _array_bytes(content),
            bytes_down=_array_bytes(self.order_of[client].content),
            **reply.figures,
        )

    def edge_models(self, counted: Mapping[str, NodeReply]) -> dict[str, EdgeModel]:
        """The edges' models after this edge round: without an update the last one stays."""
        models = dict(self.models)
        for edge in dict.fromkeys(self.edge_of[client] for client in counted):
            updates = {c: reply for c, reply in counted.items() if self.edge_of[c] == edge}
            data = [self.data_of[client] for client in updates]
            weighed = weighted_data(data, [self.weight_of.get(client, 1.0) for client in updates])
            mean = mean_model([reply.weights for reply in updates.values()], weighed)  # Eq. 2
            models[edge] = EdgeModel(mean, updates)
        return models

    def edge_replies(
        self, counted: Mapping[str, NodeReply], weight_key: str, share_of: Mapping[str, float]
    ) -> list[Message]:
        """A reply for every edge as if it were a client: what a strategy needs for Eq. 3.

        An edge weighs the data behind its model times its share, and is left out without either. Its
        metrics are the means, by data, of those that all clients have.
        """
        models, replies = self.edge_models(counted), []
        figures = {
            client: figures_of(each.message)
            for model in models.values()
            for client, each in model.updates.items()
            if each.message
        }
        common = set.intersection(*map(set, figures.values())) if figures else set()
        for edge, model in models.items():
            members = list(model.updates)
            data = [self.data_of[client] for client in members]
            weight = sum(data) * share_of.get(edge, 1)
            if weight == 0:
                continue
            means = {
                name: float(np.average([figures[client][name] for client in members], weights=data))
                for name in sorted(common)
            }
            order = self.order_of[members[0]]
            content = RecordDict(
                {
                    _arrays_key(order): _record(model.weights),
                    "metrics": MetricRecord({**means, weight_key: weight}),
                }
            )
            replies.append(Message(content, reply_to=order))
        return replies


def as_sent(record: ArrayRecord, like: ModelWeights) -> ArrayRecord:
    """The record with the types of the arrays `like` it: Flower's means turn counters to fractions."""
    arrays = {}
    for name, array in record.items():
        values = array.numpy()
        dtype = like[name].dtype if name in like else values.dtype
        whole = dtype.kind in "iu" and values.dtype.kind == "f"
        arrays[name] = (np.rint(values) if whole else values).astype(dtype, copy=False)
    return _record(arrays)


def _sent(models: Mapping[str, EdgeModel], edge: str, like: ModelWeights) -> ModelWeights:
    return models[edge].weights if edge in models else like


def _record(arrays: ModelWeights) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(a)) for name, a in arrays.items()})


def _arrays_key(message: Message) -> str:
    return next(iter(message.content.array_records))


def _with_arrays(message: Message, arrays: ModelWeights) -> Message:
    content = RecordDict({**message.content, _arrays_key(message): _record(arrays)})
    return Message(content, message.metadata.dst_node_id, message.metadata.message_type)


def _array_bytes(content: RecordDict) -> int:
    """The bytes of all arrays in a message of Flower's."""
    records = content.array_records.values()
    return sum(len(array.data) for record in records for array in record.values())
