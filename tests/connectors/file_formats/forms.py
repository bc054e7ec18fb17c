"""The same events in every form of file that is read."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

Event = dict[str, Any]
COLUMNS = ("type", "impression_id", "user_id", "ts", "items", "experiments", "segments", "item_id", "action", "value")
EVENTS: list[Event] = [
    {
        "type": "impression",
        "impression_id": "r1",
        "user_id": "u1",
        "ts": 1_772_359_200_000,
        "items": ["a", "b", "c"],
        "experiments": {"ranker": "treatment"},
        "segments": {"surface": "home"},
    },
    {"type": "feedback", "impression_id": "r1", "user_id": "u1", "ts": 1_772_359_205_000, "item_id": "b", "action": "click", "value": 2.5},
    {"type": "impression", "impression_id": "r2", "user_id": "ü2", "ts": 1_772_359_206_000, "items": []},
    {"type": "feedback", "user_id": "u1", "ts": 1_772_359_207_000, "item_id": 'c, "d"', "action": "click"},
]


def lines(events: Sequence[Event]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def array(events: Sequence[Event]) -> bytes:
    return json.dumps(events).encode()


def pretty_array(events: Sequence[Event]) -> bytes:
    return json.dumps(events, indent=4, ensure_ascii=False).encode()


def delimited(events: Sequence[Event], delimiter: str = ",") -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow(COLUMNS)
    for event in events:
        cells = [event.get(name) for name in COLUMNS]
        writer.writerow("" if cell is None else json.dumps(cell) if isinstance(cell, list | dict) else cell for cell in cells)
    return file.getvalue().encode()


def parquet(events: Sequence[Event]) -> bytes:
    labels = pa.map_(pa.string(), pa.string())
    kinds = {"ts": pa.int64(), "items": pa.list_(pa.string()), "experiments": labels, "segments": labels, "value": pa.float64()}
    columns = {
        name: pa.array(
            [list(event[name].items()) if isinstance(event.get(name), dict) else event.get(name) for event in events],
            kinds.get(name, pa.string()),
        )
        for name in COLUMNS
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=1_000)
    return file.getvalue()


FORMS: dict[str, Callable[[Sequence[Event]], bytes]] = {
    "lines": lines,
    "array": array,
    "pretty array": pretty_array,
    "csv": delimited,
    "tsv": lambda events: delimited(events, "\t"),
    "csv with semicolons": lambda events: delimited(events, ";"),
    "parquet": parquet,
}
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": lambda content: gzip.compress(content, mtime=0),
    "zstd": zstandard.compress,
    "UTF-8 with a mark": lambda content: b"\xef\xbb\xbf" + content,
}


def combinations() -> list[tuple[str, str]]:
    """Return the pairs of a form and a packing that can be read."""
    return [(form, packing) for form in FORMS for packing in PACKINGS if form != "parquet" or packing == "plain"]


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)
