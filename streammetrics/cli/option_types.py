"""Option types that click lacks. They only convert text to values; they open no file."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any, Final

import click


class FiniteFloatRange(click.FloatRange):
    """A finite number within bounds. click.FloatRange itself accepts NaN, and infinity if a bound is missing.

    >>> FiniteFloatRange(min=0).convert("0.5", None, None)
    0.5
    >>> FiniteFloatRange(min=0).convert("nan", None, None)
    Traceback (most recent call last):
    click.exceptions.BadParameter: nan is not a finite number.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises click.BadParameter."""
        number = click.FLOAT.convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return float(super().convert(number, param, ctx))


PAGE_SUFFIXES: Final = (".html", ".htm", ".xhtml", ".xht", ".svg")
"""A browser runs what is inside a file of such a name."""


class OutputFile(click.Path):
    """A file to write. `-` is rejected, because elsewhere it means standard output.

    The name of a page is rejected: the file holds data with text of strangers, which a browser would run.

    >>> OutputFile().convert("-", None, None)
    Traceback (most recent call last):
    click.exceptions.BadParameter: standard output is not allowed here; give a file (./- for a file named -).
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises click.BadParameter."""
        if value == "-":
            self.fail("standard output is not allowed here; give a file (./- for a file named -).", param, ctx)
        name = os.fsdecode(value)
        if name.lower().endswith(PAGE_SUFFIXES):
            self.fail(f"{name} is the name of a page, and this file holds data; choose another name", param, ctx)
        if name.lower().endswith(".parquet"):
            self.fail(
                f"{name} is the name of a Parquet file, and this file holds JSON; name it .ndjson, which pandas and DuckDB read", param, ctx
            )
        return super().convert(value, param, ctx)


class ReportFile(click.Path):
    """A report to read: a file, or `-` for standard input. The address of an exporter is rejected.

    >>> ReportFile().convert("http://exporter:9464", None, None)
    Traceback (most recent call last):
    click.exceptions.BadParameter: http://exporter:9464 is an address; use --url http://exporter:9464
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path, allow_dash=True)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises click.BadParameter."""
        name = os.fsdecode(value)
        if name.lower().startswith(("http://", "https://")):
            self.fail(f"{name} is an address; use --url {name}", param, ctx)
        return super().convert(value, param, ctx)


def span_seconds(context: click.Context | None, option: click.Parameter | None, given: str | None) -> float | None:
    """Return the seconds of a span of time such as 90s, 15m or 2h. Raises click.BadParameter.

    >>> span_seconds(None, None, "15m")
    900.0
    >>> span_seconds(None, None, "soon")
    Traceback (most recent call last):
    click.exceptions.BadParameter: 'soon': a duration is a whole number with ms, s, m, h or d, such as 5m
    """
    from streammetrics.config.times import parse_duration  # noqa: PLC0415  slow import

    try:
        return None if given is None else parse_duration(given).ms / 1_000
    except ValueError as error:
        raise click.BadParameter(f"{given!r}: {error}", context, option) from None


def moment_ms(context: click.Context | None, option: click.Parameter | None, given: str | None) -> int | None:
    """Return a time (epoch ms): one with its zone, or a span ago such as 40m. Raises click.BadParameter.

    >>> moment_ms(None, None, "2024-11-21T10:00Z")
    1732183200000
    >>> moment_ms(None, None, "noon")
    Traceback (most recent call last):
    click.exceptions.BadParameter: 'noon': a time has a date and a zone, such as 2026-02-01T09:00:00Z; a span ago is such as 40m
    """
    from streammetrics.words.times import parse_since  # noqa: PLC0415  slow import

    if given is None:
        return None
    try:
        return parse_since(given, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise click.BadParameter(f"{given!r}: {error}", context, option) from None
