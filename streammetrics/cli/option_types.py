"""Option types that click lacks. They only convert text to values; they open no file."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

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


class OutputFile(click.Path):
    """A file to write. `-` is rejected, because elsewhere it means standard output.

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
