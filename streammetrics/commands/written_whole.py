"""Output files that appear whole or not at all. Knows nothing of what is written."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import IO

from streammetrics.errors import ConfigError, Problem


class WrittenWhole:
    """A file that appears at its name when all went well, and not at all otherwise: until then it is `<name>.part`.

    What is not a file (a pipe, /dev/null) is written as it goes. `option` is what an operator gave the path with; raises
    ConfigError that names it when the path cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with WrittenWhole("--out", Path(folder) / "numbers") as file:
    ...         count = file.write(b"1 2 3")
    ...     (Path(folder) / "numbers").read_bytes()
    b'1 2 3'
    """

    def __init__(self, option: str, path: Path) -> None:
        self._path = path.resolve()
        self._is_file = self._path.is_file() or not self._path.exists()
        self._written = self._path.with_name(self._path.name + ".part") if self._is_file else self._path
        try:
            self._file: IO[bytes] = self._written.open("wb")
        except OSError as error:
            raise ConfigError([Problem(option, str(path), f"cannot be written: {error.strerror or error}")]) from error

    def __enter__(self) -> IO[bytes]:
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        whole = False
        try:
            self._file.close()  # writes what is left, and so may fail
            whole = kind is None
        finally:
            if self._is_file and whole:
                self._written.replace(self._path)
            elif self._is_file:
                self._written.unlink(missing_ok=True)
