"""Reads events from files or stdin, and writes dead letters to a file, for replays. Events are not decoded here. Folders and patterns are
replaced by the files that they name.

Each file is one input of task 0, named by its path as given. The offset of a record is the number of its line or row, from 1. What forms
a file may have is in `file_formats`.
"""

from __future__ import annotations

import base64
import errno
import glob
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO

import msgspec

from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.file_formats.reader import FIRST_LINE, STDIN, FileReader, SortedFile, SortedReader
from streammetrics.connectors.source import Input, PollResult, SourceHealth
from streammetrics.errors import ConfigError, Problem

_PATTERN = frozenset("*?[")


def expanded_paths(paths: Sequence[str]) -> list[str]:
    """Return the files that are named, those in named folders and below, and those that match a pattern, each group sorted.

    Files and folders that begin with a dot or an underscore are left out of folders: they are marks of tools such as `_SUCCESS`. What
    names no file is returned as given, so that the source reports it with all other problems.
    """
    return [file for path in paths for file in (_files_of(path) or [path])]


def _files_of(path: str) -> list[str]:
    """Return the files of a folder or a pattern; nothing if the path is neither."""
    if path == STDIN:
        return []
    if Path(path).is_dir():
        return _in_folder(Path(path))
    if is_pattern(path) and not Path(path).exists():
        return [name for name in sorted(glob.glob(path, recursive=True)) if Path(name).is_file()]
    return []


def is_pattern(path: str) -> bool:
    """Return whether a path has a character of a pattern.

    >>> is_pattern("events/2026-*.ndjson"), is_pattern("events.ndjson")
    (True, False)
    """
    return not _PATTERN.isdisjoint(path)


def _in_folder(folder: Path) -> list[str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [str(path) for path in files if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)]


CHUNK_LINES_MAX = 1_000
LINE_BYTES_MAX = 16 << 20
"""Lines up to this length are kept whole, so that a dead letter for a long event is complete. Longer ones are cut, to limit memory."""

_encode = msgspec.json.Encoder().encode


class FileSource:
    """The `Source` of a replay. `paths` are files in any form of `file_formats`, or `-` for stdin.

    A file named .gz must be gzip. Raises ConfigError with all problems at once, for files that are missing, unreadable, folders, or
    named twice. A poll reads a chunk of one input: the first unfinished one in the order
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

    def __init__(
        self,
        paths: Sequence[str],
        event_bytes_max: int = 1_048_576,
        chunk_lines_max: int = CHUNK_LINES_MAX,
        *,
        has_texts: Callable[[str], bool] = lambda path: False,
        sorted_files: Mapping[str, SortedFile] = MappingProxyType({}),
    ) -> None:
        """Open the files. `has_texts` says of which files the cells of CSV stay texts. `sorted_files` are read in place of the original."""
        self._chunk_lines_max = chunk_lines_max
        self._readers: dict[Input, FileReader | SortedReader] = {}
        self._first: dict[Input, int] = {}
        self._turns: list[Input] = []
        self._preferred: tuple[Input, ...] = ()
        self._paused: set[Input] = set()
        self._assigned = self._started = False
        kept = max(event_bytes_max + 1, LINE_BYTES_MAX)
        self._open(
            paths,
            lambda path: SortedReader(path, sorted_files[path]) if path in sorted_files else FileReader(path, kept, texts=has_texts(path)),
        )

    def _open(self, paths: Sequence[str], reader_of: Callable[[str], FileReader | SortedReader]) -> None:
        problems = [] if paths else [Problem("FILE", "(none)", "name at least one file, or - for stdin")]
        for path in paths:
            place = Input(path, 0)
            if place in self._readers:
                problems.append(Problem("FILE", path, "is named twice: its events would count as duplicates"))
                continue
            try:
                self._readers[place] = reader_of(path)
            except OSError as error:
                if error.errno == errno.EMFILE:
                    self.close()
                    rule = f"are {len(paths):,} files, more than this process may have open; raise the limit: ulimit -n {len(paths) + 100}"
                    raise ConfigError([Problem("FILE", f"{paths[0]} …", rule)]) from error
                problems.append(Problem("FILE", path, _file_problem(path, error)))
        self._turns = list(self._readers)
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

    def poll(self, timeout_s: float, collect_s: float = 0.0) -> PollResult:
        """Return the next chunk of one input. Waits only for stdin. Raises SourceError."""
        assigned = frozenset() if self._assigned else frozenset({0})
        self._assigned = True
        place = self._next_input() if self._started else None
        if place is None:
            return PollResult(assigned=assigned)
        records = self._readers[place].take(self._chunk_lines_max, self._first[place])
        return PollResult({place: records} if records else {}, assigned)

    def _next_input(self) -> Input | None:
        waiting = [place for place in self._turns if not self._readers[place].ended and place not in self._paused]
        chosen = next((place for place in self._preferred if place in waiting), waiting[0] if waiting else None)
        if chosen is not None:
            self._turns.remove(chosen)
            self._turns.append(chosen)
        return chosen

    @property
    def exhausted(self) -> bool:
        """Whether all inputs have been read to their end."""
        return all(reader.ended for reader in self._readers.values())

    @property
    def ended(self) -> frozenset[Input]:
        """The inputs that have been read to their end."""
        return frozenset(place for place, reader in self._readers.items() if reader.ended)

    @property
    def cut(self) -> Mapping[Input, Mapping[int, int]]:
        """Full length in bytes of the lines that were cut so far, by input and line number."""
        return {place: reader.cut for place, reader in self._readers.items()}

    @property
    def lines(self) -> Mapping[str, int]:
        """The number of the last record that was read of each file, by its path."""
        return {place.topic: reader.number for place, reader in self._readers.items()}

    @property
    def bytes_read(self) -> int:
        return sum(reader.bytes_read for reader in self._readers.values())

    @property
    def bytes_total(self) -> int | None:
        """The total size of all files; None if one of them is stdin or a pipe."""
        sizes = [reader.bytes_total for reader in self._readers.values()]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        return tuple(self._readers)

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        """Start each input at the line of its offset (absent: the first). Lines that were read do not come again."""
        self._first = {place: offsets.get(place, FIRST_LINE) for place in self._readers}
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
        return {place: reader.following if reader.ended else reader.number + 2 for place, reader in self._readers.items()}

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        """Do nothing: a file keeps no offsets of its readers."""

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()


def _file_problem(path: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "matches no file" if is_pattern(path) else "does not exist"
    if isinstance(error, IsADirectoryError):
        return "is a folder without files"
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
