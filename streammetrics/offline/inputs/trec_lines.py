"""Reads the lines of run and qrels files, plain or gzipped. The only module of the metric library that opens files."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from streammetrics.metrics.names import MetricError

Progress: TypeAlias = Callable[[str, int], None]

PROGRESS_LINES: Final = 500_000
"""Progress is reported every so many lines."""

_GZIP: Final = b"\x1f\x8b"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
COMMENT: Final = b"#"


class TrecError(MetricError):
    """Invalid content of a file. The message names the file, the line, the value and the allowed values."""


def lines_of(path: str | Path, progress: Progress | None) -> Iterator[tuple[int, list[bytes]]]:
    """The number (from 1) and columns of each line that is not blank or a comment. Only ASCII blanks separate columns."""
    with explained(path) as reached, opened(path) as file:
        for words in map(bytes.split, counted(path, file, progress, reached)):
            if words and not words[0].startswith(COMMENT):
                yield reached[0], words


def counted(path: str | Path, file: IO[bytes], progress: Progress | None, reached: list[int]) -> Iterator[bytes]:
    """Yield the lines of a file. `reached` holds the number of the last one."""
    for number, line in enumerate(file, 1):
        reached[0] = number
        if progress is not None and number % PROGRESS_LINES == 0:
            progress(str(path), number)
        yield line


@contextmanager
def explained(path: str | Path) -> Iterator[list[int]]:
    """Turn errors of a broken archive into TrecError. Yields the place for the number of the last line that was read."""
    reached = [0]
    try:
        yield reached
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TrecError(str(path), f"broken gzip after line {reached[0]} ({error}); allowed is a whole file") from None


@contextmanager
def opened(path: str | Path) -> Iterator[IO[bytes]]:
    """The bytes of the file, unzipped if necessary, without a byte order mark."""
    with ExitStack() as held:
        source: Any = sys.stdin.buffer if str(path) == "-" else held.enter_context(Path(path).open("rb"))
        if source.peek(len(_GZIP)).startswith(_GZIP):
            source = held.enter_context(gzip.GzipFile(fileobj=source))
        if source.peek(len(_BYTE_ORDER_MARK)).startswith(_BYTE_ORDER_MARK):
            source.read(len(_BYTE_ORDER_MARK))
        yield source


def text_of(path: str | Path, number: int, word: bytes) -> str:
    """Return a column as text. Raises TrecError if it is not UTF-8."""
    try:
        return word.decode()
    except UnicodeDecodeError as error:
        raise wrong_line(path, number, f"got {shown_bytes(word)}, which is no UTF-8 ({error.reason}); allowed is UTF-8 text") from None


def shown_bytes(word: bytes) -> str:
    """A column's bytes for messages."""
    return repr(word.decode("utf-8", "backslashreplace"))


def wrong_line(path: str | Path, number: int, message: str) -> TrecError:
    """Return the error for one line."""
    return TrecError(f"{path}, line {number}", message)
