"""A grid in memory: every node is a function from a message to its reply, or to None for silence."""

import copy
from collections.abc import Callable, Iterable
from itertools import count

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.serverapp import Grid

Node = Callable[[Message], Message | None]


class FakeGrid(Grid):
    """Delivers copies, and keeps what was sent; `extra` replies are slipped in among the others."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.nodes = nodes
        self.sent: list[Message] = []
        self.extra: list[Callable[[list[Message]], list[Message]]] = []
        self._ids = count(1)
        self._replies: dict[str, Message] = {}

    def set_run(self, run) -> None: ...

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            name = f"m{next(self._ids)}"
            message.metadata.__dict__["_message_id"] = name
            self.sent.append(message)
            ids.append(name)
            node = self.nodes.get(message.metadata.dst_node_id)
            try:
                reply = None if node is None else node(copy.deepcopy(message))
            except Exception as error:
                reason = f"Traceback:\n  somewhere\n{type(error).__name__}: {error}"
                reply = Message(Error(2, reason), reply_to=message)
            if reply is not None:
                self._replies[name] = copy.deepcopy(reply)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(name) for name in message_ids if name in self._replies]

    def send_and_receive(self, messages, *, timeout=None) -> list[Message]:
        """Replies come in the reverse order, since no order is promised."""
        assert timeout is not None and timeout > 0
        replies = list(self.pull_messages(list(self.push_messages(list(messages)))))[::-1]
        for make in self.extra:
            replies += make(replies)
        return replies

    def sent_of(self, kind: str) -> list[Message]:
        return [message for message in self.sent if message.metadata.message_type == kind]


def context_of(node_config: dict, run_config: dict | None = None, node: int = 0) -> Context:
    return Context(
        run_id=1,
        node_id=node,
        node_config=dict(node_config),
        state=RecordDict(),
        run_config={} if run_config is None else dict(run_config),
    )


def reply_with(message: Message, **records) -> Message:
    return Message(RecordDict(records), reply_to=message)


def config_record(**values) -> ConfigRecord:
    return ConfigRecord({name.replace("_", "-"): value for name, value in values.items()})
