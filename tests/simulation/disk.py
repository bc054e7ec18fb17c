"""The simulated disk: real Parquet files in memory, each of which appears whole under its name or not at all."""

from __future__ import annotations

import contextlib
import fnmatch
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow.parquet  # type: ignore[import-untyped]

from streammetrics.connectors.parquet.table import ParquetTable
from streammetrics.errors import SourceError
from tests.simulation.fate import Fate


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
        written = io.BytesIO()
        with ParquetTable(written, columns, "results.directory") as table:
            for row in rows:
                table.add(row)
        if self.is_full or self._fate.strikes("a file is not written"):
            raise SourceError("the disk is full")
        changed = self.files.get(name) != written.getvalue()
        self.files[name] = written.getvalue()
        self._use()
        return table.count, changed

    def read(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a file; none if it does not exist."""
        self._use()
        return self.rows(name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a file, without faults."""
        if name not in self.files:
            return []
        with pyarrow.parquet.ParquetFile(io.BytesIO(self.files[name])) as file:
            rows: list[dict[str, Any]] = file.read(use_threads=False).to_pylist()
        return rows

    def names(self, pattern: str) -> list[str]:
        self._use()
        return sorted(name for name in self.files if fnmatch.fnmatchcase(name, pattern))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing: no other process runs in the middle of this block."""
        yield
