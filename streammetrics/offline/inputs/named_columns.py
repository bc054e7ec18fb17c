"""Runs and judgments with a header: CSV and TSV, as BEIR, MTEB, Quepid and the Search Relevance Workbench write them.

The header names the columns, in any order and with any spelling of case, blanks, `-` and `_`. Other columns are ignored.

| file | needs columns such as |
|---|---|
| judgments | `query,docid,rating`; `query-id corpus-id score` |
| run | `query,docid,score`, or `query,docid,rank` |
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

QUERY_NAMES: Final = ("queryid", "qid", "query", "querytext")
DOCUMENT_NAMES: Final = ("docid", "documentid", "corpusid", "itemid", "productid", "pid", "doc", "document", "item")
GRADE_NAMES: Final = ("rating", "grade", "relevance", "judgment", "judgement", "label", "score")
SCORE_NAMES: Final = ("score", "similarity")
RANK_NAMES: Final = ("rank", "position")
DELIMITERS: Final = "\t,;"
_SIGNS = re.compile(r"[^a-z0-9]")


class NamedColumns(NamedTuple):
    """Where a row has its query, its document and its value. `is_rank`: the value is a rank, from 1."""

    delimiter: str
    query: int
    document: int
    value: int
    is_rank: bool


class HeaderError(ValueError):
    """A header with a query and a document, but without a value."""


def columns_of(line: bytes, *, is_run: bool) -> NamedColumns | None:
    """Return the columns that a header names; None if the line is no header. Raises HeaderError.

    >>> columns_of(b"query-id\\tcorpus-id\\tscore\\n", is_run=False)
    NamedColumns(delimiter='\\t', query=0, document=1, value=2, is_rank=False)
    >>> columns_of(b"Rank,Query Text,Doc ID,Title\\n", is_run=True)
    NamedColumns(delimiter=',', query=1, document=2, value=0, is_rank=True)
    >>> columns_of(b"q1,d1,1\\n", is_run=False) is None
    True
    """
    try:
        text = line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        return None
    delimiter = next((sign for sign in DELIMITERS if sign in text), None)
    if delimiter is None:
        return None
    names = [_SIGNS.sub("", name.lower()) for name in next(csv.reader([text], delimiter=delimiter))]
    query, document = _place(names, QUERY_NAMES), _place(names, DOCUMENT_NAMES)
    if query is None or document is None:
        return None
    value, rank = _place(names, SCORE_NAMES if is_run else GRADE_NAMES), _place(names, RANK_NAMES) if is_run else None
    found = rank if value is None else value
    if found is None:
        needed = "score or rank" if is_run else "rating, grade, relevance or score"
        raise HeaderError(f"got the columns {text!r}; allowed is a header with a query, a document and a {needed}")
    return NamedColumns(delimiter, query, document, found, value is None)


def _place(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


def rows_of(lines: Iterable[bytes], columns: NamedColumns) -> Iterator[tuple[int, str, str, str]]:
    """Yield the number of each row's last line after the header, and its query, document and value. Rows without a value are left out.

    Quepid writes a row without a document for a query without judgments. Raises UnicodeDecodeError and csv.Error.

    >>> list(rows_of([b'"lamp, red",d1,2\\n', b"sofa\\n", b"\\n"], NamedColumns(",", 0, 1, 2, False)))
    [(1, 'lamp, red', 'd1', '2')]
    """
    reader = csv.reader((line.decode() for line in lines), delimiter=columns.delimiter, strict=True)
    last = max(columns.query, columns.document, columns.value)
    for cells in reader:
        if len(cells) > last and cells[columns.value].strip():
            yield reader.line_num, cells[columns.query], cells[columns.document], cells[columns.value].strip()


def number_of(text: str) -> float:
    """Return a number; NaN for other text.

    >>> number_of("0.5"), number_of("1_0"), number_of("high")
    (0.5, nan, nan)
    """
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan
