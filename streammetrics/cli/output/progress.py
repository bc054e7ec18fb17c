"""A bar of how much is done, on standard error, for as long as a command works. What it counts is said by the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn


@contextmanager
def progress_bar(
    what: str, *columns: ProgressColumn, total: float | None = None, wanted: bool = True, **fields: Any
) -> Iterator[Callable[..., None]]:
    """Yields what is to be told how much is done, as `Progress.update` takes it: `completed`, `total`, and the fields of columns.

    Nothing is shown where standard error is no terminal, or no bar is wanted.
    """
    console = Console(stderr=True)
    if not wanted or not console.is_terminal:
        yield _nothing
        return
    with Progress(TextColumn(what), BarColumn(), *columns, console=console, transient=True) as bar:
        yield partial(bar.update, bar.add_task(what, total=total, **fields))


def _nothing(**done: Any) -> None:
    """Shown to nobody."""
