"""The settings that change numbers, and the line that stands for all of them in stored state."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from streammetrics.engine.supported_time import SupportRules
from streammetrics.enrolment.rules import EnrolmentRules
from streammetrics.events.grades import GradeRules


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRules(EnrolmentRules):
    """Every setting that changes numbers. Times are in milliseconds.

    `support` says when the times of events move a watermark. `future_ms`: None switches the check off. `decoding` describes how bytes
    become events; state made with another decoding does not match.
    """

    topics: tuple[str, ...]
    grades: GradeRules
    out_of_orderness_ms: int = 5_000
    lateness_ms: int = 60_000
    future_ms: int | None = None
    support: SupportRules = field(default_factory=SupportRules)
    retention_ms: int = 90_000_000
    groups_max: int = 1_000
    decoding: str = "native"

    @property
    def jump_ms(self) -> int:
        """How far one event moves the time of its input (ms)."""
        return self.support.jump_within(self.out_of_orderness_ms + self.lateness_ms)

    def describe(self) -> str:
        """Return one line with every rule. Stored state carries it, so that state of different rules is never merged."""
        return (
            f"grades[{self.grades.text}] {self.join.describe()} out_of_orderness={self.out_of_orderness_ms} "
            f"lateness={self.lateness_ms} future={self.future_ms} {self.support.describe()} pane={self.pane_ms} "
            f"segments[{listed(self.segments)}] events[{self.decoding}]"
        )


def listed(names: Iterable[str]) -> str:
    """Join names with commas. A name with a comma, quote or bracket is written as JSON, so that different lists never read the same.

    >>> listed(["surface", "app version"]), listed(["a", "b"]), listed(["a,b"])
    ('surface,app version', 'a,b', '"a,b"')
    """
    return ",".join(json.dumps(name) if any(mark in name for mark in ',"[]') else name for name in names)
