"""What came back from nodes, judged: an update counts only if it was asked for and can be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord

from stagewise.deploy.aggregation import model_fault, update_norm
from stagewise.deploy.exchange import JudgedReply
from stagewise.deploy.flower_api import fate_of
from stagewise.errors import StagewiseError, one_line, shown

if TYPE_CHECKING:
    from stagewise.model_weights import ModelWeights

T = TypeVar("T")

LOSS_BEFORE, LOSS_AFTER = "loss-before", "loss-after"
"""Metrics of an update, where a client has them: the losses of its first and of its last batch."""


@dataclass(frozen=True, eq=False)
class NodeReply(JudgedReply):
    """A node's reply to an order, or its absence; with the message if it counts."""

    message: Message | None = None


def asked_for(replies: Iterable[Message], nodes: Sequence[int], group: str) -> dict[int, Message]:
    """The first reply of every node to a message of `group`, in the order of `nodes`."""
    first: dict[int, Message] = {}
    for reply in replies:
        if reply.metadata.group_id == group:
            first.setdefault(reply.metadata.src_node_id, reply)
    return {node: first[node] for node in nodes if node in first}


def failure(reply: Message) -> str | None:
    """What the node says went wrong, or None."""
    if not reply.has_error():
        return None
    # Of a traceback the last line says what happened.
    lines = (reply.error.reason or "").strip().splitlines()
    return one_line(lines[-1], 200) if lines else f"error {reply.error.code}"


def judge(reply: Message | None, sent: ModelWeights | None, weight_key: str | None) -> NodeReply:
    """Whether a reply can be used: as an update of the model that was sent, or as an evaluation.

    With `weight_key` it must say by which number it is to be weighted.
    """
    if reply is None:
        return NodeReply("late", "no reply in time")
    if (reason := failure(reply)) is not None:
        return NodeReply(fate_of(reply.error), reason)
    try:
        weights = {} if sent is None else _update(reply, sent)
        if weight_key is not None:
            _check_weight(reply, weight_key)
    except StagewiseError as error:
        return NodeReply("rejected", str(error))
    figures = figures_of(reply)
    known = {
        "loss_before": figures.get(LOSS_BEFORE),
        "loss_after": figures.get(LOSS_AFTER),
        "update_norm": None if sent is None else update_norm(sent, weights),
    }
    return NodeReply("counted", "", weights, known, reply)


def all_alike(judged: Mapping[str, NodeReply]) -> dict[str, NodeReply]:
    """The same, where replies that name their records and metrics as few others do are rejected.

    Flower's strategies give up a round altogether in which two replies differ in this.
    """
    forms = {client: _form(each.message) for client, each in judged.items() if each.message}
    usual = Counter(forms.values()).most_common(1)[0][0] if forms else None
    rule = "records or metrics: must have the names that other clients give them"
    return {
        client: NodeReply("rejected", rule) if forms.get(client, usual) != usual else each
        for client, each in judged.items()
    }


def arrays_of(record: ArrayRecord) -> ModelWeights:
    """The arrays of a record; bytes that are no array are an error."""
    arrays = {}
    for name, array in record.items():
        try:
            arrays[name] = array.numpy()
        except (ValueError, TypeError, EOFError, OSError, MemoryError) as error:
            reason = one_line(str(error))
            raise StagewiseError(f"array {shown(name)}: must be readable: {reason}") from None
    return arrays


def figures_of(reply: Message) -> dict[str, float]:
    """The single finite numbers among a reply's metrics."""
    figures: dict[str, float] = {}
    for record in reply.content.metric_records.values():
        figures |= finite_numbers(record)
    return figures


def finite_numbers(metrics: MetricRecord) -> dict[str, float]:
    """The single finite numbers of a record."""
    return {
        name: float(value)
        for name, value in metrics.items()
        if not isinstance(value, list) and np.isfinite(value)
    }


def _update(reply: Message, like: ModelWeights) -> ModelWeights:
    arrays = arrays_of(_only(reply.content.array_records.values(), "ArrayRecords"))
    if reason := model_fault(arrays, like):
        raise StagewiseError(reason)
    return arrays


def _only(records: Collection[T], kind: str) -> T:
    if len(records) != 1:
        raise StagewiseError(f"{len(records)} {kind}: must be exactly 1")
    return next(iter(records))


def _check_weight(reply: Message, key: str) -> None:
    value = _only(reply.content.metric_records.values(), "MetricRecords").get(key)
    if not isinstance(value, int | float) or not np.isfinite(value) or value <= 0:
        raise StagewiseError(f"metric {key} = {shown(value)}: must be a finite number above 0")


def _form(reply: Message) -> tuple[object, ...]:
    metrics = sorted((name, *sorted(r)) for name, r in reply.content.metric_records.items())
    return (tuple(reply.content.array_records), *metrics)
