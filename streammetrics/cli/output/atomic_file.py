"""Output files that appear whole or not at all. Knows nothing of what is written."""

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
    """A file that appears at its name when all went well, and not at all otherwise.

    Until then it lies in the same folder as `<name>.<random>.part`, a name that nobody else has: it must not exist before. What
    is not a file (a pipe, /dev/null) is written as it goes. `option` is what an operator gave the path with. Raises ConfigError
    that names it when the path cannot be written, StreammetricsError when it cannot be written on (the disk is full).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with AtomicFile("--out", Path(folder) / "numbers") as file:
    ...         count = file.write(b"1 2 3")
    ...     (Path(folder) / "numbers").read_bytes()
    b'1 2 3'
    """

    def __init__(self, option: str, path: Path) -> None:
        self._told = Problem(option, str(path), "cannot be written")
        self._is_file = path.is_file() or not path.exists()
        self._path = path.resolve() if self._is_file else path  # a pipe behind /dev/stdout has no other name
        self._written = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}.part") if self._is_file else self._path
        try:
            self._file: IO[bytes] = io.BufferedWriter(_Told(self._told, self._written, "xb" if self._is_file else "wb"))
        except OSError as error:
            raise ConfigError([Problem(option, str(path), f"cannot be written: {error.strerror or error}")]) from error

    def __enter__(self) -> IO[bytes]:
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._file.close()  # writes what is left, and so may fail
            if self._is_file and kind is None:
                self._take_name()
        finally:
            if self._is_file:
                self._written.unlink(missing_ok=True)

    def _take_name(self) -> None:
        try:
            self._written.replace(self._path)
        except OSError as error:
            raise _cannot(self._told, error) from error


class _Told(io.FileIO):
    """A file whose errors say what it was given as: those of a write name no file."""

    def __init__(self, message: Problem, path: Path, mode: str) -> None:
        self._told = message
        super().__init__(path, mode)

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            raise  # whoever reads it has enough
        except OSError as error:
            raise _cannot(self._told, error) from error


def _cannot(message: Problem, error: OSError) -> StreammetricsError:
    return StreammetricsError(f"{message}: {error.strerror or error}")
