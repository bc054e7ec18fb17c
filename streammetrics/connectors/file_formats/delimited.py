"""CSV and TSV: one record per row. The header names the fields of an event.

A cell is text, with these exceptions. An empty cell is an absent field.

| column | cell |
|---|---|
| `ts` | digits are a number |
| `value` | a number |
| `fragment` | `true` or `false` |
| `items` | a JSON array, or ids joined by a bar: `a|b|c` |
| `experiments`, `segments` | a JSON object, or pairs joined by a bar: `ranker=control|price=low` |
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from streammetrics.connectors.file_formats.streams import Row, header_of

_encode = msgspec.json.Encoder().encode
_any = msgspec.json.Decoder(msgspec.Raw).decode
_SEPARATOR = re.compile(r"[,;\s]")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")

ROW_BYTES_MAX: Final = 64 << 20
"""The lines of one row, which a quote may join. It limits memory."""
Convert: TypeAlias = Callable[[str], Any]


def read_rows(stream: io.BufferedReader, kept_bytes: int, fixed: Mapping[str, str], *, texts: bool = False) -> Iterator[Row]:
    """Yield each row after the header as JSON, numbered by the line on which it begins. A row that is no event row stays text.

    Such rows have more cells than the header, are not UTF-8, or have a quote that does not end. A decoder refuses them.

    fixed: columns that all rows have, unless the file has them.
    A header without rows has none of these, unless it names no field of an event: then it is a row.

    texts: all cells stay texts: a reader says what the columns mean, whatever their names.

    Raises ValueError if a row goes on for more than ROW_BYTES_MAX, because only a quote that never ends does.
    """
    feed = _Feed(stream, kept_bytes)
    header = header_of(feed.first.encode("utf-8", "surrogateescape"))
    assert header is not None, "only a file with a header is read as rows"
    delimiter, names = header
    convert_of: Mapping[str, Convert] = {} if texts else _CONVERTS
    converts = [convert_of.get(name, _text) for name in names]
    more = {name: convert_of.get(name, _text)(cell) for name, cell in fixed.items()}
    csv.field_size_limit(kept_bytes)
    rows = csv.reader(feed, delimiter=delimiter)
    header_line, is_empty = feed.number, True
    while True:
        began, taken = feed.number + 1, feed.taken
        feed.row_ends = taken + ROW_BYTES_MAX
        try:
            cells = next(rows, None)
        except csv.Error as error:
            is_empty = False
            yield began, f"row cannot be read: {error}".encode(), feed.taken - taken
            continue
        if cells is None:
            if is_empty and not (texts or _NAMES & set(names)):  # a line that only looks like a header
                yield header_line, feed.first.rstrip().encode("utf-8", "surrogateescape"), 0
            return
        is_empty = False
        yield began, _json(names, converts, cells, delimiter, more), feed.taken - taken


class _Feed:
    """The lines of a file as text, for the CSV parser. `first` is the header, which is not among them. `number` is the last line read."""

    def __init__(self, stream: io.BufferedReader, kept_bytes: int) -> None:
        self._readline, self._kept = stream.readline, kept_bytes
        self.number = self.taken = 0
        self.row_ends = ROW_BYTES_MAX
        self.first = "\n"
        while self.first.isspace():
            self.first = self.__next__()

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        line = self._readline(self._kept)
        if not line:
            raise StopIteration
        self.number += 1
        self.taken += len(line)
        if self.taken > self.row_ends:
            raise ValueError(f"a row has more than {ROW_BYTES_MAX >> 20} MiB: perhaps a quote does not end")
        return line.decode("utf-8", "surrogateescape")


def _json(names: Sequence[str], converts: Sequence[Convert], cells: Sequence[str], delimiter: str, more: Mapping[str, Any]) -> bytes:
    """Return a row as JSON, or as text if it is no event."""
    if not cells:
        return b""
    if len(cells) <= len(names):
        try:
            return _encode({**more, **{name: convert(cell) for name, convert, cell in zip(names, converts, cells, strict=False) if cell}})
        except UnicodeEncodeError:  # not UTF-8
            pass
    why = f"row has {len(cells)} cells, and the header has {len(names)}: " if len(cells) > len(names) else ""
    return f"{why}{delimiter.join(cells)}".encode("utf-8", "surrogateescape")


def _text(cell: str) -> str:
    return cell


def _whole(cell: str) -> int | str:
    return int(cell) if cell.isdecimal() and cell.isascii() else cell


def _number(cell: str) -> Any:
    return msgspec.Raw(cell.encode()) if _NUMBER.fullmatch(cell) else cell


def _flag(cell: str) -> bool | str:
    return {"true": True, "false": False}.get(cell.lower(), cell)


def _parsed(cell: str) -> Any:
    """Return a cell with JSON as such; None if it is none."""
    try:
        return _any(cell.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _json_or_text(cell: str) -> Any:
    return cell if (parsed := _parsed(cell)) is None else parsed


def _items(cell: str) -> Any:
    """Return the ids of a cell. What may be several ids in another form stays text, which a decoder refuses.

    That is a list that Python printed, or a cell without a bar and with a comma, a semicolon or white space.
    """
    if not cell.startswith("["):
        return cell if "|" not in cell and _SEPARATOR.search(cell) else cell.split("|")
    parsed = _parsed(cell)
    is_printed = parsed is None and cell.endswith("]") and "|" not in cell
    return cell if is_printed else cell.split("|") if parsed is None else parsed


def _pairs(cell: str) -> Any:
    if cell.startswith("{"):
        return _json_or_text(cell)
    pairs = [pair.partition("=") for pair in cell.split("|")]
    return {name: value for name, _, value in pairs} if all(equals for _, equals, _ in pairs) else cell


_CONVERTS: Final[dict[str, Convert]] = {
    "ts": _whole,
    "value": _number,
    "fragment": _flag,
    "items": _items,
    "experiments": _pairs,
    "segments": _pairs,
}
_NAMES: Final = {*_CONVERTS, "type", "impression_id", "user_id", "item_id", "action"}
"""Columns of native events."""
