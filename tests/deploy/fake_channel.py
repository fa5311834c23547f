"""Nodes in this process behind a message channel: Flower apps without Flower's processes."""

from flwr.app import Context, Message, Metadata, RecordDict
from flwr.app.message import make_message

from stagewise.deploy.channel import IncomingReply


class FakeChannel:
    """Delivers each message to the app of its receiver; `delay` says how long each reply takes.

    Receivers in `silent` never answer, those in `gone` are not connected, those in `twice` answer twice.
    `notes` say what nodes say of themselves.
    """

    def __init__(self, apps, clock, delay=None):
        self.apps, self.clock = dict(apps), clock
        self.delay = delay or (lambda name, content: 0.5)
        self.silent, self.gone, self.twice = set(), set(), set()
        self.notes = {}
        self.due, self.ready = [], []
        self.sent = 0

    def now(self):
        return self.clock()

    def wait(self, seconds):
        self.clock.wait(seconds)

    def present(self):
        notes = {name: self.notes.get(name, str)() for name in self.apps}
        return {name: note for name, note in notes.items() if name not in self.gone}

    def send(self, messages, expire_s):
        message_ids = []
        for message in messages:
            if message.receiver in self.gone:
                message_ids.append(None)
                continue
            self.sent += 1
            message_id = f"message {self.sent}"
            message_ids.append(message_id)
            if message.receiver in self.silent:
                continue
            at = self.clock() + self.delay(message.receiver, message.content)
            self.due += [(at, message_id, message)] * (2 if message.receiver in self.twice else 1)
        return message_ids

    def receive(self):
        now = self.clock()
        reached = [entry for entry in self.due if entry[0] <= now]
        self.due = [entry for entry in self.due if entry[0] > now]
        for _, message_id, message in reached:
            reply = self.reply(message_id, message)
            self.ready.append((self.clock(), reply))
            self.clock.now = now  # receivers work side by side, not one after the other
        arrived = [reply for at, reply in self.ready if at <= now]
        self.ready = [entry for entry in self.ready if entry[0] > now]
        return arrived

    def reply(self, message_id, message):
        try:
            reply = self.apps[message.receiver](_message(message_id, message), _context())
        except Exception as error:
            return IncomingReply(message_id, None, "rejected", str(error))
        return IncomingReply(message_id, reply.content)


def _message(message_id, message):
    metadata = Metadata(
        run_id=1,
        message_id=message_id,
        src_node_id=1,
        dst_node_id=2,
        reply_to_message_id="",
        group_id="",
        created_at=1.8e9,
        ttl=1e9,
        message_type=message.kind,
    )
    return make_message(metadata=metadata, content=message.content)


def _context():
    return Context(
        run_id=1, node_id=2, node_config={}, state=RecordDict(), run_config={}, series_id=1
    )


def changed(reply, content):
    """The reply with other content."""
    return Message(content, reply_to=reply)
