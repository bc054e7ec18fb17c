"""Parquet and Avro: one record per row. Columns are the fields of an event; lists, structs and maps become arrays and objects.

Times of Parquet's and Avro's own types are read as such. In `experiments` and `segments`, a null value means an absent label. A schema
of Avro must follow the rules of `events.encodings.avro`. The caller limits memory.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final

import msgspec

from streammetrics.connectors.file_formats.extras import optional_module
from streammetrics.connectors.file_formats.lines import Row
from streammetrics.connectors.file_formats.streams import rejoined
from streammetrics.errors import SourceError
from streammetrics.events.encodings.avro import container_shape
from streammetrics.events.encodings.avro_aliases import AliasAdder
from streammetrics.events.encodings.schema_text import SchemaText, problem_of

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
        if not names:
            raise ValueError("it has no columns")
        for batch in opened.iter_batches(BATCH_ROWS):
            for value in rows_as_json(arrow, names, batch.columns):
                number += 1
                size = file_bytes * number // rows - file_bytes * (number - 1) // rows
                yield number, value, size
    except MemoryError:  # ArrowMemoryError is one
        raise
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
    optional_module("fastavro", path, "an Avro file")
    number = 0
    try:
        for event in _avro_rows(stream):
            number += 1
            yield number, _encode(_event(event) if isinstance(event, dict) else event), 0
    except MemoryError:
        raise
    except RecursionError:
        raise SourceError(f"{path} cannot be read beyond row {number}: it is nested too deeply") from None
    except Exception as error:  # a damaged file raises whatever the parser meets: EOFError, IndexError, struct.error, zlib.error, ...
        raise SourceError(f"{path} cannot be read beyond row {number}: {problem_of(error)}") from error


def _avro_rows(stream: io.BufferedReader) -> Iterator[Any]:
    """Yield the rows of an Avro file. Raises SchemaProblemError, and whatever a damaged file makes the parser raise.

    A schema that contains itself is read by fastavro's Python code: deep data would end the process in its C code.
    """
    recorder = _Recorder(stream)
    header = import_module("fastavro").schemaless_reader(recorder, import_module("fastavro._read_common").HEADER_SCHEMA, None)
    is_recursive, add_aliases = container_shape(SchemaText("AVRO", header["meta"]["avro.schema"].decode()))
    library = import_module("fastavro._read_py" if is_recursive else "fastavro")
    rows: Iterator[Any] = library.reader(rejoined(bytes(recorder.seen), stream))
    return rows if add_aliases is None else _with_aliases(rows, add_aliases)


def _with_aliases(rows: Iterator[Any], add_aliases: AliasAdder) -> Iterator[Any]:
    for row in rows:
        add_aliases(row)
        yield row


class _Recorder:
    """A stream that keeps what was read."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream, self.seen = stream, bytearray()

    def read(self, count: int) -> bytes:
        part = self._stream.read(count)
        self.seen += part
        return part


def _event(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without the labels that are null: a struct has every field in every row."""
    for name in _LABELS:
        labels = event.get(name)
        if isinstance(labels, dict) and None in labels.values():
            event[name] = {label: value for label, value in labels.items() if value is not None}
    return event
