"""The forms of the table: a threshold, a recorded series, an alert, an inhibition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["critical", "warning"]
Dashboard: TypeAlias = Literal["experiment", "ranking", "pipeline"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number to compare with. `is_seconds` marks a span of time; tests shorten all spans by the same factor."""

    name: str
    value: float
    meaning: str
    is_seconds: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording rule. The name has three parts: labels, series, and operation."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule. An alert with two severities has two entries with one name, and the critical one silences the other.

    The expression must hold for the span `waits`. The alert then stays for `keeps` after the expression held last. A cause stays
    longer than its consequences, so that these do not page after its end.
    """

    name: str
    severity: Severity
    waits: str
    expression: str
    summary: str
    description: str
    dashboard: Dashboard = "pipeline"
    keeps: str = ""


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While `source` fires, its consequences in `targets` are silent, if their `equal` labels are the same."""

    source: str
    targets: tuple[str, ...]
    equal: tuple[str, ...] = ("job",)
