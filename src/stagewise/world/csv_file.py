"""CSV files whose first line names the columns, with the number of every line."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stagewise.errors import StagewiseError, one_line
from stagewise.files import read_bytes


@dataclass(frozen=True)
class CsvFile:
    """The cells of a file as text; every row has as many as the header."""

    path: str
    header_line: int
    header: list[str]
    rows: list[list[str]]
    lines: list[int]
    """The number of the (last) line of each row."""

    def where(self, row: int) -> str:
        """Where a row stands, for an error."""
        return f"{self.path}: line {self.lines[row]}"


def read_csv(path: str | Path) -> CsvFile:
    """Read a CSV file in UTF-8, with or without a byte-order mark; blank lines are passed over.

    Raises
    ------
    StagewiseError
        If it cannot be read, is not CSV, is empty, or a row has more or fewer cells than the header.
    """
    rows = _rows(path)
    header_line, header = next(rows, (1, []))
    if not header:
        raise StagewiseError(f"{path}: is empty: must have a line that names the columns")
    found, lines = [], []
    for line, row in rows:
        if len(row) != len(header):
            raise StagewiseError(
                f"{path}: line {line}: has {len(row)} columns: must have {len(header)}, as line "
                f"{header_line}"
            )
        found.append(row)
        lines.append(line)
    return CsvFile(str(path), header_line, header, found, lines)


def _rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the number of its (last) line."""
    content = read_bytes(path)
    try:
        # Spreadsheets put a byte-order mark before the first column's name.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise StagewiseError(
            f"{path}: line {line}: byte {content[error.start]:#04x}: must be UTF-8 text"
        ) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise StagewiseError(
            f"{path}: line {reader.line_num}: not valid CSV: {one_line(str(error))}"
        ) from None


def number_in(text: str) -> float | None:
    """The number that a cell holds, whole where it is written so; None where it holds none."""
    if "_" in text:  # Python's own float() takes 1_0, which no CSV means
        return None
    for kind in (int, float):
        try:
            value: float = kind(text)
        except ValueError:
            continue
        return value if value == value else None
    return None
