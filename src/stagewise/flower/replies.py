"""What came back from nodes, checked: an update counts only if it was asked for and can be used."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, Message

from stagewise.deploy.aggregation import fault
from stagewise.deploy.transport import Fate
from stagewise.errors import StagewiseError, one_line, shown

Arrays = dict[str, npt.NDArray[Any]]
"""A model: its arrays by name."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A reply that was asked for, or its absence."""

    fate: Fate
    reason: str = ""
    reply: Message | None = None
    arrays: Arrays = field(default_factory=dict)


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


def judge_update(reply: Message | None, like: Arrays, weight_key: str | None) -> Judged:
    """Whether a reply is an update of the model `like`; with `weight_key` it must weigh itself."""
    if reply is None:
        return Judged("lost", "no reply in time")
    if (reason := failure(reply)) is not None:
        return Judged("lost", reason)
    try:
        arrays = _update(reply, like)
        if weight_key is not None:
            _check_weight(reply, weight_key)
    except StagewiseError as error:
        return Judged("rejected", str(error))
    return Judged("counted", "", reply, arrays)


def judge_figures(reply: Message | None, weight_key: str) -> Judged:
    """Whether a reply is an evaluation that can be averaged."""
    if reply is None:
        return Judged("lost", "no reply in time")
    if (reason := failure(reply)) is not None:
        return Judged("lost", reason)
    try:
        _check_weight(reply, weight_key)
    except StagewiseError as error:
        return Judged("rejected", str(error))
    return Judged("counted", "", reply)


def all_alike(judged: Mapping[str, Judged]) -> dict[str, Judged]:
    """The same, where replies that name their records and metrics as few others do are rejected.

    Flower's strategies give up a round altogether in which two replies differ in this.
    """
    forms = {client: _form(each.reply) for client, each in judged.items() if each.reply}
    usual = Counter(forms.values()).most_common(1)[0][0] if forms else None
    odd = Judged("rejected", "records or metrics: must have the names that other clients give them")
    return {
        client: odd if client in forms and forms[client] != usual else each
        for client, each in judged.items()
    }


def arrays_of(record: ArrayRecord) -> Arrays:
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
    return {
        name: float(value)
        for record in reply.content.metric_records.values()
        for name, value in record.items()
        if not isinstance(value, list) and np.isfinite(value)
    }


def _update(reply: Message, like: Arrays) -> Arrays:
    records = list(reply.content.array_records.values())
    if len(records) != 1:
        raise StagewiseError(f"{len(records)} ArrayRecords: must be exactly 1")
    arrays = arrays_of(records[0])
    if reason := fault(arrays, like):
        raise StagewiseError(reason)
    return arrays


def _check_weight(reply: Message, key: str) -> None:
    records = list(reply.content.metric_records.values())
    if len(records) != 1:
        raise StagewiseError(f"{len(records)} MetricRecords: must be exactly 1")
    value = records[0].get(key)
    if not isinstance(value, int | float) or not np.isfinite(value) or value <= 0:
        raise StagewiseError(f"metric {key} = {shown(value)}: must be a finite number above 0")


def _form(reply: Message) -> tuple[object, ...]:
    metrics = sorted((name, *sorted(r)) for name, r in reply.content.metric_records.items())
    return (tuple(reply.content.array_records), *metrics)
