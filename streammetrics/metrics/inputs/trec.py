"""Reads TREC run and qrels files, plain or gzipped, into dicts. The only module of the metric library that reads files.

The columns are those of trec_eval 10 (github.com/usnistgov/trec_eval). Like trec_eval, it ignores the rank column, columns after the
run tag, and lines that begin with `#`.
"""

from __future__ import annotations

import gzip
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from streammetrics.metrics.inputs.judged import Judged, Users, from_run
from streammetrics.metrics.inputs.numbers import GRADE_END
from streammetrics.metrics.inputs.ranking import TieRule
from streammetrics.metrics.names import MetricError

Progress: TypeAlias = Callable[[str, int], None]
TrecTable: TypeAlias = dict[str, dict[str, float]]

RUN_COLUMNS: Final = ("query", "Q0", "document", "rank", "score", "tag")
QRELS_COLUMNS: Final = ("query", "iteration", "document", "grade")

PROGRESS_LINES: Final = 500_000
"""Progress is reported every so many lines."""

_GZIP: Final = b"\x1f\x8b"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_COMMENT: Final = b"#"


class TrecError(MetricError):
    """Invalid content of a file. The message names the file, the line, the value and the allowed values."""


def read_run(path: str | Path, progress: Progress | None = None) -> TrecTable:
    """Read a run as query -> document -> score, in the order of the file.

    The file has six columns separated by blanks: query, Q0, document, rank, score, tag. Further columns, blank lines and lines that
    begin with `#` are ignored. Scores define the ranking. NaN is rejected; infinities are allowed. Gzip is detected from the first
    bytes. `-` is standard input.
    progress: called with the file's name and the number of lines read, every 500,000 lines.

    Raises TrecError that names the file and the line, and OSError if the file cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.txt"
    ...     _ = path.write_text("q1 Q0 d7 1 12.5 bm25\\nq1 Q0 d2 2 11.0 bm25\\n")
    ...     read_run(path)
    {'q1': {'d7': 12.5, 'd2': 11.0}}
    """
    return read_tagged_run(path, progress)[0]


def read_tagged_run(path: str | Path, progress: Progress | None = None) -> tuple[TrecTable, str]:
    """Like `read_run`, with the tag of the last line, which trec_eval prints as `runid`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.txt"
    ...     _ = path.write_text("# tuned\\nq1 Q0 d7 1 12.5 bm25\\n")
    ...     read_tagged_run(path)
    ({'q1': {'d7': 12.5}}, 'bm25')
    """
    table, last = _read(path, RUN_COLUMNS, QRELS_COLUMNS, math.inf, progress)
    return table, last[5].decode("utf-8", "backslashreplace")


def read_qrels(path: str | Path, progress: Progress | None = None) -> TrecTable:
    """Read relevance judgments as query -> document -> grade.

    The file has four columns separated by blanks: query, iteration, document, grade. Grades are finite and below 2**53; they may
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
    for number, words in _lines(path, None):
        if len(words) != 2:
            raise _wrong(path, number, f"got {len(words)} columns; allowed are 2: query user")
        query, user = (_text(path, number, word) for word in words)
        if query in users:
            raise _wrong(path, number, f"got query {query!r} twice; allowed is once")
        users[query] = user
    return users


def _read(
    path: str | Path, columns: tuple[str, ...], others: tuple[str, ...], end: float, progress: Progress | None
) -> tuple[TrecTable, list[bytes]]:
    """Read either kind of file, and its last line. Grades are finite and below `end`. For scores `end` is infinity, and infinite
    scores are allowed.

    The loop makes no function calls for valid lines, because runs have millions of them.
    """
    table: TrecTable = {}
    documents: dict[str, float] = {}
    before = b""
    count, at = len(columns), columns.index("score" if "score" in columns else "grade")
    words: list[bytes] = []
    for number, words in _lines(path, progress):
        if len(words) != count and (at == count - 1 or len(words) < count):
            raise _wrong(path, number, _columns_message(words, columns, others))
        try:
            if words[0] != before:
                before = words[0]
                documents = table.setdefault(before.decode(), {})
            document, value = words[2].decode(), float(words[at])
        except ValueError:
            raise _unreadable(path, number, words, at, columns, end) from None
        if (not -math.inf < value < end and (math.isnan(value) or end < math.inf)) or b"_" in words[at]:
            raise _unreadable(path, number, words, at, columns, end)
        if document in documents:
            raise _wrong(path, number, f"got document {document!r} of query {_shown(before)} twice; allowed is once")
        documents[document] = value
    if not table:
        raise TrecError(str(path), f"got no lines; allowed is at least one with {count} columns: {' '.join(columns)}")
    return table, words


def _unreadable(path: str | Path, number: int, words: list[bytes], at: int, columns: tuple[str, ...], end: float) -> TrecError:
    """The error for a line with invalid UTF-8 or an invalid number."""
    for word in (words[0], words[2]):
        _text(path, number, word)
    allowed = "finite numbers < 2**53" if end < math.inf else "numbers"
    return _wrong(path, number, f"got {columns[at]} {_shown(words[at])}; allowed are {allowed}")


def _text(path: str | Path, number: int, word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError as error:
        raise _wrong(path, number, f"got {_shown(word)}, which is no UTF-8 ({error.reason}); allowed is UTF-8 text") from None


def _shown(word: bytes) -> str:
    """A column's bytes for messages."""
    return repr(word.decode("utf-8", "backslashreplace"))


