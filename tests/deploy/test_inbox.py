"""Replies are fetched beside the caller's work: one that does not come keeps nobody waiting."""

import threading
import time
from typing import ClassVar

import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")

import httpx
import numpy as np
from deploy_cases import wait_until
from flwr.app import Error, Message, Metadata
from flwr.app.message import make_message, remove_content_from_message
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree

from stagewise.deploy import inbox, superlink
from stagewise.deploy.channel import OutgoingMessage
from stagewise.deploy.edge_rounds import train_edges
from stagewise.deploy.flower_api import ReplySource
from stagewise.deploy.flower_api.requests import Headers
from stagewise.deploy.inbox import Inbox
from stagewise.deploy.messages import (
    ClientOrder,
    ClientReply,
    EdgeNote,
    EdgeOrder,
    model_of,
    pack,
    read,
)
from stagewise.deploy.superlink import SuperLink
from stagewise.errors import StagewiseError

PRESENT = pack(EdgeNote(clients=("c",)))


def reply(message_id: str, content=PRESENT, error=None) -> Message:
    metadata = Metadata(
        run_id=1,
        message_id="",
        src_node_id=2,
        dst_node_id=1,
        reply_to_message_id=message_id,
        group_id="",
        created_at=1.8e9,
        ttl=100.0,
        message_type="train",
    )
    if error is None:
        message = make_message(metadata=metadata, content=content)
    else:
        message = make_message(metadata=metadata, error=error)
    message.metadata.__dict__["_message_id"] = message.object_id
    return message


class Source:
    """A SuperLink that gives each reply out once; objects in `withheld` are not uploaded yet."""

    def __init__(self):
        self.replies, self.objects = {}, {}
        self.withheld, self.forgotten, self.confirmed = set(), set(), []
        self.block, self.failures, self.refusals = threading.Event(), [], 0
        self.block.set()

    def put(self, message: Message, uploaded: bool = True) -> None:
        objects = get_all_nested_objects(message)
        self.objects.update({number: each.deflate() for number, each in objects.items()})
        if not uploaded:
            self.withheld.update(objects.keys() - {message.object_id})
        self.replies[message.metadata.reply_to_message_id] = message

    def PullMessages(self, request):
        self.block.wait()
        if self.failures:
            raise self.failures.pop()
        found = [self.replies.pop(i) for i in request.message_ids if i in self.replies]
        return PullAppMessagesResponse(
            messages_list=[message_to_proto(remove_content_from_message(m)) for m in found],
            message_object_trees=[get_object_tree(message) for message in found],
        )

    def PullObject(self, request):
        number = request.object_id
        if number in self.forgotten:
            return PullObjectResponse(object_found=False, object_available=False)
        if number in self.withheld:
            self.refusals += 1
            return PullObjectResponse(object_found=True, object_available=False)
        content = self.objects[number]
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, request):
        self.confirmed.append(request.message_object_id)
        return ConfirmMessageReceivedResponse()


@pytest.fixture
def source(monkeypatch):
    monkeypatch.setattr(inbox, "PAUSE_S", 0.01)
    return Source()


@pytest.fixture
def box(source):
    box = Inbox(ReplySource(source, 1, Headers()))
    yield box
    source.block.set()
    box.close()
    assert not box._thread.is_alive()


def until(box: Inbox, count: int):
    """The next `count` replies by the messages they reply to."""
    found = {}

    def complete():
        found.update({reply.message_id: reply for reply in box.drain()})
        return len(found) >= count

    wait_until(complete)
    return found


def test_answers_come_out_as_they_went_in_and_once(source, box):
    box.expect(["a", "b"])
    source.put(reply("a"))
    source.put(reply("unknown"))
    source.put(reply("b", error=Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, "out of memory")))
    found = until(box, 2)
    assert read(found["a"].content, EdgeNote).clients == ("c",)
    assert (found["b"].fate, found["b"].reason) == ("rejected", "out of memory")
    assert len(source.confirmed) == 2
    source.put(reply("a"))
    box.expect(["c"])
    source.put(reply("c", error=Error(ErrorCode.MESSAGE_UNAVAILABLE, "expired")))
    assert {message: r.fate for message, r in until(box, 1).items()} == {"c": "lost"}


