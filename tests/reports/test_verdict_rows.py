"""Verdicts as rows: which of them a report changes."""

from __future__ import annotations

from dataclasses import replace

from streammetrics.experiments import ExperimentReport
from streammetrics.reports.verdict_rows import ChangedVerdicts
from tests.support.committed_state import START_MS
from tests.support.gates import failing, report_at, waiting


def test_a_verdict_is_a_change_once_and_again_after_its_experiment_was_gone() -> None:
    changed = ChangedVerdicts()

    def words(*experiments: ExperimentReport) -> list[str]:
        report = replace(report_at(START_MS), experiments=experiments)
        return [row.verdict for row in changed.of(report) if not row.variant]

    assert words(waiting("ranker")) == ["inconclusive"]
    assert words(waiting("ranker")) == []
    assert words(failing("ranker")) == ["regressed"]
    assert words() == []
    assert words(failing("ranker")) == ["regressed"], "what has ended is forgotten, so that names do not pile up"
