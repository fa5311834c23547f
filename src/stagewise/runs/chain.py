"""Digests of what a run wrote: `chain.jsonl`, a line a round that commits to the line before it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from stagewise.files import decode_json_lines, read_bytes

CHAIN = "chain.jsonl"


class ChainRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line of `chain.jsonl`. Digests are SHA-256, in hexadecimal."""

    round: int
    previous: str
    """Of the line before; empty in the first."""
    checkpoint: str
    """Of the checkpoint after the round."""
    lines: dict[str, str]
    """Of what each file of records says of the round, by its name."""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def next_chain_line(
    before: bytes | None, round_index: int, checkpoint: bytes, lines: Mapping[str, bytes]
) -> bytes:
    """The line of a round; `before` is the one before it."""
    record = ChainRecord(
        round=round_index,
        previous="" if before is None else digest(before),
        checkpoint=digest(checkpoint),
        lines={name: digest(content) for name, content in lines.items()},
    )
    return msgspec.json.encode(record)


def load_chain(folder: Path) -> list[ChainRecord]:
    """The records of a run's chain; none where an earlier version wrote it."""
    return decode_json_lines(b"\n".join(chain_lines(folder)), ChainRecord, str(folder / CHAIN))


def chain_lines(folder: Path) -> list[bytes]:
    # What follows the last line break is a line that was never finished.
    path = folder / CHAIN
    lines = read_bytes(path).split(b"\n")[:-1] if path.exists() else []
    return [line for line in lines if line.strip()]


def chain_faults(folder: Path, complete: int) -> list[str]:
    """What in the records of the `complete` first rounds is not as it was written; a line each."""
    raw = chain_lines(folder)
    records = [record for record in load_chain(folder) if record.round < complete]
    faults = []
    for place, record in enumerate(records):
        if place and record.previous != digest(raw[place - 1]):
            faults.append(f"{CHAIN}: round {record.round}: does not follow the line before it")
        if record.round != records[0].round + place:
            faults.append(f"{CHAIN}: line {place + 1}: round {record.round}: must be in order")
    if records and records[-1].round != complete - 1:
        faults.append(f"{CHAIN}: ends with round {records[-1].round}: must end with {complete - 1}")
    for name in sorted({name for record in records for name in record.lines}):
        said = lines_by_round(folder / name)
        faults += [
            f"{name}: round {record.round}: is not as it was written"
            for record in records
            if digest(said.get(record.round, b"")) != record.lines.get(name, digest(b""))
        ]
    return faults


def lines_by_round(path: Path) -> dict[int, bytes]:
    """What a file of records says of each round."""
    found: dict[int, bytes] = {}
    for line in (read_bytes(path) if path.exists() else b"").splitlines(keepends=True):
        try:
            number = msgspec.json.decode(line)["round"]
        except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError):
            continue  # a line without a round is none of a round
        if isinstance(number, int):
            found[number] = found.get(number, b"") + line
    return found
