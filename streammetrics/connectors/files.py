"""Reads events from NDJSON files or stdin, and writes dead letters to a file, for replays. Events are not decoded here.

Each file is one input of task 0, named by its path as given. The offset of a record is its line number, from 1.
"""

from __future__ import annotations

import base64
import errno
import gzip
import io
import os
import sys
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, cast

import msgspec

from streammetrics.connectors.base import DeadLetter, Input, PollResult, Record, SourceHealth
from streammetrics.errors import ConfigError, Problem, SourceError

STDIN = "-"
CHUNK_LINES_MAX = 1_000
CHUNK_BYTES_MAX = 16 << 20
"""A chunk of long lines ends here, to limit memory."""
LINE_BYTES_MAX = 16 << 20
"""Lines up to this length are kept whole, so that a dead letter for a long event is complete. Longer ones are cut, to limit memory."""
SKIP_BYTES = 1 << 16
SAMPLE_BYTES = 1 << 16
NO_TIMESTAMP = -1
FIRST_LINE = 1

_encode = msgspec.json.Encoder().encode
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def standard_input() -> io.BufferedReader:
    """Return standard input as bytes. Raises OSError if it was closed when the process started."""
    if sys.stdin is None:
        raise OSError(errno.EBADF, "standard input is closed")
    return cast(io.BufferedReader, sys.stdin.buffer)


class Lines:
    """The lines of one file. Of a line longer than `kept_bytes` only the first bytes are kept, to limit memory.

    A byte order mark at the start of the file is skipped.
    """

    def __init__(self, path: str, kept_bytes: int) -> None:
        self.path, self._kept = path, kept_bytes
        self.number = 0
        self.following = FIRST_LINE
        """The number after the last line that was returned."""
        self.cut: dict[int, int] = {}
        """Full length in bytes of each line that was cut, by line number."""
        self.sample = b""
        """The start of the file, decompressed, for messages about its form."""
        self.ended = False
        self._raw = standard_input() if path == STDIN else Path(path).open("rb")  # noqa: SIM115  (it stays open after this function)
        self._text: io.BufferedReader | None = None
        self.bytes_total = None if path == STDIN else os.fstat(self._raw.fileno()).st_size or None
        self._bytes_here = 0

    def _decompressed(self) -> io.BufferedReader:
        """Return the content of the file, decompressed if it begins like gzip or is named .gz. No JSON begins like gzip."""
        start = self._raw.peek(len(_GZIP))[: len(_GZIP)]
        is_gzip = self.path.endswith(".gz") or (start and _GZIP.startswith(start))
        return io.BufferedReader(gzip.GzipFile(fileobj=self._raw)) if is_gzip else self._raw

    @property
    def bytes_read(self) -> int:
        """Bytes read so far: of the file on disk, compressed or not, or of the lines of a pipe."""
        has_position = self._text not in (None, self._raw) and not self._raw.closed and self._raw.seekable()
        return self._raw.tell() if has_position else self._bytes_here

    def take(self, count: int, first: int = FIRST_LINE) -> list[Record]:
        """Return up to `count` lines that are not blank, from line `first` on. Raises SourceError."""
        records: list[Record] = []
        chunk_ends = self._bytes_here + CHUNK_BYTES_MAX
        try:
            text = self._text = self._text or self._decompressed()
            while len(records) < count and self._bytes_here < chunk_ends and (line := self._next_line(text)) is not None:
                if self.number >= first and not line.isspace() and line:
                    records.append(Record(self.number, NO_TIMESTAMP, line))
                    self.following = self.number + 1
        except (OSError, EOFError, zlib.error) as error:  # which one a damaged gzip file raises depends on where the damage is
            raise SourceError(f"{self.path} cannot be read on after line {self.number}: {error}") from error
        return records

    def _next_line(self, text: io.BufferedReader) -> bytes | None:
        """Return the next line without its line end, cut if it is too long; None at the end of the file."""
        mark = len(_BYTE_ORDER_MARK) if self.number == 0 else 0
        line = text.readline(mark + self._kept + 2)  # room for a line end of two bytes
        if not line:
            self.ended = True
            return None
        self.number += 1
        self._bytes_here += len(line)
        if len(self.sample) < SAMPLE_BYTES:
            self.sample += line[:SAMPLE_BYTES]
        if mark:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if line.endswith(b"\n"):
            line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
            full_bytes = len(line)
        else:
            full_bytes = len(line) + (self._skip_rest(text, line[-1:]) if len(line) > self._kept else 0)
        if full_bytes > self._kept:
            self.cut[self.number] = full_bytes
        return line[: self._kept]

    def _skip_rest(self, text: io.BufferedReader, last: bytes) -> int:
        """Read to the end of a line that had `last` as its last byte so far. Returns its further bytes; -1 if `last` was its \\r."""
        skipped = 0
        while part := text.readline(SKIP_BYTES):
            self._bytes_here += len(part)
            skipped += len(part)
            if part.endswith(b"\n"):
                return skipped - (2 if (last + part).endswith(b"\r\n") else 1)
            last = part[-1:]
        return skipped

    def close(self) -> None:
        if self.path != STDIN:
            self._bytes_here = self.bytes_read
            if self._text is not None:
                self._text.close()
            self._raw.close()


