"""Reads the records of one file in chunks, whatever its form, and sorts them by time.

Sorting is done on disk: runs that fit into memory are sorted and written, and then merged. A sorted file has, for each record, its time,
its number in the original file, its length and its bytes.
"""

from __future__ import annotations

import errno
import gzip
import heapq
import io
import os
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple, TypeAlias, cast
from urllib.parse import unquote

from streammetrics.connectors.file_formats.delimited import read_rows
from streammetrics.connectors.file_formats.json_array import read_elements
from streammetrics.connectors.file_formats.parquet import read_parquet
from streammetrics.connectors.file_formats.streams import Row, form_of, open_content, read_lines
from streammetrics.connectors.source import InputRecord
from streammetrics.errors import SourceError

STDIN = "-"
CHUNK_BYTES_MAX = 16 << 20
"""A chunk of long records ends here, to limit memory."""
NO_TIMESTAMP = -1
FIRST_LINE = 1
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_DAMAGED = (OSError, EOFError, ValueError, zlib.error)
"""Which one a damaged file raises depends on where the damage is."""
RUN_BYTES: Final = 256 << 20
"""What is sorted in memory at a time."""
RECORD_BYTES: Final = 200
"""What a record in memory takes beside its bytes."""
RUNS_MERGED: Final = 64
"""Files that are open at a time."""
_HEADER: Final = struct.Struct("<qqI")
TimedRecord: TypeAlias = tuple[int, int, bytes]
"""The time of a record (ms), its number and its bytes."""


def standard_input() -> io.BufferedReader:
    """Return standard input as bytes. Raises OSError if it was closed when the process started."""
    if sys.stdin is None:
        raise OSError(errno.EBADF, "standard input is closed")
    return cast(io.BufferedReader, sys.stdin.buffer)


def folder_columns(path: str) -> dict[str, str]:
    """Return the columns that the folders of a path name, as Hive, Spark and warehouses write them.

    >>> folder_columns("export/day=2026-03-01/surface=search%20box/part-0.csv"), folder_columns("-")
    ({'day': '2026-03-01', 'surface': 'search box'}, {})
    """
    pairs = (part.partition("=") for part in Path(path).parts[:-1])
    return {name: unquote(value) for name, _, value in pairs if name and value and value != _NO_VALUE}


class FileReader:
    """The records of one file. Of a record longer than `kept_bytes` only the first bytes are kept, to limit memory.

    A record's number is that of its line (in CSV: of the line on which its row begins), of the element of a JSON array, or of the row
    of a Parquet file. All begin at 1. With `texts`, the cells of CSV stay texts, whatever their columns, and times in Parquet become texts.
    A folder such as `variant=control/` in the path is a column of CSV and Parquet, unless they have it.
    """

    def __init__(self, path: str, kept_bytes: int, *, texts: bool = False) -> None:
        self.path, self._kept, self._texts = path, kept_bytes, texts
        self.number = 0
        self.following = FIRST_LINE
        """The number after the last record that was returned."""
        self.cut: dict[int, int] = {}
        """Full length in bytes of each record that was cut, by its number."""
        self.ended = False
        self._raw = standard_input() if path == STDIN else Path(path).open("rb")  # noqa: SIM115  (it stays open after this function)
        self._rows: Iterator[Row] | None = None
        self.bytes_total = None if path == STDIN else os.fstat(self._raw.fileno()).st_size or None
        self._bytes_here = 0
        self._counts_disk = False
        """Whether progress is the position in the file, because the content has other bytes."""

    @property
    def bytes_read(self) -> int:
        """Bytes read so far: of the file on disk, or of the content of a pipe."""
        if self.ended and self.bytes_total is not None:
            return self.bytes_total
        return self._raw.tell() if self._counts_disk and not self._raw.closed else self._bytes_here

    def take(self, count: int, first: int = FIRST_LINE) -> list[InputRecord]:
        """Return up to `count` records that are not blank, from number `first` on. Raises SourceError, and ConfigError without an extra."""
        try:
            return self._next_records(count, first)
        except gzip.BadGzipFile as error:
            if self.number or not self.path.endswith(".gz"):
                raise SourceError(f"{self.path} cannot be read beyond line {self.number}: {error}") from error
            raise SourceError(f"{self.path} is named .gz and holds no gzip data: {error}; rename it, or compress it") from error
        except _DAMAGED as error:
            raise SourceError(f"{self.path} cannot be read beyond line {self.number}: {error}") from error

    def _next_records(self, count: int, first: int) -> list[InputRecord]:
        records: list[InputRecord] = []
        chunk_bytes = 0
        rows = self._rows = self._rows or self._open()
        for number, value, size in rows:
            self.number = number
            self._bytes_here += size
            chunk_bytes += len(value)
            if number >= first and value and not value.isspace():
                records.append(InputRecord(number, NO_TIMESTAMP, value))
                self.following = number + 1
            if len(records) >= count or chunk_bytes >= CHUNK_BYTES_MAX:
                return records
        self.ended = True
        return records

    def _open(self) -> Iterator[Row]:
        """Recognize the form of the file and begin to read it."""
        content = open_content(self._raw, self.path)
        form = form_of(content.head)
        is_on_disk = self.path != STDIN and self._raw.seekable()
        self._counts_disk = is_on_disk and content.is_unpacked
        if form == "parquet":
            if content.is_unpacked or not is_on_disk:
                raise SourceError(f"{self.path} is Parquet, which cannot be read from a pipe or compressed again: name a plain file")
            return read_parquet(self.path, self.bytes_total or 0, folder_columns(self.path), texts=self._texts)
        if form == "array":
            return read_elements(content.stream, self._kept, self.cut)
        if form == "delimited":
            return read_rows(content.stream, self._kept, folder_columns(self.path), texts=self._texts)
        return read_lines(content.stream, self._kept, self.cut)

    def close(self) -> None:
        if self.path != STDIN:
            self._bytes_here = self.bytes_read
            self._rows = None
            self._raw.close()


