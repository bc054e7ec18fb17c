"""Where a command may write: neither over what it reads nor over what it writes besides, nor to a standard output that is closed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import TextIO

from streammetrics.errors import ConfigError, Problem, StreammetricsError


def standard_output() -> TextIO:
    """Standard output. Raises StreammetricsError where whoever started the process has closed it."""
    if sys.stdout is None:
        raise StreammetricsError("standard output is closed, and what is to be told would be lost: give it a file or a pipe")
    return sys.stdout


def require_distinct(files: Iterable[Path], outputs: Mapping[str, Path | None]) -> None:
    """An output (None is not asked for), by its option, must not overwrite an input or another output. Raises ConfigError.

    What is not a file (a pipe, /dev/null) may be named twice.

    >>> require_distinct([Path("events")], {"--panes": Path("panes"), "--report": None})
    >>> require_distinct([Path("events")], {"--panes": Path("./events")})
    Traceback (most recent call last):
    streammetrics.errors.ConfigError: --panes = events: is also given as FILE; name another file to write
    """
    named = [("FILE", file) for file in files]
    named += [(option, path) for option, path in outputs.items() if path is not None]
    problems = [
        Problem(option, str(path), f"is also given as {other}; name another file to write")
        for (other, first), (option, path) in combinations(named, 2)
        if option != "FILE" and (path.is_file() or not path.exists()) and _is_same(first, path)
    ]
    if problems:
        raise ConfigError(problems)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names lead to one file, over links of either kind; also to one that is not there yet."""
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))
