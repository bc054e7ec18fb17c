"""Output for people: tables on standard output, and progress on standard error.

Tables fit the terminal. In pipes and files they have a fixed width.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

from streammetrics.cli.output.standard_output import standard_output
from streammetrics.words.names import fit

PLAIN_WIDTH = 140
"""Width of output to a pipe or a file."""
_ANY_WIDTH = 100_000


def output_console() -> Console:
    """Return a console on standard output that prints text literally, without markup. Raises StreammetricsError if it is closed."""
    return Console(highlight=False, markup=False, emoji=False, width=None if standard_output().isatty() else PLAIN_WIDTH)


def print_lines(console: Console, lines: Iterable[RenderableType]) -> None:
    """Print lines and tables. A line with a setting is not wrapped, so that it can be copied."""
    for line in lines:
        console.print(line, soft_wrap=isinstance(line, Text) and "[experiments.named." in line.plain)


class FittingTable:
    """A table that becomes a list of rows if the terminal is too narrow, so that no name is wrapped and no number cut.

    `words` are left-aligned columns that identify a row; `numbers` are right-aligned. `grouped` prints the first word once for rows
    that share it. `apart` adds blank lines around the table.
    """

    def __init__(
        self, words: tuple[str, ...], numbers: tuple[str, ...], last: tuple[str, ...] = (), *, grouped: bool = False, apart: bool = True
    ) -> None:
        self._headings = [" ".join(heading.split()) for heading in (*words, *numbers, *last)]
        self._words, self._grouped, self._apart = len(words), grouped, apart
        self._rows: list[list[Text]] = []
        self._table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=apart)
        for heading in (*words, *numbers, *last):
            self._table.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=True)

    def add_row(self, *cells: str | Text) -> None:
        """Add a row. Strings are sanitized; a Text is used unchanged."""
        row = [Text(fit(cell)) if isinstance(cell, str) else cell for cell in cells]
        is_repeated = self._grouped and bool(self._rows) and self._rows[-1][0] == row[0]
        self._rows.append(row)
        self._table.add_row(*([Text(), *row[1:]] if is_repeated else row))

    def add_section(self) -> None:
        """Add a blank line after the last row."""
        self._table.add_section()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        natural = Measurement.get(console, options.update(max_width=_ANY_WIDTH), self._table).maximum
        if natural <= options.max_width:
            yield self._table
        else:
            blank = [Text()] if self._apart else []
            yield from (*blank, *self._lines(), *blank)

    def _lines(self) -> Iterator[Text | Padding]:
        for row in self._rows:
            words, others = row[: self._words], zip(self._headings[self._words :], row[self._words :], strict=False)
            yield Text(" · ").join([word for word in words if word.plain])
            if cells := [Text.assemble((f"{heading} ", "dim"), cell) for heading, cell in others if cell.plain]:
                yield Padding(Text(" · ").join(cells), (0, 0, 0, 2))


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
