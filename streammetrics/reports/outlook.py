"""Adds what undecided variants still need to a report, with the time that it takes at the present rate of new users. Pure.

It is computed when a report is shown, because it costs milliseconds per variant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streammetrics.events.event_time import DAY_MS
from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.experiment_report import SINCE_START
from streammetrics.experiments.needed import with_needed
from streammetrics.reports.history import History, HistorySeries

HOUR_MS: Final = 3_600_000
RATE_MS_MIN: Final = 5 * 60_000
"""Shortest time in which new users are counted."""


def with_outlook(experiments: Iterable[ExperimentReport], history: History) -> tuple[ExperimentReport, ...]:
    """Return the experiments with `needed` in the scope since their start. The scope of a day ends before most verdicts."""
    return tuple(
        with_needed(experiment, users_per_hour(history.of(experiment.experiment, experiment.scope)))
        if experiment.scope == SINCE_START
        else experiment
        for experiment in experiments
    )


def users_per_hour(series: HistorySeries) -> float | None:
    """Return the rate of new users of all variants, per hour of event time; None if the history does not show it.

    It is that of the last day, so that it covers all hours. In a run of less than two days it is that of the later half, because most
    users of an experiment come for the first time early.
    """
    kept = series.snapshots.kept
    if not kept:
        return None
    last_ms, last = kept[-1]
    from_ms = last_ms - min(DAY_MS, (last_ms - kept[0][0]) // 2)
    first_ms, first = next((series for series in kept if series[0] >= from_ms), kept[-1])
    users = last.users - first.users
    return users * HOUR_MS / (last_ms - first_ms) if users > 0 and last_ms - first_ms >= RATE_MS_MIN else None
