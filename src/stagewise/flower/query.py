"""The roll call "which client are you?" and its answer, for a ClientApp. Imports Flower and little else.

A node's configuration is not visible to the ServerApp, so the strategy asks every node in each round.
"""

from collections.abc import Sequence

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from stagewise.errors import StagewiseError, shown

ACTION = "stagewise"
MESSAGE_TYPE = f"query.{ACTION}"
RECORD = "stagewise"
CLIENT, PARTITION, AVAILABLE, ROUND = "client-id", "partition-id", "available", "round"


def answer_query(
    message: Message,
    context: Context,
    *,
    client_id: str | None = None,
    available: bool = True,
) -> Message:
    """The answer: who this node is, and whether it is ready to train in this round.

    Without `client_id` the node's configuration says it: `client-id`, the client's id in the
    scenario, or else `partition-id`, its number there, which Flower's simulation sets.
    """
    answer = ConfigRecord({AVAILABLE: available})
    config = context.node_config
    if client_id is None and CLIENT in config:
        client_id = str(config[CLIENT])
    if client_id is not None:
        answer[CLIENT] = client_id
    elif PARTITION in config:
        answer[PARTITION] = int(config[PARTITION])
    else:
        raise StagewiseError(
            f"node config = {shown(dict(config))}: must have {CLIENT} or {PARTITION}, "
            "or answer_query be given a client_id"
        )
    return Message(RecordDict({RECORD: answer}), reply_to=message)


def answer_query_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """A mod that answers the query itself, for a ClientApp made with a `client_fn`."""
    if message.metadata.message_type == MESSAGE_TYPE:
        return answer_query(message, context)
    return call_next(message, context)


def round_of_query(message: Message) -> int:
    """The Flower round, from 1, that a query asks about."""
    return int(str(message.content.config_records[RECORD][ROUND]))


def roll_call_message(node: int, server_round: int, answer_s: float) -> Message:
    """The roll call to one node; it is void after `answer_s` seconds."""
    content = RecordDict({RECORD: ConfigRecord({ROUND: server_round})})
    return Message(content, node, MESSAGE_TYPE, ttl=answer_s, group_id=str(server_round))


def client_of(answer: Message, client_ids: Sequence[str]) -> str | None:
    """The client that answered, or None if it is not ready to train; a useless answer is an error."""
    record = answer.content.config_records.get(RECORD)
    if record is None:
        raise StagewiseError(f"its answer has no record {RECORD!r}")
    name, number = record.get(CLIENT), record.get(PARTITION)
    if name is None:
        if not isinstance(number, int) or not 0 <= number < len(client_ids):
            raise StagewiseError(
                f"{PARTITION} = {shown(number)}: must be a whole number of at least 0 and below "
                f"{len(client_ids)}, the number of clients"
            )
        name = client_ids[number]
    if name not in client_ids:
        raise StagewiseError(f"{CLIENT} = {shown(name)}: must be a client of the scenario")
    return str(name) if record.get(AVAILABLE, True) is True else None
