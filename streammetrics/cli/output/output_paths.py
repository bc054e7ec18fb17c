"""Checks of output paths: no output may overwrite an input or another output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path

from streammetrics.errors import ConfigError, Problem


def require_distinct(files: Iterable[Path], outputs: Mapping[str, Path | None]) -> None:
    """Raise ConfigError if an output overwrites an input or another output. `outputs` maps options to paths (None: not given).

    Pipes and devices such as /dev/null may be given twice.

    >>> require_distinct([Path("events")], {"--panes": Path("panes"), "--report": None})
    >>> require_distinct([Path("events")], {"--panes": Path("./events")})
    Traceback (most recent call last):
    streammetrics.errors.ConfigError: --panes = events: is also given as FILE; choose another output file
    """
    named = [("FILE", file) for file in files]
    named += [(option, path) for option, path in outputs.items() if path is not None]
    problems = [
        Problem(option, str(path), f"is also given as {other}; choose another output file")
        for (other, first), (option, path) in combinations(named, 2)
        if option != "FILE" and (path.is_file() or not path.exists()) and _is_same(first, path)
    ]
    if problems:
        raise ConfigError(problems)


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths are the same file, also through links, and also if it does not exist yet."""
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))
