"""The simulated disk: real Parquet files in memory, each of which appears whole under its name or not at all."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow.parquet  # type: ignore[import-untyped]

from streammetrics.connectors.parquet.table import ParquetTable
from streammetrics.errors import SourceError
from tests.simulation.fate import Fate


@functools.lru_cache(maxsize=64)
def _written(columns: tuple[tuple[str, str], ...], rows: tuple[tuple[object, ...], ...]) -> bytes:
    """Return the file that the product writes of these rows. Exporters write the same rows again and again."""
    file = io.BytesIO()
    with ParquetTable(file, dict(columns), "results.directory") as table:
        for row in rows:
            table.add(row)
    return file.getvalue()


@functools.lru_cache(maxsize=64)
def _rows(file: bytes) -> list[dict[str, Any]]:
    with pyarrow.parquet.ParquetFile(io.BytesIO(file)) as opened:
        rows: list[dict[str, Any]] = opened.read(use_threads=False).to_pylist()
    return rows


class SimulatedDisk:
    """A `ResultTables` that several processes share."""

    def __init__(self, fate: Fate) -> None:
        self.is_full = False
        self.files: dict[str, bytes] = {}
        self._fate = fate

    def _use(self) -> None:
        self._fate.may_die()

    def has(self, name: str) -> bool:
        self._use()
        return name in self.files

    def write(self, name: str, columns: Mapping[str, str], rows: Iterable[Sequence[object]]) -> tuple[int, bool]:
        self._use()
        whole = tuple(map(tuple, rows))
        written = _written(tuple(columns.items()), whole)
        if self.is_full or self._fate.strikes("a file is not written"):
            raise SourceError("the disk is full")
        changed = self.files.get(name) != written
        self.files[name] = written
        self._use()
        return len(whole), changed

    def read(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a file; none if it does not exist."""
        self._use()
        return self.rows(name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a file, without faults."""
        return _rows(self.files[name]) if name in self.files else []

    def names(self, pattern: str) -> list[str]:
        self._use()
        return sorted(name for name in self.files if fnmatch.fnmatchcase(name, pattern))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing: no other process runs in the middle of this block."""
        yield