def test_an_upload_that_stands_still_keeps_nobody_waiting(source, box):
    box.expect(["dead", "slow", "good"])
    source.put(reply("dead"), uploaded=False)
    source.put(reply("good", pack(EdgeNote(clients=("good",)))))
    assert set(until(box, 1)) == {"good"}
    source.forgotten |= source.withheld
    assert until(box, 1)["dead"].fate == "lost"
    source.put(reply("slow", pack(EdgeNote(clients=("slow",)))), uploaded=False)
    asked = source.refusals
    wait_until(lambda: source.refusals > asked + 1)
    assert box.drain() == []
    source.withheld.clear()
    assert read(until(box, 1)["slow"].content, EdgeNote).clients == ("slow",)


def test_what_cannot_be_read_or_fetched_is_one_answer_without_content(source, box):
    source.put(reply("broken"))
    broken = source.replies["broken"].object_id
    source.objects[broken] = b"no object"
    source.put(reply("missing", pack(EdgeNote(clients=("x",)))))
    del source.objects[source.replies["missing"].object_id]
    box.expect(["broken", "missing", "good"])
    source.put(reply("good", pack(EdgeNote(clients=("good",)))))
    found = until(box, 3)
    assert found["good"].content is not None
    assert (found["broken"].content, found["broken"].fate) == (None, "rejected")
    assert (found["missing"].content, found["missing"].fate) == (None, "lost")
    assert "KeyError" in found["missing"].reason


def test_a_failure_that_passes_is_none(source, box):
    source.failures = [httpx.ReadTimeout("slow"), ValueError("Invalid protobuf")]
    source.put(reply("a"))
    box.expect(["a"])
    assert until(box, 1)["a"].content is not None


@pytest.mark.parametrize("final", [True, False])
def test_a_failure_that_stays_is_reported(source, box, monkeypatch, final):
    response = httpx.Response(403 if final else 502, request=httpx.Request("POST", "https://x"))
    refused = httpx.HTTPStatusError("refused", request=response.request, response=response)
    if not final:
        monkeypatch.setattr(inbox, "RETRY_S", 0.1)
    source.failures = [refused] * (1 if final else 10_000)
    box.expect(["a"])
    with pytest.raises(httpx.HTTPStatusError, match="refused"):
        until(box, 1)
    assert box.give_up() == ["a"]


class Channel:
    """Clients that answer at once, through an inbox."""

    def __init__(self, source, box):
        self.source, self.box, self.count, self.stuck = source, box, 0, set()

    def send(self, messages: list[OutgoingMessage], expire_s: float) -> list[str]:
        numbers = []
        for message in messages:
            self.count += 1
            numbers.append(f"{self.count}")
            order = read(message.content, ClientOrder)
            update = ClientReply(client=message.receiver, order=order, train_s=0.0)
            # Objects are known by their content: no two clients may send the same.
            model = {name: self.count * array for name, array in model_of(message.content).items()}
            content = pack(update, model)
            self.source.put(
                reply(numbers[-1], content), uploaded=message.receiver not in self.stuck
            )
        self.box.expect(numbers)
        return numbers

    def receive(self):
        return self.box.drain()

    def present(self):
        return {"a": "", "b": ""}

    def wait(self, seconds):
        self.box.wait(seconds)

    now = staticmethod(time.monotonic)


def edge_order(deadline_s: float) -> EdgeOrder:
    return EdgeOrder(
        round=0, edge="e", clients={"a": 1, "b": 1}, edge_rounds=1, deadline_s=deadline_s
    )


def weights():
    return {"w": np.ones(2, dtype=np.float32)}