class SortedFile(NamedTuple):
    """The records of a file by time, and what was known of the original: the cut records and its last number."""

    path: Path
    cut: Mapping[int, int]
    lines: int


def sort_records(records: Iterable[TimedRecord], folder: Path) -> Path:
    """Write records in the order of their times, and of their numbers where times are equal. Returns the file, in `folder`.

    The folder must be empty. Raises SourceError if its disk is full.
    """
    try:
        runs = [_written(folder / f"run-{number}", sorted(run)) for number, run in enumerate(_runs(records))]
        merges = 0
        while len(runs) > 1:
            merged = []
            for start in range(0, len(runs), RUNS_MERGED):
                group = runs[start : start + RUNS_MERGED]
                merged.append(_written(folder / f"merged-{merges}", heapq.merge(*map(_read, group))))
                merges += 1
                for run in group:
                    run.unlink()
            runs = merged
    except OSError as error:
        raise SourceError(f"sorting by time failed in {folder.parent}: {error.strerror or error}; name a larger disk in TMPDIR") from error
    return runs[0] if runs else _written(folder / "empty", ())


def _runs(records: Iterable[TimedRecord]) -> Iterator[list[TimedRecord]]:
    """Yield the records in lists that fit into memory."""
    run, size = list[TimedRecord](), 0
    for record in records:
        run.append(record)
        size += len(record[2]) + RECORD_BYTES
        if size >= RUN_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


def _written(path: Path, records: Iterable[TimedRecord]) -> Path:
    with path.open("xb", buffering=1 << 20) as file:
        for time, number, value in records:
            file.write(_HEADER.pack(time, number, len(value)))
            file.write(value)
    return path


def _read(path: Path) -> Iterator[TimedRecord]:
    with path.open("rb", buffering=1 << 18) as file:
        yield from _records(file)


def _records(file: IO[bytes]) -> Iterator[TimedRecord]:
    while header := file.read(_HEADER.size):
        time, number, size = _HEADER.unpack(header)
        yield time, number, file.read(size)


class SortedReader:
    """Reads a sorted file as a `FileReader` reads the original. The numbers of the records are those of the original."""

    def __init__(self, path: str, sorted_file: SortedFile) -> None:
        self.path, self.number = path, sorted_file.lines
        self.cut = dict(sorted_file.cut)
        self.following = FIRST_LINE
        self.ended = False
        self._file = sorted_file.path.open("rb", buffering=1 << 20)
        self._records = _records(self._file)
        self.bytes_total: int | None = sorted_file.path.stat().st_size
        self.bytes_read = 0

    def take(self, count: int, first: int = FIRST_LINE) -> list[InputRecord]:
        """Return up to `count` records, from number `first` on."""
        records, chunk_bytes = list[InputRecord](), 0
        for _, number, value in self._records:
            self.bytes_read += _HEADER.size + len(value)
            if number >= first:
                records.append(InputRecord(number, NO_TIMESTAMP, value))
                self.following = number + 1
                chunk_bytes += len(value)
            if len(records) >= count or chunk_bytes >= CHUNK_BYTES_MAX:
                return records
        self.ended = True
        return records

    def close(self) -> None:
        self._file.close()