class FileSource:
    """The `Source` of a replay. `paths` are NDJSON files, or `-` for stdin.

    A file may be gzipped: its first bytes show it. A file named .gz must be. Raises ConfigError with all problems at once, for files
    that are missing, unreadable, folders, or named twice. A poll reads a chunk of one input: the first unfinished one in the order
    given to `prefer`, or else each in turn.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b'{"a":1}\\n\\n{"a":2}\\n'); file.flush()
    ...     source = FileSource([file.name])
    ...     source.poll(0).assigned
    ...     _ = source.start(0, {})
    ...     [(record.offset, record.value) for record in source.poll(0).records[Input(file.name, 0)]]
    ...     source.close()
    frozenset({0})
    [(1, b'{"a":1}'), (3, b'{"a":2}')]
    """

    def __init__(self, paths: Sequence[str], event_bytes_max: int = 1_048_576, chunk_lines_max: int = CHUNK_LINES_MAX) -> None:
        self._chunk_lines_max = chunk_lines_max
        self._lines: dict[Input, Lines] = {}
        self._first: dict[Input, int] = {}
        self._turns: list[Input] = []
        self._preferred: tuple[Input, ...] = ()
        self._paused: set[Input] = set()
        self._assigned = self._started = False
        self._open(paths, event_bytes_max)

    def _open(self, paths: Sequence[str], event_bytes_max: int) -> None:
        problems = [] if paths else [Problem("FILE", "(none)", "name at least one file, or - for stdin")]
        for path in paths:
            place = Input(path, 0)
            if place in self._lines:
                problems.append(Problem("FILE", path, "is named twice: its events would count as duplicates"))
                continue
            try:
                self._lines[place] = Lines(path, max(event_bytes_max + 1, LINE_BYTES_MAX))
            except OSError as error:
                problems.append(Problem("FILE", path, _file_problem(error)))
        self._turns = list(self._lines)
        if problems:
            self.close()
            raise ConfigError(problems)

    def prefer(self, inputs: Sequence[Input]) -> None:
        """Set the order in which inputs are read from now on, the one furthest behind first. Empty: each in turn."""
        self._preferred = tuple(inputs)

    @property
    def health(self) -> SourceHealth:
        """Always reachable: files are there or fail at once."""
        return SourceHealth()

    def poll(self, timeout_s: float) -> PollResult:
        """Return the next chunk of one input. Waits only for stdin. Raises SourceError."""
        assigned = frozenset() if self._assigned else frozenset({0})
        self._assigned = True
        place = self._next_input() if self._started else None
        if place is None:
            return PollResult(assigned=assigned)
        records = self._lines[place].take(self._chunk_lines_max, self._first[place])
        return PollResult({place: records} if records else {}, assigned)

    def _next_input(self) -> Input | None:
        waiting = [place for place in self._turns if not self._lines[place].ended and place not in self._paused]
        chosen = next((place for place in self._preferred if place in waiting), waiting[0] if waiting else None)
        if chosen is not None:
            self._turns.remove(chosen)
            self._turns.append(chosen)
        return chosen

    @property
    def exhausted(self) -> bool:
        """Whether all inputs have been read to their end."""
        return all(lines.ended for lines in self._lines.values())

    @property
    def ended(self) -> frozenset[Input]:
        """The inputs that have been read to their end."""
        return frozenset(place for place, lines in self._lines.items() if lines.ended)

    @property
    def cut(self) -> Mapping[Input, Mapping[int, int]]:
        """Full length in bytes of the lines that were cut so far, by input and line number."""
        return {place: lines.cut for place, lines in self._lines.items()}

    @property
    def samples(self) -> Mapping[str, bytes]:
        """The start of each file by its path, decompressed: its first lines, about SAMPLE_BYTES."""
        return {place.topic: lines.sample for place, lines in self._lines.items()}

    @property
    def bytes_read(self) -> int:
        return sum(lines.bytes_read for lines in self._lines.values())

    @property
    def bytes_total(self) -> int | None:
        """The total size of all files; None if one of them is stdin or a pipe."""
        sizes = [lines.bytes_total for lines in self._lines.values()]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        return tuple(self._lines)

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        """Start each input at the line of its offset (absent: the first). Lines that were read do not come again."""
        self._first = {place: offsets.get(place, FIRST_LINE) for place in self._lines}
        self._started = True
        return dict(self._first)

    def pause(self, inputs: Collection[Input]) -> None:
        self._paused.update(inputs)

    def resume(self, inputs: Collection[Input]) -> None:
        self._paused.difference_update(inputs)

    def ends(self) -> Mapping[Input, int]:
        """Return the line number after the last line that is not blank.

        For an input that has not ended it is beyond what was read, so that the input is never caught up.
        """
        return {place: lines.following if lines.ended else lines.number + 2 for place, lines in self._lines.items()}

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        """Do nothing: a file keeps no offsets of its readers."""

    def close(self) -> None:
        for lines in self._lines.values():
            lines.close()


