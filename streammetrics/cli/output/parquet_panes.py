"""Writes panes to a Parquet file, for warehouses. The columns are those of `PaneRow`; sums are decimals, which hold any integer here."""

from __future__ import annotations

from importlib import import_module
from types import TracebackType
from typing import IO, Any, Final

from streammetrics.errors import ConfigError, Problem
from streammetrics.reports.pane_rows import PaneRow

ROWS: Final = 65_536
"""Rows per row group."""

_DIGITS: Final = 38
"""A sum of 2**40 units over many lists may exceed 64 bits. Parquet's widest decimal has 38 digits."""


class ParquetPanes:
    """A Parquet file that grows by row groups and is complete when its block ends. Raises ConfigError if pyarrow is not installed.

    file: an open binary file, which the caller closes.
    """

    def __init__(self, file: IO[bytes]) -> None:
        try:
            self._arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError:
            raise ConfigError([Problem("--panes", "a Parquet file", "needs pyarrow: pip install 'streammetrics[files]'")]) from None
        self._schema = self._columns()
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[PaneRow] = []

    def _columns(self) -> Any:
        arrow = self._arrow
        whole, text, total = arrow.int64(), arrow.string(), arrow.decimal128(_DIGITS, 0)
        types = {
            **dict.fromkeys(("pane_start_ms", "pane_ms", "lists", "lists_with_feedback"), whole),
            **dict.fromkeys(("experiment", "variant", "segments", "view", "metric"), text),
            **dict.fromkeys(("k", "scale_bits"), arrow.int32()),
            **dict.fromkeys(("numerator", "denominator"), total),
        }
        return arrow.schema([arrow.field(name, types[name], nullable=False) for name in PaneRow._fields])

    def __enter__(self) -> ParquetPanes:
        return self

    def add(self, row: PaneRow) -> None:
        """Add one row. It is written with its row group."""
        self._rows.append(row)
        if len(self._rows) >= ROWS:
            self._write()

    def _write(self) -> None:
        columns = [self._arrow.array([row[at] for row in self._rows], type=field.type) for at, field in enumerate(self._schema)]
        self._writer.write_table(self._arrow.table(columns, schema=self._schema))
        self._rows = []

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None and self._rows:
            self._write()
        self._writer.close()
