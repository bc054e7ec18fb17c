"""A finding of `doctor`, and how it is printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

import click

from streammetrics.words.names import fit

Level: TypeAlias = Literal["ok", "warn", "fail"]
COLOURS: dict[Level, str] = {"ok": "green", "warn": "yellow", "fail": "red"}


class DoctorFinding(NamedTuple):
    """One result of a check, and how to fix it if it is a problem."""

    level: Level
    text: str
    fix: str = ""


def print_findings(title: str, findings: Iterable[DoctorFinding]) -> Iterator[Level]:
    """Print the findings under their title, and yield their levels."""
    heading = f"\n{title}"
    for level, text, fix in findings:
        if heading:
            click.secho(heading, bold=True)
            heading = ""
        click.echo(f"  {click.style(f'{level:<4}', fg=COLOURS[level], bold=level != 'ok')}  {_fit_lines(text)}")
        if fix:
            click.echo(f"        fix: {_fit_lines(fix)}")
        yield level


def _fit_lines(text: str) -> str:
    """Return lines that are safe to display: names and errors of others may hold control characters."""
    return "\n".join(map(fit, text.split("\n")))
