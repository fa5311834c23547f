"""Nodes in this process behind the post's interface: Flower apps without Flower's processes."""

from flwr.app import Context, Message, Metadata, RecordDict
from flwr.app.message import make_message

from stagewise.deploy.edge_rounds import Answer


class FakePost:
    """Delivers each letter to the app of its receiver; `delay` says how long each answer takes.

    Receivers in `silent` never answer, those in `gone` are not connected, those in `twice` answer twice.
    """

    def __init__(self, apps, clock, delay=None):
        self.apps, self.clock = dict(apps), clock
        self.delay = delay or (lambda name, content: 0.5)
        self.silent, self.gone, self.twice = set(), set(), set()
        self.due, self.ready = [], []
        self.sent = 0

    def names(self):
        return tuple(name for name in self.apps if name not in self.gone)

    def connected(self, name):
        return name in self.names()

    def send(self, letters, expire_s):
        numbers = []
        for letter in letters:
            if not self.connected(letter.to):
                numbers.append("")
                continue
            self.sent += 1
            number = f"letter {self.sent}"
            numbers.append(number)
            if letter.to in self.silent:
                continue
            at = self.clock() + self.delay(letter.to, letter.content)
            self.due += [(at, number, letter)] * (2 if letter.to in self.twice else 1)
        return numbers

    def collect(self):
        now = self.clock()
        reached = [entry for entry in self.due if entry[0] <= now]
        self.due = [entry for entry in self.due if entry[0] > now]
        for _, number, letter in reached:
            answer = self.answer(number, letter)
            self.ready.append((self.clock(), answer))
            self.clock.now = now  # receivers work side by side, not one after the other
        arrived = [answer for at, answer in self.ready if at <= now]
        self.ready = [entry for entry in self.ready if entry[0] > now]
        return arrived

    def answer(self, number, letter):
        try:
            reply = self.apps[letter.to](_message(number, letter), _context())
        except Exception as error:
            return Answer(number, None, "rejected", str(error))
        return Answer(number, reply.content)


def _message(number, letter):
    metadata = Metadata(
        run_id=1,
        message_id=number,
        src_node_id=1,
        dst_node_id=2,
        reply_to_message_id="",
        group_id="",
        created_at=1.8e9,
        ttl=1e9,
        message_type=letter.kind,
    )
    return make_message(metadata=metadata, content=letter.content)


def _context():
    return Context(
        run_id=1, node_id=2, node_config={}, state=RecordDict(), run_config={}, series_id=1
    )


def changed(reply, content):
    """The reply with other content."""
    return Message(content, reply_to=reply)
