"""TOML's lines, read back by Python's own reader."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.errors import StagewiseError
from stagewise.toml import read_toml, toml_lines

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT
NAMES = st.from_regex(r"[A-Za-z0-9_-]+", fullmatch=True)


@given(st.dictionaries(NAMES, VALUES | st.lists(TEXT)))
def test_what_is_written_is_read_again(fields):
    again = tomllib.loads("\n".join(toml_lines(fields)))
    assert again == fields
    assert {name: type(value) for name, value in again.items()} == {
        name: type(value) for name, value in fields.items()
    }


def test_what_is_none_is_left_out():
    assert toml_lines({"a": None, "b": 1}) == ["b = 1"]


@pytest.mark.parametrize("content", [b"a = ", b"\xff", b"a = 1\na = 2", b"a = " + b"[" * 5000])
def test_a_bad_file_is_one_line_with_its_name(tmp_path, content):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(StagewiseError) as caught:
        read_toml(path)
    assert str(caught.value).startswith(f"{path}: not valid TOML: ")
    assert "\n" not in str(caught.value)
