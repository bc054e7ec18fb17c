"""The settings that change numbers. Nothing is computed here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from streammetrics.engine.supported_time import SupportRules
from streammetrics.enrolment.runs import ExperimentRules
from streammetrics.events.grades import GradeRules
from streammetrics.events.model import Labels
from streammetrics.sessions.rules import JoinRules
from streammetrics.windows.examination import ExaminationRules
from streammetrics.windows.unique_users import UniqueUserRules


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRules:
    """Every setting that changes numbers. Times are in milliseconds.

    `support` says when the times of events move a watermark. `future_ms`: None switches the check off. `experiments`: None means that
    no users are counted in experiments; experiments still have windows and totals, as every group does. `unique_users`: None means that
    no unique users are counted. `examination`: None means that no examination curve is estimated; it needs experiments. `decoding`
    describes how bytes become events; state made with another decoding does not match.
    """

    topics: tuple[str, ...]
    grades: GradeRules
    join: JoinRules = field(default_factory=JoinRules)
    out_of_orderness_ms: int = 5_000
    lateness_ms: int = 60_000
    future_ms: int | None = None
    support: SupportRules = field(default_factory=SupportRules)
    pane_ms: int = 60_000
    retention_ms: int = 90_000_000
    segments: tuple[str, ...] = ()
    groups_max: int = 1_000
    experiments: ExperimentRules | None = None
    unique_users: UniqueUserRules | None = None
    examination: ExaminationRules | None = None
    decoding: str = "native"

    @property
    def jump_ms(self) -> int:
        """How far one event moves the time of its input (ms)."""
        return self.support.jump_within(self.out_of_orderness_ms + self.lateness_ms)

    @property
    def enrolment_wait_ms(self) -> int:
        """How long a list waits for its session to close before it is enrolled without. The wait begins at the end of the list's pane."""
        return self.join.attribution_ms + max(
            [rules.patience_ms for rules in (self.experiments, self.unique_users) if rules is not None], default=0
        )

    @property
    def users_counted(self) -> bool:
        """Whether users are counted at all: in experiments, in windows, or both."""
        return self.unique_users is not None or self.experiments is not None

    def counts_users(self, experiments: Labels) -> bool:
        """Whether the users of a list with these experiments are counted."""
        return self.unique_users is not None or (self.experiments is not None and bool(experiments))

    def describe(self) -> str:
        """Return one line with every rule. Stored state carries it, so that state of different rules is never merged."""
        join, engagement, exposures = self.join, self.join.engagement, self.join.exposures
        return (
            f"grades[{self.grades.text}] gap={join.gap_ms} attribution={join.attribution_ms} session_events={join.session_events_max} "
            f"lists_open={join.lists_open_max} items={join.items_max} out_of_orderness={self.out_of_orderness_ms} "
            f"lateness={self.lateness_ms} future={self.future_ms} {self.support.describe()} pane={self.pane_ms} "
            f"segments[{listed(self.segments)}] events[{self.decoding}]{'' if engagement is None else engagement.describe()}"
            f"{'' if exposures is None else exposures.describe()}"
        )


def listed(names: Iterable[str]) -> str:
    """Join names with commas. A name with a comma, quote or bracket is written as JSON, so that different lists never read the same.

    >>> listed(["surface", "app version"]), listed(["a", "b"]), listed(["a,b"])
    ('surface,app version', 'a,b', '"a,b"')
    """
    return ",".join(json.dumps(name) if any(mark in name for mark in ',"[]') else name for name in names)
