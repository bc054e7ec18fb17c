"""Batches of Arrow -> rows as JSON, as `connectors.file_formats.parquet` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from streammetrics.connectors.file_formats.parquet import without_null_labels

_encode = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode


def rows_as_json(arrow: Any, names: Sequence[str], columns: Sequence[Any]) -> Iterator[bytes]:
    """Yield the rows of some columns of Arrow as events in JSON. `arrow` is the module pyarrow."""
    values = [_values(arrow, name, column) for name, column in zip(names, columns, strict=True)]
    for cells in zip(*values, strict=True):
        yield _encode(without_null_labels(dict(zip(names, cells, strict=True))))


def _values(arrow: Any, name: str, column: Any) -> list[Any]:
    """Return the values of a column. Times become epoch milliseconds, whole numbers in a column of floats become integers."""
    kind = column.type
    if arrow.types.is_timestamp(kind):
        column = column.cast(arrow.timestamp("ms", kind.tz), safe=False).cast(arrow.int64())
    values: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    if name == "ts" and arrow.types.is_floating(kind):
        return [int(value) if value is not None and value.is_integer() else value for value in values]
    return values
