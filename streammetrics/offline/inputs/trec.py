"""Reads run and qrels files, plain or gzipped, into dicts.

Besides the form of TREC it reads the form of MS MARCO, and files with a header (see `named_columns`). The first line decides.

The columns are those of trec_eval 10 (github.com/usnistgov/trec_eval). Like trec_eval, it ignores the rank column, columns after the
run tag, and lines that begin with `#`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from streammetrics.offline.inputs.item_ids import from_run
from streammetrics.offline.inputs.judged import Judged, Users
from streammetrics.offline.inputs.named_columns import HeaderError, NamedColumns, columns_of, number_of, rows_of
from streammetrics.offline.inputs.numbers import GRADE_END
from streammetrics.offline.inputs.ranking import TieRule
from streammetrics.offline.inputs.trec_lines import (
    COMMENT,
    Progress,
    TrecError,
    counted,
    explained,
    lines_of,
    opened,
    shown_bytes,
    text_of,
    wrong_line,
)

TrecTable: TypeAlias = dict[str, dict[str, float]]

RUN_COLUMNS: Final = ("query", "Q0", "document", "rank", "score", "tag")
QRELS_COLUMNS: Final = ("query", "iteration", "document", "grade")

NO_TAG: Final = "run"
"""The tag of a run whose form has none."""


def read_run(path: str | Path) -> TrecTable:
    """Read a run as query -> document -> score, in the order of the file.

    The file has six columns separated by blanks: query, Q0, document, rank, score, tag. Further columns, blank lines and lines that
    begin with `#` are ignored. It may also have three columns as in MS MARCO (query, document, rank), or a header that names a query,
    a document, and a score or rank (CSV or TSV). Scores define the ranking. NaN is rejected; infinities are allowed. Gzip is detected
    from the first bytes. `-` is standard input.

    Raises TrecError that names the file and the line, and OSError if the file cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.txt"
    ...     _ = path.write_text("q1 Q0 d7 1 12.5 bm25\\nq1 Q0 d2 2 11.0 bm25\\n")
    ...     read_run(path)
    {'q1': {'d7': 12.5, 'd2': 11.0}}
    """
    return read_tagged_run(path)[0]


def read_tagged_run(path: str | Path, progress: Progress | None = None) -> tuple[TrecTable, str]:
    """Like `read_run`, with the tag of the last line, which trec_eval prints as `runid`.

    progress: called with the file's name and the number of lines read, every 500,000 lines.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.txt"
    ...     _ = path.write_text("# tuned\\nq1 Q0 d7 1 12.5 bm25\\n")
    ...     read_tagged_run(path)
    ({'q1': {'d7': 12.5}}, 'bm25')
    """
    return _read(path, RUN_COLUMNS, QRELS_COLUMNS, math.inf, progress)


def read_qrels(path: str | Path, progress: Progress | None = None) -> TrecTable:
    """Read relevance judgments as query -> document -> grade.

    The file has four columns separated by blanks: query, iteration, document, grade. It may also have three (query, document, grade),
    or a header that names a query, a document and a grade (CSV or TSV), as in BEIR and Quepid. Grades are finite and below 2**53; they may
    be negative (see `from_run`). Further columns are rejected, as by trec_eval. Otherwise like `read_run`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "qrels.txt"
    ...     _ = path.write_text("q1 0 d7 2\\n")
    ...     read_qrels(path)
    {'q1': {'d7': 2.0}}
    """
    return _read(path, QRELS_COLUMNS, RUN_COLUMNS, GRADE_END, progress)[0]


def from_trec(
    run: str | Path,
    qrels: str | Path,
    *,
    complete: bool = False,
    users: Users | None = None,
    depth: int | None = None,
    judged_only: bool = False,
    ties: TieRule = "trec_eval",
) -> Judged:
    """Read a run and a qrels file with the conventions of trec_eval 10 for ties, negative grades and missing queries.

    complete: count judged queries without a ranking as empty lists, like trec_eval's -c. users: query -> user. depth, judged_only:
        trec_eval's -M and -J (see `from_run`). ties: `trec_eval_9` compares scores in single precision, as up to trec_eval 9.
    Raises TrecError for invalid content, and OSError if a file cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run, qrels = Path(folder) / "run.txt", Path(folder) / "qrels.txt"
    ...     _ = run.write_text("q1 Q0 d1 1 2.0 tag\\nq1 Q0 d2 2 2.0 tag\\n")
    ...     _ = qrels.write_text("q1 0 d2 1\\n")
    ...     from_trec(run, qrels).positions
    array([0])
    """
    return from_run(
        read_run(run),
        read_qrels(qrels),
        ties=ties,
        complete=complete,
        negative="zero",
        users=users,
        depth=depth,
        judged_only=judged_only,
    )


def read_users(path: str | Path) -> dict[str, str]:
    """Read the user of each query: two columns separated by blanks, query and user, each query once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "users.tsv"
    ...     _ = path.write_text("q1\\tanna\\nq2\\tanna\\n")
    ...     read_users(path)
    {'q1': 'anna', 'q2': 'anna'}
    """
    users: dict[str, str] = {}
    for number, words in lines_of(path, None):
        if len(words) != 2:
            raise wrong_line(path, number, f"got {len(words)} columns; allowed are 2: query user")
        query, user = (text_of(path, number, word) for word in words)
        if query in users:
            raise wrong_line(path, number, f"got query {query!r} twice; allowed is once")
        users[query] = user
    return users


def _read(
    path: str | Path, columns: tuple[str, ...], others: tuple[str, ...], end: float, progress: Progress | None
) -> tuple[TrecTable, str]:
    """Read either kind of file, in any of its forms, and the tag of its last line. Grades are finite and below `end`. For scores `end`
    is infinity, and infinite scores are allowed.
    """
    is_run = columns == RUN_COLUMNS
    with explained(path) as reached, opened(path) as file:
        lines = counted(path, file, progress, reached)
        first = next((line for line in lines if line.strip() and not line.startswith(COMMENT)), b"")
        number = reached[0]
        try:
            named = columns_of(first, is_run=is_run)
        except HeaderError as error:
            raise wrong_line(path, number, str(error)) from None
        content = chain([first] if first else [], lines)
        if named is not None:
            table, tag = _of_rows(path, _named_rows(path, lines, number, named), end, named.is_rank), NO_TAG
        elif len(first.split()) == 3:
            table, tag = _of_rows(path, _three_columns(path, content, reached), end, is_run), NO_TAG
        else:
            table, words = _of_columns(path, content, reached, columns, others, end)
            tag = words[5].decode("utf-8", "backslashreplace") if is_run and words else NO_TAG
    if not table:
        raise TrecError(str(path), f"got no lines; allowed is at least one with {len(columns)} columns: {' '.join(columns)}")
    return table, tag


def _of_columns(
    path: str | Path, lines: Iterable[bytes], reached: list[int], columns: tuple[str, ...], others: tuple[str, ...], end: float
) -> tuple[TrecTable, list[bytes]]:
    """Read the form of trec_eval. The loop makes no function calls for valid lines, because runs have millions of them."""
    table: TrecTable = {}
    documents: dict[str, float] = {}
    before = b""
    count, at = len(columns), columns.index("score" if "score" in columns else "grade")
    words: list[bytes] = []
    last: list[bytes] = []
    for words in map(bytes.split, lines):
        if len(words) != count and (at == count - 1 or len(words) < count):
            if not words or words[0].startswith(COMMENT):
                continue
            raise wrong_line(path, reached[0], _columns_message(words, columns, others))
        try:
            if words[0] != before:
                if words[0].startswith(COMMENT):
                    continue
                before = words[0]
                documents = table.setdefault(before.decode(), {})
            document, value = words[2].decode(), float(words[at])
        except ValueError:
            raise _unreadable(path, reached[0], words, at, columns, end) from None
        if (not -math.inf < value < end and (math.isnan(value) or end < math.inf)) or b"_" in words[at]:
            raise _unreadable(path, reached[0], words, at, columns, end)
        if document in documents:
            raise wrong_line(path, reached[0], f"got document {document!r} of query {shown_bytes(before)} twice; allowed is once")
        documents[document] = value
        last = words
    return table, last


def _of_rows(path: str | Path, rows: Iterable[tuple[int, str, str, str]], end: float, are_ranks: bool) -> TrecTable:
    """Read rows of query, document and value. Ranks become negative scores. They are distinct, and the best of each query is 1."""
    table: TrecTable = {}
    for number, query, document, text in rows:
        value, documents = number_of(text), table.setdefault(query, {})
        if are_ranks and not (value >= 1 and value.is_integer()):
            raise wrong_line(path, number, f"got rank {text!r}; allowed are whole numbers from 1, or a header with the column score")
        if math.isnan(value) or (end < math.inf and not -math.inf < value < end):
            raise wrong_line(path, number, f"got {text!r}; allowed are {'finite numbers < 2**53' if end < math.inf else 'numbers'}")
        if document in documents:
            raise wrong_line(path, number, f"got document {document!r} of query {query!r} twice; allowed is once")
        documents[document] = -value if are_ranks else value
    for query, documents in table.items() if are_ranks else ():
        if max(documents.values()) != -1 or len({*documents.values()}) < len(documents):
            rule = "got no document of rank 1, or a rank twice; allowed are distinct ranks from 1, or a header with the column score"
            raise TrecError(f"{path}, query {query!r}", rule)
    return table


def _named_rows(path: str | Path, lines: Iterable[bytes], header: int, named: NamedColumns) -> Iterator[tuple[int, str, str, str]]:
    number = 0
    try:
        for number, query, document, value in rows_of(lines, named):
            yield header + number, query, document, value
    except (UnicodeDecodeError, csv.Error) as error:
        raise wrong_line(path, header + number + 1, f"got a row that cannot be read ({error}); allowed is CSV in UTF-8") from None


def _three_columns(path: str | Path, lines: Iterable[bytes], reached: list[int]) -> Iterator[tuple[int, str, str, str]]:
    """Yield the rows of a run of MS MARCO (query document rank), or of judgments without a header (query document grade)."""
    for words in map(bytes.split, lines):
        if words and not words[0].startswith(COMMENT):
            if len(words) != 3:
                raise wrong_line(path, reached[0], f"got {len(words)} columns after lines with 3; allowed is the same number in all lines")
            query, document, value = (text_of(path, reached[0], word) for word in words)
            yield reached[0], query, document, value


def _unreadable(path: str | Path, number: int, words: list[bytes], at: int, columns: tuple[str, ...], end: float) -> TrecError:
    """The error for a line with invalid UTF-8 or an invalid number."""
    for word in (words[0], words[2]):
        text_of(path, number, word)
    allowed = "finite numbers < 2**53" if end < math.inf else "numbers"
    return wrong_line(path, number, f"got {columns[at]} {shown_bytes(words[at])}; allowed are {allowed}")


def _columns_message(words: list[bytes], columns: tuple[str, ...], others: tuple[str, ...]) -> str:
    """What is wrong with the number of columns."""
    got = len(words)
    if got == 1 and (b"," in words[0] or words[0][:1] in (b"{", b"[")):
        example = "query,docid,score" if columns == RUN_COLUMNS else "query,docid,rating"
        form = "JSON" if words[0][:1] in (b"{", b"[") else "CSV"
        allowed = f"{len(columns)} columns separated by blanks: {' '.join(columns)}; or CSV with a header such as {example}"
        return f"got {form}; allowed are {allowed}"
    swapped = f" (with {got} it may be a {'qrels' if others is QRELS_COLUMNS else 'run'} file: have the two been swapped?)"
    return f"got {got} columns; allowed are {len(columns)}: {' '.join(columns)}{swapped if got == len(others) else ''}"