def _columns_message(words: list[bytes], columns: tuple[str, ...], others: tuple[str, ...]) -> str:
    """What is wrong with the number of columns; for well-known other forms, how to convert them."""
    got = len(words)
    if columns == QRELS_COLUMNS and got == 3:
        header = "NR>1 " if words[2].lower() in (b"score", b"grade", b"relevance") else ""
        form = "judgments as in BEIR and MTEB (query document grade)"
        return f"got 3 columns, as {form}; convert them: awk '{header}{{print $1, 0, $2, $3}}'"
    if columns == RUN_COLUMNS and got == 3:
        form = "a run as in MS MARCO (query document rank)"
        return f'got 3 columns, as {form}; convert it: awk \'{{print $1, "Q0", $2, $3, -$3, "run"}}\''
    if got == 1 and (b"," in words[0] or words[0][:1] in (b"{", b"[")):
        form = "JSON" if words[0][:1] in (b"{", b"[") else "CSV"
        return f"got {form}; allowed are {len(columns)} columns separated by blanks: {' '.join(columns)}"
    swapped = f" (with {got} it may be a {'qrels' if others is QRELS_COLUMNS else 'run'} file: have the two been swapped?)"
    return f"got {got} columns; allowed are {len(columns)}: {' '.join(columns)}{swapped if got == len(others) else ''}"


def _lines(path: str | Path, progress: Progress | None) -> Iterator[tuple[int, list[bytes]]]:
    """The number (from 1) and columns of each line that is not blank or a comment. Only ASCII blanks separate columns."""
    number = 0
    try:
        with _opened(path) as file:
            for number, words in enumerate(map(bytes.split, file), 1):
                if words and not words[0].startswith(_COMMENT):
                    yield number, words
                if progress is not None and number % PROGRESS_LINES == 0:
                    progress(str(path), number)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TrecError(str(path), f"broken gzip after line {number} ({error}); allowed is a whole file") from None


@contextmanager
def _opened(path: str | Path) -> Iterator[IO[bytes]]:
    """The bytes of the file, unzipped if necessary, without a byte order mark."""
    with ExitStack() as held:
        source: Any = sys.stdin.buffer if str(path) == "-" else held.enter_context(Path(path).open("rb"))
        if source.peek(len(_GZIP)).startswith(_GZIP):
            source = held.enter_context(gzip.GzipFile(fileobj=source))
        if source.peek(len(_BYTE_ORDER_MARK)).startswith(_BYTE_ORDER_MARK):
            source.read(len(_BYTE_ORDER_MARK))
        yield source


def _wrong(path: str | Path, number: int, message: str) -> TrecError:
    return TrecError(f"{path}, line {number}", message)
