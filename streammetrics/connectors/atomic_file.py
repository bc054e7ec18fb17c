"""Output files that appear complete or not at all."""

from __future__ import annotations

import io
import secrets
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from streammetrics.errors import ConfigError, Problem, StreammetricsError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class AtomicFile:
    """A file that appears under its name when its block ends without an error.

    Until then it is `<name>.<random>.part` in the same folder. A pipe or a device is written directly. `option` is the command-line
    option of the path, for messages. Raises ConfigError if the path cannot be opened, StreammetricsError if a write fails.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with AtomicFile("--out", Path(folder) / "numbers") as file:
    ...         count = file.write(b"1 2 3")
    ...     (Path(folder) / "numbers").read_bytes()
    b'1 2 3'
    """

    def __init__(self, option: str, path: Path) -> None:
        self._problem = Problem(option, str(path), "cannot be written")
        self._is_file = path.is_file() or not path.exists()
        self._path = path.resolve() if self._is_file else path  # a pipe behind /dev/stdout cannot be resolved
        self._written = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}.part") if self._is_file else self._path
        try:
            self._file: IO[bytes] = io.BufferedWriter(_NamedFile(self._problem, self._written, "xb" if self._is_file else "wb"))
        except OSError as error:
            raise ConfigError([Problem(option, str(path), f"cannot be written: {error.strerror or error}")]) from error

    def __enter__(self) -> IO[bytes]:
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._file.close()  # flushes, so it may fail
            if self._is_file and kind is None:
                self._rename()
        finally:
            if self._is_file:
                self._written.unlink(missing_ok=True)

    def _rename(self) -> None:
        try:
            self._written.replace(self._path)
        except OSError as error:
            raise _write_error(self._problem, error) from error


class _NamedFile(io.FileIO):
    """A file with write errors that name its option and path. An OSError of a write has no file name."""

    def __init__(self, problem: Problem, path: Path, mode: str) -> None:
        self._problem = problem
        super().__init__(path, mode)

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            raise  # the reader closed the pipe
        except OSError as error:
            raise _write_error(self._problem, error) from error


def _write_error(problem: Problem, error: OSError) -> StreammetricsError:
    return StreammetricsError(f"{problem}: {error.strerror or error}")
