"""What goes over the wire comes out as it went in, or is refused in a sentence."""

import json

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")

from deploy_cases import TASK, small_system
from flwr.app import ConfigRecord, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stagewise.deploy.messages import (
    ClientOrder,
    ClientReply,
    EdgeNote,
    model_bytes,
    model_of,
    pack,
    read,
)
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError

ROUND_0 = {"round": 0, "edge_round": 0, "edge": "e"}
ORDER = ClientOrder(round=2, edge_round=1, edge="e")
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
arrays = st.sampled_from([np.float32, np.float64, np.int64]).flatmap(
    lambda kind: hnp.arrays(kind, shapes)
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=20), arrays, min_size=1, max_size=4))
def test_models_survive(weights):
    weights = {name: array for name, array in weights.items() if name != "__metadata__"}
    try:
        content = pack(ORDER, weights)
    except UnicodeEncodeError:  # names of a model are valid Unicode
        return
    again = model_of(content)
    assert again.keys() == weights.keys()
    for name, array in weights.items():
        assert again[name].shape == array.shape
        assert again[name].dtype == array.dtype
        np.testing.assert_array_equal(again[name], array)
    assert model_bytes(content) >= sum(array.nbytes for array in weights.values())
    assert read(content, ClientOrder) == ORDER


def test_arrays_in_any_order_of_memory_survive():
    array = np.arange(12.0).reshape(3, 4)
    again = model_of(pack(ORDER, {"t": array.T, "every second": array[:, ::2]}))
    np.testing.assert_array_equal(again["t"], array.T)
    np.testing.assert_array_equal(again["every second"], array[:, ::2])


def text(content):
    return RecordDict({"body": ConfigRecord({"json": content})})


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        text("no JSON"),
        text(b"\xff\xfe"),
        text("[]"),
        text(json.dumps({"client": "c", "order": {**ROUND_0, "round": -1}, "train_s": 1})),
        text(json.dumps({"client": "c", "order": {**ROUND_0, "round": 2**53 + 1}, "train_s": 1})),
        text(json.dumps({"order": ROUND_0, "train_s": 1})),
        text('{"client": "c", "order": null, "train_s": 1}'),
        text('{"id": "c", "kind": "client"}'),
        text("[" * 100_000),
    ],
)
def test_other_texts_are_refused(content):
    with pytest.raises(StagewiseError, match="message: must be a ClientReply") as caught:
        read(content, ClientReply)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("blob", [b"", b"\x00" * 8, b"\xff" * 100, b"\x80\x04K\x01."])
def test_other_models_are_refused(blob):
    content = pack(ORDER)
    content["body"]["model"] = blob
    with pytest.raises(StagewiseError, match="model: cannot be read"):
        model_of(content)
    content["body"]["model"] = "no bytes"
    with pytest.raises(StagewiseError, match="model: cannot be read"):
        model_of(content)
    assert model_of(pack(EdgeNote())) is None
    assert model_of(RecordDict()) is None


def test_a_message_is_one_record():
    """Flower fetches each by requests of its own: what goes to all clients of an edge is the same."""
    content = pack(ORDER, {"w": np.ones(3)})
    assert list(content) == ["body"]


def test_the_task_file(tmp_path):
    path = tmp_path / "task.json"
    TASK.save(path)
    assert TaskFile.load(path) == TASK
    task = TASK.task(small_system())
    assert (task.model, task.learning_rate, task.seed) == ("mlp", 0.1, 3)
    path.write_text('{"dataset": "digits", "model": "mlp"}')
    with pytest.raises(StagewiseError, match="learning_rate"):
        TaskFile.load(path)