def _file_problem(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    if isinstance(error, IsADirectoryError):
        return "is a folder; name the files in it"
    if isinstance(error, PermissionError):
        return "may not be read by this user"
    return f"cannot be read: {error.strerror or error}"


class FileDeadLetters:
    """The dead letter sink of a replay: one JSON object per line. The caller opens and closes the file; None keeps nothing.

    Keys: `key` (`topic:partition:offset`), `reason`, `detail`, `input` (the path), `line`, and the raw bytes: as `value` if
    they are UTF-8, else as `value_base64`. `cut` has the full length of lines that were cut; their letters have it as `value_bytes`.
    """

    def __init__(self, file: IO[bytes] | None, cut: Mapping[Input, Mapping[int, int]] = MappingProxyType({})) -> None:
        self._file, self._cut = file, cut

    def write(self, letters: Iterable[DeadLetter]) -> None:
        if self._file is not None:
            self._file.writelines(map(self._encoded, letters))

    def close(self) -> None:
        """Do nothing: the caller closes the file."""

    def _encoded(self, letter: DeadLetter) -> bytes:
        full_bytes = self._cut.get(letter.input, {}).get(letter.offset)
        line: dict[str, object] = {
            "key": _encodable(letter.key),
            "reason": letter.reason,
            "detail": _encodable(letter.detail),
            "input": _encodable(letter.input.topic),
            "line": letter.offset,
            **({} if full_bytes is None else {"value_bytes": full_bytes}),
            **_value(letter.value),
        }
        return _encode(line) + b"\n"


def _value(value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {"value": None}
    try:
        return {"value": value.decode("utf-8")}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(value).decode("ascii")}


def _encodable(text: str) -> str:
    """Return text that UTF-8 can encode. Lone surrogates, which an unusual path may contain, become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
