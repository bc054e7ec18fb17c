"""What the words of the command line may be, where click has no type for it. Words in, values out; no file is touched."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import click


class FiniteFloatRange(click.FloatRange):
    """A number within bounds that is one: NaN lies outside of no bounds, and infinity within those that are open.

    >>> FiniteFloatRange(min=0).convert("0.5", None, None)
    0.5
    >>> FiniteFloatRange(min=0).convert("nan", None, None)
    Traceback (most recent call last):
    click.exceptions.BadParameter: nan is not a finite number.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number. Raises click.BadParameter."""
        number = click.FLOAT.convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return float(super().convert(number, param, ctx))


class OutputFile(click.Path):
    """A file to write, which standard output is not: elsewhere `-` means that, and so no file is called so by mistake.

    >>> OutputFile().convert("-", None, None)
    Traceback (most recent call last):
    click.exceptions.BadParameter: standard output is for what people read; name a file (./- if it is to be called so).
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Raises click.BadParameter."""
        if value == "-":
            self.fail("standard output is for what people read; name a file (./- if it is to be called so).", param, ctx)
        return super().convert(value, param, ctx)
