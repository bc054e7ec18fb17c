"""Parquet and Avro: one record per row. Columns are the fields of an event; lists, structs and maps become arrays and objects.

Times of Parquet's and Avro's own types are read as such. In `experiments` and `segments`, a null value means an absent label.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from streammetrics.connectors.file_formats.extras import optional_module
from streammetrics.connectors.file_formats.lines import Row
from streammetrics.errors import SourceError

BATCH_ROWS: Final = 2_000
_LABELS: Final = ("experiments", "segments")
_TIMES: Final = ("ts", "timestamp")
_encode = msgspec.json.Encoder(enc_hook=str).encode


def read_parquet(file: io.BufferedReader, path: str, file_bytes: int) -> Iterator[Row]:
    """Yield the rows of a Parquet file as JSON, numbered from 1. Raises ConfigError without pyarrow, SourceError for damage."""
    arrow, parquet = optional_module("pyarrow", path, "a Parquet file"), optional_module("pyarrow.parquet", path, "a Parquet file")
    number = 0
    try:
        file.seek(0)
        opened = parquet.ParquetFile(file, pre_buffer=False)
        names = opened.schema_arrow.names
        rows = opened.metadata.num_rows
        for batch in opened.iter_batches(BATCH_ROWS):
            for value in rows_as_json(arrow, names, batch.columns):
                number += 1
                size = file_bytes * number // rows - file_bytes * (number - 1) // rows
                yield number, value, size
    except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise SourceError(f"{path} cannot be read beyond row {number}: {error}") from error


def rows_as_json(arrow: Any, names: Sequence[str], columns: Sequence[Any]) -> Iterator[bytes]:
    """Yield the rows of some columns of Arrow as events in JSON. `arrow` is the module pyarrow."""
    values = [_values(arrow, name, column) for name, column in zip(names, columns, strict=True)]
    for cells in zip(*values, strict=True):
        yield _encode(_event(dict(zip(names, cells, strict=True))))


def _values(arrow: Any, name: str, column: Any) -> list[Any]:
    """Return the values of a column. Times become epoch milliseconds, whole numbers in a column of floats become integers."""
    kind = column.type
    if arrow.types.is_timestamp(kind):
        column = column.cast(arrow.timestamp("ms", kind.tz), safe=False).cast(arrow.int64())
    values: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    if name in _TIMES and arrow.types.is_floating(kind):
        return [int(value) if value is not None and value.is_integer() else value for value in values]
    return values


def read_avro(stream: io.BufferedReader, path: str) -> Iterator[Row]:
    """Yield the rows of an Avro file as JSON, numbered from 1. Raises ConfigError without fastavro, SourceError for damage."""
    fastavro = optional_module("fastavro", path, "an Avro file")
    number = 0
    try:
        for event in fastavro.reader(stream):
            number += 1
            yield number, _encode(_event(event) if isinstance(event, dict) else event), 0
    except Exception as error:  # a damaged file raises whatever the parser meets: EOFError, IndexError, struct.error, zlib.error, ...
        raise SourceError(f"{path} cannot be read beyond row {number}: {error or type(error).__name__}") from error


def _event(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without the labels that are null: a struct has every field in every row."""
    for name in _LABELS:
        labels = event.get(name)
        if isinstance(labels, dict) and None in labels.values():
            event[name] = {label: value for label, value in labels.items() if value is not None}
    return event
