"""A progress bar on standard error while a command works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn


@contextmanager
def progress_bar(
    title: str, *columns: ProgressColumn, total: float | None = None, wanted: bool = True, **fields: Any
) -> Iterator[Callable[..., None]]:
    """Show a progress bar, and yield its `Progress.update`, which takes `completed`, `total` and the fields of columns.

    Without a terminal on standard error, or with `wanted` False, nothing is shown.
    """
    console = Console(stderr=True)
    if not wanted or not console.is_terminal:
        yield _ignore
        return
    with Progress(TextColumn(title), BarColumn(), *columns, console=console, transient=True) as bar:
        yield partial(bar.update, bar.add_task(title, total=total, **fields))


def _ignore(**fields: Any) -> None:
    """Show nothing."""
