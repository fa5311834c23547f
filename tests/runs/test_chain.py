"""What a run's chain of digests sees: whatever is changed, taken out, exchanged or put in."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.runs.chain import CHAIN, chain_faults, next_chain_line
from stagewise.runs.events import Event

ROUNDS = 5


def write_chain(folder: Path) -> list[bytes]:
    """Five rounds with two lines of records each; the lines of the chain."""
    chain: list[bytes] = []
    records = b""
    for index in range(ROUNDS):
        told = b"".join(
            json.dumps({"round": index, "line": line}).encode() + b"\n" for line in range(2)
        )
        records += told
        lines = {"records.jsonl": told}
        chain.append(next_chain_line(chain[-1] if chain else None, index, b"model", lines))
    (folder / "records.jsonl").write_bytes(records)
    write_lines(folder, chain)
    return chain


def write_lines(folder: Path, chain: list[bytes]) -> None:
    (folder / CHAIN).write_bytes(b"".join(line + b"\n" for line in chain))


def test_what_was_written_has_no_faults(tmp_path):
    write_chain(tmp_path)
    assert chain_faults(tmp_path, ROUNDS) == []
    assert chain_faults(tmp_path, ROUNDS - 2) == []  # a run that was taken back


@pytest.mark.parametrize("place", range(1, ROUNDS))
def test_two_rounds_in_the_wrong_order(tmp_path, place):
    chain = write_chain(tmp_path)
    chain[place - 1], chain[place] = chain[place], chain[place - 1]
    write_lines(tmp_path, chain)
    faults = chain_faults(tmp_path, ROUNDS)
    assert any("does not follow" in fault for fault in faults)
    assert any("must be in order" in fault for fault in faults)


def test_a_chain_that_ends_early(tmp_path):
    write_lines(tmp_path, write_chain(tmp_path)[:-2])
    assert chain_faults(tmp_path, ROUNDS) == ["chain.jsonl: ends with round 2: must end with 4"]


@given(st.data())
def test_any_changed_byte_of_the_records_is_seen(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("chain")
    write_chain(folder)
    records = bytearray((folder / "records.jsonl").read_bytes())
    place = data.draw(st.integers(0, len(records) - 1))
    records[place] ^= data.draw(st.integers(1, 255))
    (folder / "records.jsonl").write_bytes(records)
    assert chain_faults(folder, ROUNDS) != []


def test_lines_that_are_of_no_round_are_not_looked_at(tmp_path):
    write_chain(tmp_path)
    with (tmp_path / "records.jsonl").open("ab") as file:
        file.write(b'no JSON\n{"other": 1}\n[2]\n"text"\n\xff\n{"round": "two"}\n')
    assert chain_faults(tmp_path, ROUNDS) == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"kind": "rejected", "client": "c3", "edge": "e1"}, "round 3: c3 at e1: rejected: why"),
        ({"kind": "rejected", "edge": "e1"}, "round 3: e1: rejected: why"),
        ({"kind": "returned", "to": 0}, "round 3: returned to the model of round 1: why"),
    ],
)
def test_an_event_is_a_line_that_counts_rounds_from_one(fields, text):
    assert str(Event(round=2, reason="why", **fields)) == text
