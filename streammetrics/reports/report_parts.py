"""A part of a report, for a page that shows one experiment at a time: what a large deployment counts is megabytes, and a part is not. Pure.

It has the verdicts on all experiments, and the numbers of those that are chosen, of one window and one segment value. The page has the
rest from `published.report_state`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.experiment_report import SINCE_START, worst_first
from streammetrics.metrics import TallyLayout
from streammetrics.reports.explanation import explanations
from streammetrics.reports.explanation_values import Explanation
from streammetrics.reports.history import History, HistorySeries
from streammetrics.reports.published import (
    GroupTotals,
    Published,
    UserWindow,
    WindowNumbers,
    totals_of,
    user_windows_of,
    windows_of,
)
from streammetrics.reports.report import Report
from streammetrics.reports.verdict_lines import VerdictLine, verdict_lines
from streammetrics.windows.panes import Group, Window
from streammetrics.words.times import HOUR_MS

OPEN_MAX: Final = 3
"""Up to this many experiments are all chosen if none is named; of more only the worst."""


@dataclass(frozen=True, slots=True)
class ReportChoice:
    """What the part `experiments` is about.

    No names: see OPEN_MAX. No window: the longest of at most an hour. segment: `name=value`. day: of the newest day, not since the start.
    """

    experiments: tuple[str, ...] = ()
    window_ms: int | None = None
    segment: str = ""
    day: bool = False


class ReportExperiments(Published, frozen=True):
    """The verdicts on all experiments, and the chosen numbers. The other fields are those of `PublishedReport`."""

    experiment_names: tuple[str, ...]
    segments: tuple[str, ...]
    scopes: tuple[str, ...]
    windows: tuple[WindowNumbers, ...]
    user_windows: tuple[UserWindow, ...]
    totals: tuple[GroupTotals, ...]
    experiments: tuple[ExperimentReport, ...]
    experiments_entered_ms: int | None
    verdicts: tuple[VerdictLine, ...]
    explanations: tuple[Explanation, ...]
    history: tuple[HistorySeries, ...]


def report_experiments(
    report: Report, layout: TallyLayout, history: History, experiments: Sequence[ExperimentReport], choice: ReportChoice
) -> ReportExperiments:
    """Return the verdicts on all experiments, and the chosen numbers. `experiments` are those of the report with their outlook."""
    names, segments = _names(report, experiments), _segments(report.windows)
    chosen = {*(choice.experiments or names[: 1 if len(names) > OPEN_MAX else None]), ""}
    window_ms = choice.window_ms if choice.window_ms is not None else _usual_window(report.windows)
    scoped = [experiment for experiment in experiments if (experiment.scope != SINCE_START) == choice.day]
    part = replace(
        report,
        experiments=tuple(experiment for experiment in scoped if experiment.experiment in chosen),
        windows=tuple(_only(window, chosen, choice.segment if window.window_ms == window_ms else None) for window in report.windows),
        user_windows=tuple(
            replace(window, arms=tuple(arm for arm in window.arms if window.window_ms == window_ms and arm.arm[0] in chosen))
            for window in report.user_windows
        ),
        totals=tuple(total for total in report.totals if total.experiment in chosen),
    )
    return ReportExperiments(
        experiment_names=tuple(names),
        segments=tuple(segments),
        scopes=tuple(sorted({experiment.scope for experiment in experiments})),
        windows=windows_of(part.windows),
        user_windows=user_windows_of(part.user_windows),
        totals=totals_of(part.totals, layout),
        experiments=tuple(worst_first(part.experiments)),
        experiments_entered_ms=report.entered_ms,
        verdicts=tuple(line for line in verdict_lines(scoped, report.up_to_ms) if not line.variant or line.experiment in chosen),
        explanations=tuple(explanations(part, layout)),
        history=tuple(series for series in history.series if series.experiment in chosen),
    )


def _names(report: Report, experiments: Sequence[ExperimentReport]) -> list[str]:
    """Return the names of all experiments: the worst first, then those with windows only."""
    judged = [experiment.experiment for experiment in worst_first(experiments)]
    counted = sorted({values.group.experiment for window in report.windows for values in window.groups} - {"", *judged})
    return [*dict.fromkeys(judged), *counted]


def _segments(windows: Sequence[Window]) -> list[str]:
    return sorted({_segment(values.group) for window in windows for values in window.groups})


def _segment(group: Group) -> str:
    return f"{group.segment}={group.value}" if group.segment else ""


def _usual_window(windows: Sequence[Window]) -> int | None:
    lengths = [window.window_ms for window in windows]
    return max((length for length in lengths if length <= HOUR_MS), default=min(lengths, default=None))


def _only(window: Window, experiments: set[str], segment: str | None) -> Window:
    """Return a window with the groups of these experiments and this segment value; with no groups if `segment` is None."""
    if segment is None:
        return replace(window, groups=())
    return replace(window, groups=tuple(v for v in window.groups if v.group.experiment in experiments and _segment(v.group) == segment))