def test_a_round_ends_at_its_deadline_while_a_pull_blocks(source, box):
    channel = Channel(source, box)
    source.block.clear()
    (result,) = train_edges(channel, [edge_order(0.5)], weights())
    assert [report.fate for report in result.clients] == ["late", "late"]
    assert result.report.data == 0
    source.block.set()
    until(box, 2)  # they come in the end, and nobody counts them
    (again,) = train_edges(channel, [edge_order(60.0)], weights())
    assert [report.fate for report in again.clients] == ["counted", "counted"]


@pytest.mark.fault(
    "A client dies in the middle of its upload", "its own update is lost, and no other"
)
def test_a_sender_that_died_during_its_upload_costs_only_its_own_update(source, box):
    channel = Channel(source, box)
    channel.stuck.add("a")
    (result,) = train_edges(channel, [edge_order(5.0)], weights())
    assert {report.client: report.fate for report in result.clients} == {
        "a": "late",
        "b": "counted",
    }


def status_error(status: int) -> httpx.HTTPStatusError:
    response = httpx.Response(status, request=httpx.Request("POST", "https://x"))
    return httpx.HTTPStatusError(f"status {status}", request=response.request, response=response)


class Run:
    """A run at a SuperLink that may lose it; `script` is what happens to the next requests."""

    script: ClassVar[list] = []
    begun = 0

    def __init__(self, address, authority, secret):
        Run.begun += 1
        self._fail()
        self.number, self.closed = Run.begun, False
        self.replies = ReplySource(Source(), 1, Headers())

    def _fail(self):
        if Run.script:
            error = Run.script.pop(0)
            if error is not None:
                raise error

    def present(self):
        self._fail()
        return {"c": (3, f"run {self.number}")}

    def push(self, messages, ttl_s):
        self._fail()
        return [f"message of run {self.number}" for _ in messages]

    def close(self):
        self.closed = True


@pytest.fixture
def link(monkeypatch, tmp_path):
    monkeypatch.setattr(superlink, "ServerRun", Run)
    monkeypatch.setattr(superlink, "_PAUSE_S", 0.01)
    monkeypatch.setattr(Run, "script", [])
    monkeypatch.setattr(Run, "begun", 0)
    for name in ("ca.pem", "secret"):
        (tmp_path / name).write_bytes(b"")
    link = SuperLink("10.0.0.1:9092", tmp_path / "ca.pem", tmp_path / "secret")
    yield link
    link.close()


@pytest.mark.fault(
    "The cloud's SuperLink forgets the run: it was killed, or the cloud was paused for too long",
    "another run is begun there, and the same rounds go on",
)
@pytest.mark.parametrize(
    "error", [status_error(401), status_error(404), httpx.ConnectError("refused"), OSError("reset")]
)
def test_a_run_that_is_lost_is_begun_again_and_what_it_asked_for_is_lost(link, error):
    order = OutgoingMessage("c", "train", PRESENT)
    assert link.send([order], 10.0) == ["message of run 1"]
    old = link._run
    # The SuperLink does not answer at first: it is just being started again.
    Run.script = [error, httpx.ConnectError("refused"), httpx.ConnectError("refused")]
    assert link.present() == {"c": "run 4"}
    assert old.closed
    (lost,) = link.receive()
    assert (lost.message_id, lost.content, lost.fate) == ("message of run 1", None, "lost")
    assert "the SuperLink lost the run" in lost.reason
    assert link.send([order, OutgoingMessage("x", "train", PRESENT)], 10.0) == [
        "message of run 4",
        None,
    ]
    assert link.receive() == []


def test_messages_that_are_too_large_are_an_error_of_one_line(link):
    Run.script = [None, status_error(413)]
    with pytest.raises(StagewiseError, match=r"10\.0\.0\.1:9092: the SuperLink: status 413"):
        link.send([OutgoingMessage("c", "train", PRESENT)], 10.0)
    assert Run.begun == 1


def test_a_superlink_that_stays_away_is_an_error_of_one_line(link, monkeypatch):
    monkeypatch.setattr(superlink, "RETRY_S", 0.1)
    Run.script = [httpx.ConnectError("refused")] * 10_000
    with pytest.raises(StagewiseError, match=r"10\.0\.0\.1:9092: the SuperLink: refused"):
        link.present()
