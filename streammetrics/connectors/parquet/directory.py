"""A directory of Parquet files that several processes may write, and that a reader may read at any time.

A file appears complete under its name, or not at all. A file that would have the same bytes is left alone, so that programs that watch
the directory see each file once.
"""

from __future__ import annotations

import errno
import fcntl
import filecmp
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from streammetrics.connectors.parquet.table import ParquetTable, require_pyarrow
from streammetrics.errors import ConfigError, Problem, SourceError

KEY: Final = "results.directory"
IDENTITY_FILE: Final = "streammetrics.json"
"""What the files of the directory are about. Files of another stream, or of other spans, would count lists twice."""
PART_SECONDS: Final = 86_400
"""Age from which an unfinished file belongs to a process that died."""

_FIXES: Final = {
    errno.ENOSPC: "free some space on the disk",
    errno.EDQUOT: "raise the quota, or free some space",
    errno.EROFS: "mount the file system for writing",
    errno.EACCES: "let the user of this process write there",
    errno.EPERM: "let the user of this process write there",
    errno.ENOTDIR: "name a directory",
}


class WrittenFile(NamedTuple):
    """The number of rows of a file, and whether it is new or has changed."""

    rows: int
    changed: bool


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the error of a file that cannot be used into SourceError, with what to do."""
    try:
        yield
    except OSError as error:
        raise SourceError(f"{KEY} {path}: {error.strerror or error}", _FIXES.get(error.errno or 0, f"check the disk, or {KEY}")) from error


class ResultDirectory:
    """A directory for the results of one stream; see the module. Every method may raise SourceError: try again.

    identity: what its files are about, such as the namespace and the span of a file. The constructor raises ConfigError if pyarrow is
    not installed, or if the directory has files of another identity. It writes nothing.
    """

    def __init__(self, path: Path, identity: Mapping[str, object]) -> None:
        require_pyarrow(KEY, str(path))
        self.path = path
        self._identity = dict(identity)
        self._is_ready = False
        try:
            self._check_identity()
        except OSError:
            pass  # the first write says so
        except SourceError as error:
            raise ConfigError([Problem(KEY, str(path), str(error))]) from error

    def _check_identity(self) -> bool:
        """Return whether the directory is ours already. Raises OSError, and SourceError if it is another stream's."""
        try:
            text = (self.path / IDENTITY_FILE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        if text != self._identity_text():
            raise SourceError(f"has files of another stream or span, {text.strip()}, and this one is {json.dumps(self._identity)}", _OTHER)
        return True

    def _identity_text(self) -> str:
        return json.dumps(self._identity) + "\n"

    def prepare(self) -> None:
        """Make the directory, say what it is about, and remove what dead processes have left. Does nothing when called again."""
        if self._is_ready:
            return
        with _explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if not self._check_identity():
                part = self._part_of(self.path / IDENTITY_FILE)
                part.write_text(self._identity_text(), encoding="utf-8")
                _replace(part, self.path / IDENTITY_FILE)
            for part in self.path.rglob(".*.part"):
                if time.time() - part.stat().st_mtime > PART_SECONDS:
                    part.unlink(missing_ok=True)
        self._is_ready = True

    def has(self, name: str) -> bool:
        """Return whether a file exists."""
        with _explained(self.path / name):
            return (self.path / name).exists()

    def write(self, name: str, columns: Mapping[str, str], rows: Iterable[Sequence[object]]) -> WrittenFile:
        """Write the file `name`, a path in the directory, unless it has the same bytes already."""
        self.prepare()
        self._is_ready = False  # after an error: the directory may have been removed
        target = self.path / name
        part = self._part_of(target)
        with _explained(target):
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with part.open("xb") as file:
                    with ParquetTable(file, columns, KEY) as table:
                        for row in rows:
                            table.add(row)
                    file.flush()
                    os.fsync(file.fileno())
                is_changed = not (target.exists() and filecmp.cmp(part, target, shallow=False))
                if is_changed:
                    _replace(part, target)
            finally:
                part.unlink(missing_ok=True)
        self._is_ready = True
        return WrittenFile(table.count, is_changed)

    def read(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a file by column; none if there is no such file."""
        _, parquet = require_pyarrow(KEY)
        path = self.path / name
        if not self.has(name):
            return []
        try:
            with _explained(path), parquet.ParquetFile(path) as file:
                rows: list[dict[str, Any]] = file.read().to_pylist()
        except ValueError as error:  # pyarrow's errors of content
            raise SourceError(f"{KEY} {path}: {error}", "move the damaged file away") from error
        return rows

    def names(self, pattern: str) -> list[str]:
        """Return the files that match a pattern such as `verdicts/*/*.parquet`, in order."""
        with _explained(self.path):
            return sorted(str(path.relative_to(self.path)) for path in self.path.glob(pattern))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes of the directory from the same block. The system frees the lock of a process that dies."""
        self.prepare()
        path = self.path / ".lock"
        with _explained(path):
            file = path.open("ab")
        with file:
            with _explained(path):
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @staticmethod
    def _part_of(target: Path) -> Path:
        return target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")


_OTHER: Final = "name a new directory: a list must be in one file only"


def _replace(part: Path, target: Path) -> None:
    """Rename a complete file, and make sure that the new name survives a loss of power."""
    part.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
