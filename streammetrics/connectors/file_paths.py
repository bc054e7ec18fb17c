"""Folders and patterns -> the files that they name."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from streammetrics.connectors.file_formats.reader import STDIN

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
