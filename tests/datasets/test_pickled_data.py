"""Pickles are read as data: the same as `pickle` gives, and nothing is ever called."""

import collections
import os
import pickle
import pickletools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import python2_pickle, random_split

from stagewise.datasets.pickled import read_pickled
from stagewise.errors import StagewiseError

IMAGES, LABELS = random_split(0, 3, (3, 4, 4), 10)
GOOD = python2_pickle(IMAGES, LABELS)


def test_a_batch_of_python_2_as_the_pickle_module_reads_it():
    expected = pickle.loads(GOOD, encoding="latin-1")
    found = read_pickled(GOOD, "batch")
    assert found.keys() == expected.keys()
    assert found["labels"] == expected["labels"] == LABELS.tolist()
    assert found["batch_label"] == expected["batch_label"]
    np.testing.assert_array_equal(found["data"], expected["data"])
    np.testing.assert_array_equal(found["data"], IMAGES.reshape(3, -1))
    assert found["data"].dtype == np.uint8


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("key", [str, str.encode])
@pytest.mark.parametrize("order", ["C", "F"])
def test_batches_that_python_3_has_written_again(protocol, key, order):
    array = np.asarray(IMAGES.reshape(3, -1), order=order)
    record = {key("labels"): [3, 500, 70_000, 2**40], key("data"): array, key("more"): None}
    found = read_pickled(pickle.dumps(record, protocol), "batch")
    assert found["labels"] == [3, 500, 70_000, 2**40]
    np.testing.assert_array_equal(found["data"], array)


class Touch:
    """Makes a folder when it is unpickled as usual."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_does_nothing(tmp_path, protocol):
    folder = tmp_path / "made"
    target = str(folder)
    for record in (Touch(target), {"data": Touch(target)}, {"labels": [Touch(target)]}):
        content = pickle.dumps(record, protocol)
        with pytest.raises(StagewiseError, match=r"batch: pickle names '(posix|nt) mkdir'"):
            read_pickled(content, "batch")
    assert not folder.exists()
    pickle.loads(content)
    assert folder.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a valid pickle"),
        (b"hello", "not a valid pickle"),
        (b"\x80\x02.", "not a valid pickle"),
        (b"\x80\x02K\x01.", "must be a pickled dictionary"),
        (b"\x80\x02}K\x01K\x02s.", "str must be|where str"),
        (b"cbuiltins\neval\n.", "pickle names 'builtins eval'"),
        (b"(S'x'\nibuiltins\neval\n.", "pickle instruction INST"),
        (b"(cnumpy\nndarray\no.", "pickle instruction OBJ"),
        (b"cnumpy\nndarray\n)\x81.", "pickle instruction NEWOBJ"),
        (b"\x82\x01.", "pickle instruction EXT1"),
        (b"P1\n.", "pickle instruction PERSID"),
        (b"}U\x01acnumpy\nndarray\nJ\xff\xff\xff\x7f\x85Rs.", "call of numpy ndarray"),
        (b"}r\xff\xff\xff\x7f.", None),  # a memo of two thousand million places
        (b"}q\x01U\x01ah\x01s.", "nested too deeply"),  # a dictionary that holds itself
        (b"\x80\x02}(U\x01au.", "not a valid pickle"),
        (b"\x80\x02}a.", "not a valid pickle"),
        (b"\x80\x02e.", "not a valid pickle"),
        (b"h\x01.", "not a valid pickle"),
        (b"\x80\x02}}.", "not a valid pickle"),
        (b"\x80\x02}(.", "not a valid pickle"),
        (b"(U\x01aK\x02d.", "not a valid pickle"),
        (b"cnumpy\ndtype\n}U\x01aK\x01sb.", "not a valid pickle"),  # to change a class of ours
        (b"}" + b")" + b"\x85" * 500_000 + b"K\x01s.", "where str"),  # its hash ends the process
    ],
)
def test_what_no_batch_needs(content, message):
    if message is None:
        assert read_pickled(content, "batch") == {}
        return
    with pytest.raises(StagewiseError, match=message) as error:
        read_pickled(content, "batch")
    assert str(error.value).startswith("batch: ")


def test_arrays_are_of_bytes_and_as_long_as_they_say():
    for array in (np.zeros(3), np.zeros(3, object), np.zeros(3, np.int8)):
        with pytest.raises(StagewiseError, match="not of unsigned bytes"):
            read_pickled(pickle.dumps({"data": array}, 2), "batch")
    height = b"M\x03\x00M0\x00\x86"
    assert GOOD.count(height) == 1
    for shape in (b"M\x04\x00M0\x00\x86", b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86"):
        with pytest.raises(StagewiseError, match=r"holds an array of shape .* in 144 bytes"):
            read_pickled(GOOD.replace(height, shape), "batch")
    negative = GOOD.replace(height, b"J\xfd\xff\xff\xffJ\xd0\xff\xff\xff\x86")
    with pytest.raises(StagewiseError, match=r"shape \(-3, -48\)"):
        read_pickled(negative, "batch")


def test_other_classes_are_refused_by_name():
    record = {"data": collections.OrderedDict(a=1)}
    with pytest.raises(StagewiseError, match="pickle names 'collections OrderedDict'"):
        read_pickled(pickle.dumps(record), "batch")


def test_dictionaries_that_share_their_parts_take_no_time():
    record = {}
    for _ in range(100):
        record = {"a": record, "b": record}
    with pytest.raises(StagewiseError, match="nested too deeply"):
        read_pickled(pickle.dumps(record), "batch")


WORDS = [
    *(b"cnumpy\ndtype\n", b"cnumpy\nndarray\n", b"c_codecs\nencode\n", b"U\x02u1", b"U\x01a"),
    *(b"cnumpy.core.multiarray\n_reconstruct\n", b"K\x01", b"q\x01", b"h\x01", b"q\x02", b"h\x02"),
    *(b"I7\n", b"L7L\n", b"S'a'\n", b"Va\n", b"X\x01\0\0\0a", b"C\x01a", b"\x8a\x01\x07"),
    *(b"\x95" + bytes(8), b"\x80\x04"),
    *(opcode.code.encode("latin-1") for opcode in pickletools.opcodes),
]


@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_no_program_gives_anything_but_a_dictionary_or_one_line(words):
    try:
        assert isinstance(read_pickled(b"".join(words) + b".", "batch"), dict)
    except StagewiseError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 300


@given(st.data())
def test_no_change_of_bytes_gives_anything_but_a_dictionary_or_one_line(data):
    content = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        codes = st.sampled_from([ord(opcode.code) for opcode in pickletools.opcodes])
        content[place] = data.draw(st.one_of(codes, st.integers(0, 255)))
    content = bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    try:
        assert isinstance(read_pickled(content, "batch"), dict)
    except StagewiseError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 300
