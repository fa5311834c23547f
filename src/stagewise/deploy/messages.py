"""What goes over the wire: a model as one blob beside a small text, both checked on receipt.

Flower fetches every array of a message by requests of its own, so that a model of many layers would
cost hundreds of them; in the form of safetensors it is one array, and nothing in it can be code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stagewise.deploy.exchange import ClientReport, Count, Seconds
from stagewise.errors import StagewiseError, one_line
from stagewise.robust.norms import Limits
from stagewise.robust.rules import Aggregator

if TYPE_CHECKING:
    from stagewise.model_weights import ModelWeights

MODEL, TEXT = "model", "text"
SAFETENSORS = "safetensors"
QUERY, TRAIN = "query", "train"
LONGEST_REASON = 500


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The text of a message, as JSON."""


class RollCallRequest(_Body, frozen=True):
    """Who are you? An edge asks its own clients, and answers within `deadline_s`."""

    deadline_s: Seconds


class RollCallReply(_Body, frozen=True):
    """Who answers; an edge says which of its clients did, and how many seconds each took."""

    id: str
    clients: dict[str, Seconds] = {}


class ClientOrder(_Body, frozen=True):
    """Train this model for one edge round."""

    round: Count
    edge_round: Count
    edge: str
    client: str


class ClientReply(_Body, frozen=True):
    """The reply to `order`, with the client's model; without one where `failure` says why."""

    order: ClientOrder
    train_s: Seconds
    loss_before: float | None = None
    """Of its first batch; a number that is not finite is sent as none."""
    loss_after: float | None = None
    """Of its last batch."""
    failure: str = ""


class EdgeOrder(_Body, frozen=True):
    """A round for an edge: its clients with their samples, in a fixed order."""

    round: Count
    edge: str
    clients: dict[str, Annotated[int, msgspec.Meta(ge=1, le=2**53)]]
    edge_rounds: Count
    deadline_s: Seconds
    """From the moment the edge has it."""
    aggregator: Aggregator = "mean"
    limits: Limits | None = None
    """How large the updates of its clients may be; None: as those beside them."""
    repeating: tuple[str, ...] = ()
    """Clients whose last update was beyond the lower limit."""


class EdgeReply(_Body, frozen=True):
    """An edge's round, with its model where `data` is above 0."""

    round: Count
    edge: str
    data: Count
    reports: tuple[ClientReport, ...]


Body = TypeVar("Body", bound=_Body)


def pack(body: _Body, weights: ModelWeights | None = None) -> RecordDict:
    """A message's content."""
    records = RecordDict({TEXT: ConfigRecord({"json": msgspec.json.encode(body).decode()})})
    if weights is not None:
        blob = save({name: np.asarray(array, order="C") for name, array in weights.items()})
        records[MODEL] = ArrayRecord({MODEL: Array("uint8", (len(blob),), SAFETENSORS, blob)})
    return records


def read(content: RecordDict, kind: type[Body]) -> Body:
    """The text of a message, which must be a `kind`."""
    try:
        text: Any = content.config_records[TEXT]["json"]
        return msgspec.json.decode(text, type=kind)
    except (KeyError, TypeError, msgspec.MsgspecError, RecursionError) as error:
        reason = one_line(str(error))[:LONGEST_REASON]
        raise StagewiseError(f"message: must be a {kind.__name__}: {reason}") from None


def model_of(content: RecordDict) -> ModelWeights | None:
    """The model in a message, as it came; None where there is none."""
    if MODEL not in content.array_records:
        return None
    try:
        weights: ModelWeights = load(content.array_records[MODEL][MODEL].data)
    except (KeyError, SafetensorError, ValueError, TypeError) as error:
        raise StagewiseError(f"model: cannot be read: {one_line(str(error))}") from None
    return weights


def model_bytes(content: RecordDict) -> int:
    """The bytes of the model in a message."""
    return sum(
        len(array.data) for record in content.array_records.values() for array in record.values()
    )
