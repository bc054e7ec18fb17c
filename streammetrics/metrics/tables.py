"""A table of named columns, for notebooks: it shows itself, and becomes a frame of pandas, polars or Arrow if that is installed."""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from streammetrics.metrics.names import MetricError


def optional(module: str, subject: str) -> Any:
    """Import a module. Raises MetricError about `subject`, with what to install, if its library is not there.

    >>> optional("math", "root").sqrt(4.0)
    2.0
    """
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise MetricError(subject, f"got no {name}; allowed is an environment with it: pip install {name}") from None


ROWS_SHOWN: Final = 20


class DataTable(Mapping[str, Sequence[Any]]):
    """Columns of equal length by name. It is a mapping, so `pandas.DataFrame(dict(table))` works too.

    columns: name -> values. Raises MetricError if their lengths differ.

    >>> table = DataTable({"metric": ["ndcg@10", "map"], "mean": [0.5195, 0.5417]})
    >>> table
    metric   mean
    ndcg@10  0.5195
    map      0.5417
    >>> len(table.rows()), table["mean"], table.shape
    (2, [0.5195, 0.5417], (2, 2))
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise MetricError("columns", f"got lengths {lengths}; allowed is one length")
        self._columns = dict(columns)

    @classmethod
    def of_rows(cls, names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> DataTable:
        """Make a table from rows; a value that a row lacks is None.

        >>> DataTable.of_rows(["a", "b"], [{"a": 1}, {"a": 2, "b": 3}])["b"]
        [None, 3]
        """
        kept = list(rows)
        return cls({name: [row.get(name) for row in kept] for name in names})

    def __getitem__(self, name: str) -> Sequence[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return len(next(iter(self._columns.values()), ())), len(self._columns)

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        return [dict(zip(self._columns, row, strict=True)) for row in zip(*self._columns.values(), strict=True)]

    def where(self, **wanted: Any) -> DataTable:
        """The rows in which each named column has the given value.

        >>> DataTable({"variant": ["a", "b"], "mean": [1, 2]}).where(variant="b")["mean"]
        [2]
        """
        if unknown := [name for name in wanted if name not in self._columns]:
            raise MetricError("column", f"got {unknown[0]!r}; allowed are {', '.join(self._columns)}")
        return DataTable.of_rows(list(self), (row for row in self.rows() if all(row[name] == value for name, value in wanted.items())))

    def to_pandas(self) -> Any:
        """A pandas.DataFrame. Raises MetricError if pandas is not installed."""
        return optional("pandas", "to_pandas").DataFrame(self._columns)

    def to_polars(self) -> Any:
        """A polars.DataFrame. Raises MetricError if polars is not installed."""
        return optional("polars", "to_polars").DataFrame(self._columns, strict=False, infer_schema_length=None)

    def to_arrow(self) -> Any:
        """A pyarrow.Table. Raises MetricError if pyarrow is not installed."""
        return optional("pyarrow", "to_arrow").table(self._columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface: polars, DuckDB, pandas and others read the table without a conversion. It needs pyarrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        rows = self._texts()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *self._more()])

    def _repr_html_(self) -> str:
        """The table as HTML; Jupyter shows it."""
        head, *body = self._texts()
        lines = [_html_row("th", head), *(_html_row("td", row) for row in body)]
        more = "".join(f"<p>{html.escape(line)}</p>" for line in self._more())
        return f"<table><thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>{more}"

    def _texts(self) -> list[list[str]]:
        head = [column[:ROWS_SHOWN] for column in self._columns.values()]
        return [list(self), *([_cell(value) for value in row] for row in zip(*head, strict=True))]

    def _more(self) -> list[str]:
        rows, _ = self.shape
        return [f"... {rows - ROWS_SHOWN} more rows"] if rows > ROWS_SHOWN else []


class TableResult(ABC):
    """A result that shows itself as a table, and becomes a frame by it."""

    __slots__ = ()

    @abstractmethod
    def table(self) -> DataTable:
        """Return all of the result as a table."""

    def excerpt(self) -> DataTable:
        """Return the columns that it shows of itself."""
        return self.table()

    def to_pandas(self) -> Any:
        """The table as a pandas.DataFrame. Raises MetricError if pandas is not installed."""
        return self.table().to_pandas()

    def to_polars(self) -> Any:
        """The table as a polars.DataFrame. Raises MetricError if polars is not installed."""
        return self.table().to_polars()

    def to_arrow(self) -> Any:
        """The table as a pyarrow.Table. Raises MetricError if pyarrow is not installed."""
        return self.table().to_arrow()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface, for libraries that read it. It needs pyarrow."""
        return self.table().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return repr(self.excerpt())

    def _repr_html_(self) -> str:
        """The table as HTML; Jupyter shows it."""
        return self.excerpt()._repr_html_()


def _html_row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
