"""What goes over the wire: a model as one blob beside a small text, both checked on receipt.

Flower fetches every record and every array of a message by requests of its own, so that a model of
many layers would cost hundreds of them; text and model are one record here, the model in the form of
safetensors, in which nothing can be code. All clients of an edge get the same order, which is sent once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import numpy as np
from flwr.app import ConfigRecord, RecordDict
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stagewise.deploy.exchange import ClientReport, ClientWeight, Count, Seconds
from stagewise.errors import StagewiseError, one_line
from stagewise.files import json_decoder
from stagewise.robust.labels import OutputBias
from stagewise.robust.norms import NormLimits
from stagewise.robust.rules import Aggregator

if TYPE_CHECKING:
    from stagewise.model_weights import ModelWeights

BODY, MODEL, TEXT = "body", "model", "json"
TRAIN = "train"
LONGEST_REASON = 500


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The text of a message, as JSON."""


class EdgeNote(_Body, frozen=True):
    """What the cloud knows of an edge at any time: the clients that are in touch with it."""

    clients: tuple[str, ...] = ()


class ClientOrder(_Body, frozen=True):
    """Train this model for one edge round; the same for all clients of an edge."""

    round: Count
    edge_round: Count
    edge: str


class ClientReply(_Body, frozen=True):
    """The reply to `order`, with the client's model; without one where `failure` says why."""

    client: str
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
    client_weights: dict[str, ClientWeight] = {}
    """What the samples of a client are multiplied by in Eq. 2; 1 for whoever is not named."""
    aggregator: Aggregator = "mean"
    limits: NormLimits | None = None
    """How large the updates of its clients may be; None: as those beside them."""
    offenders: frozenset[str] = frozenset()
    """Clients with an update that was rejected by what it did to the biases of the outputs."""
    outputs: OutputBias | None = None
    """What clients' updates may do to the biases of the outputs; None where that is not known."""
    held: dict[str, tuple[bool, ...]] = {}
    """By client, which labels it has samples of; empty without `outputs`."""


class EdgeReply(_Body, frozen=True):
    """An edge's round, with its model where `data` is above 0."""

    round: Count
    edge: str
    data: Count
    reports: tuple[ClientReport, ...]


Body = TypeVar("Body", bound=_Body)


def pack(body: _Body, weights: ModelWeights | None = None) -> RecordDict:
    """A message's content."""
    record = ConfigRecord({TEXT: encoded(body)})
    if weights is not None:
        record[MODEL] = save(
            {name: np.asarray(array, order="C") for name, array in weights.items()}
        )
    return RecordDict({BODY: record})


def encoded(body: _Body) -> str:
    """The text of a message, or of what a node says of itself."""
    return msgspec.json.encode(body).decode()


def read(content: RecordDict, kind: type[Body]) -> Body:
    """The text of a message, which must be a `kind`."""
    try:
        return decoded(content.config_records[BODY][TEXT], kind)
    except KeyError as error:
        raise StagewiseError(f"message: must be a {kind.__name__}: {error}") from None


def decoded(text: Any, kind: type[Body]) -> Body:
    """A text that must be a `kind`."""
    try:
        return json_decoder(kind).decode(text)
    except (TypeError, msgspec.MsgspecError, RecursionError) as error:
        reason = one_line(str(error))[:LONGEST_REASON]
        raise StagewiseError(f"message: must be a {kind.__name__}: {reason}") from None


def model_of(content: RecordDict) -> ModelWeights | None:
    """The model in a message, as it came; None where there is none."""
    blob = _blob(content)
    if blob is None:
        return None
    try:
        weights: ModelWeights = load(blob)
    except (SafetensorError, ValueError, TypeError) as error:
        raise StagewiseError(f"model: cannot be read: {one_line(str(error))}") from None
    return weights


def model_bytes(content: RecordDict) -> int:
    """The bytes of the model in a message."""
    blob = _blob(content)
    return len(blob) if isinstance(blob, bytes) else 0


def _blob(content: RecordDict) -> Any:
    record = content.config_records.get(BODY)
    return None if record is None else record.get(MODEL)
