"""What all parts print with: the console, the line of progress, and goals."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console

Say: TypeAlias = Callable[[str], None]

console = Console(width=None if sys.stdout.isatty() else 130, highlight=False)


def goal(reached: bool, text: str) -> str:
    return f"{'reached' if reached else 'NOT reached'}: {text}"


@contextmanager
def progress() -> Iterator[Say]:
    """One line that says what is going on, on a terminal only."""
    if console.is_terminal:
        with console.status("") as status:
            yield status.update
    else:
        yield lambda text: None
