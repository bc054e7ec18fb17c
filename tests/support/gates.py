"""Reports with experiments that pass, fail or wait at the gate, with an age, for its tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from streammetrics.experiments import ExperimentReport, Policy, build_report
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.reports.report import Report
from streammetrics.runtime.status import ProcessStatus
from tests.support.columns import MEASURES
from tests.support.committed_state import START_MS, Now, two_variants
from tests.support.experiment_samples import experiment, stored

SAME, WORSE = {"control": 0.5, "treatment": 0.5}, {"control": 0.5, "treatment": 0.4}
MINUTE_MS = 60_000


def passing(name: str = "good") -> ExperimentReport:
    return experiment(SAME, name=name, users=9_000)


def failing(name: str = "bad") -> ExperimentReport:
    return experiment(WORSE, name=name)


def waiting(name: str = "young") -> ExperimentReport:
    kept = stored(SAME, name=name, users={"control": 110, "treatment": 95})
    return build_report(MEASURES, Policy(paging=("ndcg@10",)), kept, {})


def report_at(now_ms: int, *experiments: ExperimentReport, age_ms: int = 0) -> Report:
    """A report whose watermark is `age_ms` older than it has to be at `now_ms`. Its experiments end as far behind it as usual."""
    base = two_variants().report()
    watermark_ms = now_ms - base.settings["out_of_orderness_ms"] - age_ms
    entered_ms = watermark_ms - sum(base.settings[name] for name in ("lateness_ms", "attribution_ms", "pane_ms"))
    experiment_reports = experiments or (passing(), failing(), waiting())
    by_name = {experiment.experiment: experiment for experiment in experiment_reports}
    return replace(
        base,
        watermark_ms=watermark_ms,
        entered_ms=entered_ms,
        experiments=experiment_reports,
        since=lambda name, scope, since_ms: by_name.get(name),
    )


def gate_answers(
    now_ms: int | None = None, status: ProcessStatus | None = None, clock: Callable[[], float] | None = None, *, loop: bool = True
) -> HttpAnswers:
    """Views without a report. `now_ms` is the time of day that they see; None: the real one."""
    pipeline = two_variants()
    wall_ms: Callable[[], int] = (lambda: time.time_ns() // 1_000_000) if now_ms is None else (lambda: now_ms)
    return HttpAnswers(pipeline.exposition(status, loop=loop), clock or Now(), wall_ms=wall_ms)


def shown_answers(*experiments: ExperimentReport) -> HttpAnswers:
    """Views with a report at the real time of day."""
    answers = gate_answers()
    answers.show(report_at(time.time_ns() // 1_000_000, *experiments))
    return answers


def at(later_ms: int, *experiments: ExperimentReport) -> Report:
    """A report that is recent at START_MS. Its experiments are up to an event time, and so much later."""
    report = report_at(START_MS, *experiments)
    assert report.entered_ms is not None
    return replace(report, entered_ms=report.entered_ms + later_ms, experiments=experiments)
