"""Verdicts as rows of a table, one per change: of an experiment since its start (empty `variant`), and of each compared variant. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from streammetrics.experiments import SINCE_START, ExperimentReport
from streammetrics.reports.report import Report


class VerdictRow(NamedTuple):
    """A verdict. `up_to_ms` is the event time up to which lists count in it; `reason` explains it for people, with `parts` as JSON."""

    experiment: str
    scope: str
    variant: str
    verdict: str
    code: int
    reason: str
    up_to_ms: int
    parts: str

    @property
    def about(self) -> tuple[str, str, str]:
        """The experiment, the scope and the variant."""
        return self.experiment, self.scope, self.variant


def verdict_rows(experiment: ExperimentReport, up_to_ms: int) -> Iterator[VerdictRow]:
    """Yield one row for the experiment, and one per compared variant, each with its verdict now."""
    found = [("", experiment.verdict), *((each.variant, each.verdict) for each in experiment.variants if each.verdict is not None)]
    for variant, verdict in found:
        words = verdict.word, verdict.code, verdict.reason
        yield VerdictRow(experiment.experiment, experiment.scope, variant, *words, up_to_ms, msgspec.json.encode(verdict.parts).decode())


class ChangedVerdicts:
    """Finds the verdicts since the start that have changed since the last report, and all of those that it did not have."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], str] = {}

    def of(self, report: Report) -> list[VerdictRow]:
        """Return the changed verdicts of the next report."""
        if report.entered_ms is None:
            return []
        rows = [row for each in report.experiments if each.scope == SINCE_START for row in verdict_rows(each, report.entered_ms)]
        before, self._known = self._known, {row.about: row.verdict for row in rows}
        return [row for row in rows if before.get(row.about) != row.verdict]
