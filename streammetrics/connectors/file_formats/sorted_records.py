"""Sorts the records of a file by time, on disk: runs that fit into memory are sorted and written, and then merged.

A sorted file has, for each record, its time, its number in the original file, its length and its bytes.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple, TypeAlias

from streammetrics.connectors.file_formats.reader import CHUNK_BYTES_MAX, FIRST_LINE, NO_TIMESTAMP
from streammetrics.connectors.source import InputRecord
from streammetrics.errors import SourceError

RUN_BYTES: Final = 256 << 20
"""What is sorted in memory at a time."""
RECORD_BYTES: Final = 200
"""What a record in memory takes beside its bytes."""
RUNS_MERGED: Final = 64
"""Files that are open at a time."""
_HEADER: Final = struct.Struct("<qqI")

TimedRecord: TypeAlias = tuple[int, int, bytes]
"""The time of a record (ms), its number and its bytes."""


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
