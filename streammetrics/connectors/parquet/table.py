"""Writes the rows of a table to one Parquet file. Sums are decimals, which hold any integer here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import TracebackType
from typing import IO, Any, Final

from streammetrics.errors import ConfigError, Problem

ROWS: Final = 65_536
"""Rows per row group."""

_DIGITS: Final = 38
"""A sum of 2**40 units over many lists may exceed 64 bits. Parquet's widest decimal has 38 digits."""


def require_pyarrow(key: str, value: str = "a Parquet file") -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet. Raises ConfigError that names `key` if they are not installed."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise ConfigError([Problem(key, value, "needs pyarrow: pip install 'streammetrics[files]'")]) from None


class ParquetTable:
    """A Parquet file that grows by row groups and is complete when its block ends.

    file: an open binary file, which the caller closes. columns: the type of each column by its name: string, int32, int64, or integer
    for a decimal. key: the option or setting to name if pyarrow is not installed, in a ConfigError.
    """

    def __init__(self, file: IO[bytes], columns: Mapping[str, str], key: str) -> None:
        self._arrow, parquet = require_pyarrow(key)
        arrow = self._arrow
        types = {"string": arrow.string(), "int32": arrow.int32(), "int64": arrow.int64(), "integer": arrow.decimal128(_DIGITS, 0)}
        self._schema = arrow.schema([arrow.field(name, types[kind], nullable=False) for name, kind in columns.items()])
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[Sequence[object]] = []
        self.count = 0
        """The number of rows so far."""

    def __enter__(self) -> ParquetTable:
        return self

    def add(self, row: Sequence[object]) -> None:
        """Add one row, with a value for each column. It is written with its row group."""
        self._rows.append(row)
        self.count += 1
        if len(self._rows) >= ROWS:
            self._write()

    def _write(self) -> None:
        columns = [
            self._arrow.array(values, type=field.type) for values, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(self._arrow.table(columns, schema=self._schema))
        self._rows = []

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None and self._rows:
            self._write()
        self._writer.close()
