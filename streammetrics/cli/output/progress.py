"""Progress on standard error while a command works: a bar, or one line that changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.text import Text


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
    with Progress(TextColumn("{task.description}"), BarColumn(), *columns, console=console, transient=True) as bar:
        yield partial(bar.update, bar.add_task(title, total=total, **fields))


def _ignore(**fields: Any) -> None:
    """Show nothing."""


@contextmanager
def changing_line() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a line in the place of the last one. Without a terminal, each new line is printed below the last."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=not sys.stderr.isatty())
    if console.is_terminal:
        with console.status("") as status:
            yield lambda line: status.update(Text(line, overflow="ellipsis", no_wrap=True))
        return
    last = ""

    def show(line: str) -> None:
        nonlocal last
        if line != last:
            console.print(line)
        last = line

    yield show
