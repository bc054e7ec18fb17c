"""Writes files that a command generated into a folder. A file that differs is replaced only on demand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from streammetrics.connectors.atomic_file import AtomicFile
from streammetrics.errors import ConfigError, Problem


def write_generated(folder: Path, files: Mapping[str, str], *, replace: bool) -> list[Path]:
    """Write the files and return their paths. Creates the folder.

    Raises ConfigError, before it writes anything, if a file exists with another content and `replace` is false.
    """
    paths = {folder / name: text.encode() for name, text in files.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = [path for path, content in paths.items() if not replace and path.exists() and path.read_bytes() != content]
    except OSError as error:
        raise ConfigError([Problem("--out", str(folder), f"cannot be written: {error.strerror or error}")]) from error
    if kept:
        rule = "exists with another content; choose another folder, or replace it with --force"
        raise ConfigError([Problem("--out", str(path), rule) for path in kept])
    for path, content in paths.items():
        with AtomicFile("--out", path) as file:
            file.write(content)
    return list(paths)
