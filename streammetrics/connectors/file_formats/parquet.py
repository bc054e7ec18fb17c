"""Parquet: one record per row, read with DuckDB. Columns are the fields of an event; lists, structs and maps become arrays and objects.

In `experiments` and `segments`, a null value means an absent label.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from streammetrics.connectors.file_formats.streams import Row, optional_module
from streammetrics.errors import SourceError

MEMORY_BYTES_MAX: Final = 2 << 30
"""What DuckDB may take. It reads 2,048 rows at a time, so rows may have half a megabyte on average. A file that unpacks to more fails."""
LIST_ITEMS_MAX: Final = 1_000_000
BATCH_ROWS: Final = 100
"""Rows that are Python objects at a time."""
_LABELS: Final = ("experiments", "segments")
_SOURCE: Final = "read_parquet(?, hive_partitioning = false)"
_OPTIONS: Final = {"threads": 1, "async_threads": 0, "temp_directory": "", "autoinstall_known_extensions": "false"}
"""No thread of its own, because a replay may have many files open, no file beside the one it reads, and no download."""
_SETTINGS: Final = ("disable_parquet_prefetching = true", "streaming_buffer_size = '1MiB'", "TimeZone = 'UTC'")
"""With prefetching it would read a column of a row group at once."""
_encode = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode


def read_parquet(path: str, file_bytes: int, fixed: Mapping[str, str], *, texts: bool = False) -> Iterator[Row]:
    """Yield the rows of a Parquet file as JSON, numbered from 1. Raises ConfigError without DuckDB, SourceError for damage.

    fixed: columns that all rows have, unless the file has them.
    texts: times stay ISO-8601. Otherwise columns with times become epoch milliseconds.
    """
    duckdb = optional_module("duckdb", path, "a Parquet file")
    number, name = 0, glob.escape(path)
    try:
        with duckdb.connect(config={**_OPTIONS, "memory_limit": f"{MEMORY_BYTES_MAX >> 20}MiB"}) as database:
            for setting in _SETTINGS:
                database.execute(f"SET {setting}")
            rows = database.execute("SELECT sum(num_rows) FROM parquet_file_metadata(?)", [name]).fetchone()[0]
            columns = database.execute(f"DESCRIBE SELECT * FROM {_SOURCE}", [name]).fetchall()
            names = [column for column, *_ in columns]
            floats = [column for column, kind, *_ in columns if column == "ts" and kind in ("DOUBLE", "FLOAT")]
            selected = ", ".join(_selected(column, kind, texts=texts) for column, kind, *_ in columns)
            selection = database.execute(f"SELECT {selected} FROM {_SOURCE}", [name])
            while batch := selection.fetchmany(BATCH_ROWS):
                for cells in batch:
                    number += 1
                    size = file_bytes * number // rows - file_bytes * (number - 1) // rows
                    yield number, _encode({**fixed, **_event(dict(zip(names, cells, strict=True)), floats)}), size
    except duckdb.OutOfMemoryException:
        raise SourceError(
            f"{path} cannot be read beyond row {number}: 2,048 rows need more than {MEMORY_BYTES_MAX >> 30} GiB of memory; the file is "
            "damaged, made to fill memory, or has very long rows. In the last case convert it to lines of JSON"
        ) from None
    except (duckdb.Error, ValueError, OverflowError) as error:
        raise SourceError(f"{path} cannot be read beyond row {number}: {str(error).partition(chr(10))[0]}") from error


def _selected(column: str, kind: str, *, texts: bool) -> str:
    """Return the SQL expression of a column."""
    quoted = '"' + column.replace('"', '""') + '"'
    if kind.startswith("TIMESTAMP") and not texts:
        return f"epoch_ms({quoted}::TIMESTAMP)"
    if kind.endswith("[]"):  # a few bytes of Parquet may be a list of any length
        why = f"a list has more than {LIST_ITEMS_MAX:,} elements; the file is damaged, or made to fill memory"
        return f"CASE WHEN len({quoted}) > {LIST_ITEMS_MAX} THEN error('{why}') ELSE {quoted} END"
    return quoted


def _event(event: dict[str, Any], floats: list[str]) -> dict[str, Any]:
    """Return an event with whole times in columns of floats, and without labels that are null: a struct has every field in every row."""
    for name in floats:
        if event[name] is not None and event[name].is_integer():
            event[name] = int(event[name])
    return without_null_labels(event)


def without_null_labels(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without the labels that are null."""
    for name in _LABELS:
        labels = event.get(name)
        if isinstance(labels, dict) and None in labels.values():
            event[name] = {label: value for label, value in labels.items() if value is not None}
    return event
