"""The report as `/api/report` serves it: typed values. What writes and reads reports, and the description of the API, share them. Pure.

Times are epoch milliseconds of event time; absent ones are null. A field that is not known here is refused.

A part of it is for a page that shows one experiment at a time: what a large deployment counts is megabytes. It has the verdicts on all
experiments, and the numbers of those that are chosen, of one window and one segment value. The rest comes from `report_state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.experiment_report import SINCE_START, worst_first
from streammetrics.metrics import TallyLayout
from streammetrics.metrics.names import metric_text
from streammetrics.metrics.records import METRICS
from streammetrics.reports.data_warnings import UnknownName
from streammetrics.reports.explanation import explanations
from streammetrics.reports.explanation_values import Explanation
from streammetrics.reports.first_numbers import AwaitedExperiment, FirstNumber
from streammetrics.reports.history import History, HistorySeries
from streammetrics.reports.input_warnings import LateInput, SortedInput, UserPartitions
from streammetrics.reports.outlook import with_outlook
from streammetrics.reports.report import InputPosition, Report, Total, counts_by_reason, refused_counts
from streammetrics.reports.verdict_lines import VerdictLine, verdict_lines
from streammetrics.version import __version__
from streammetrics.windows.panes import Group, Window, WindowView
from streammetrics.windows.unique_users import UniqueUserWindow
from streammetrics.words.names import group_order
from streammetrics.words.sentences import Words
from streammetrics.words.times import HOUR_MS

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Counts: TypeAlias = Mapping[str, Count]
Means: TypeAlias = Mapping[str, float]
OPEN_MAX: Final = 3
"""Up to this many experiments are all chosen if none is named; of more only the worst."""


class ApiValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value of the API, with exactly its fields."""


class GroupTotals(ApiValue, frozen=True):
    """All final lists of a variant. Both names are empty for all traffic."""

    experiment: str
    variant: str
    lists: Count
    lists_with_feedback: Count
    values: Means
    values_with_feedback: Means


class GroupNumbers(GroupTotals, frozen=True):
    """The lists of a variant in one window, in total or of one segment value."""

    segments: Mapping[str, str]


class WindowNumbers(ApiValue, frozen=True):
    """One window in one view."""

    window_ms: Count
    view: WindowView
    end_ms: int | None
    complete: bool
    groups: tuple[GroupNumbers, ...]


class GroupUsers(ApiValue, frozen=True):
    """The unique users of a variant in one window, users with a hit, and the rate of both, by `user_hit_rate@k`."""

    experiment: str
    variant: str
    users: Count
    users_with_hit: Counts
    values: Means


class UserWindow(ApiValue, frozen=True):
    """The unique users of one window."""

    window_ms: Count
    end_ms: int | None
    complete: bool
    groups: tuple[GroupUsers, ...]


class TopicCount(ApiValue, frozen=True):
    """The events of a topic with one outcome."""

    reason: str
    topic: str
    count: Count


class MetricFacts(ApiValue, frozen=True):
    """How a metric is called, and its greatest value; null if there is no bound. The least value is 0."""

    label: str
    ceiling: Count | None


class ReportState(ApiValue, frozen=True):
    """What a report says about the pipeline, without the numbers of experiments. `settings` are those that change numbers.

    `metrics` has each metric by its name without a cut-off.
    """

    warnings: tuple[str, ...]
    version: str
    settings: Mapping[str, Any]
    metrics: Mapping[str, MetricFacts]
    rules: str
    tasks: Count
    tasks_committed: Count
    watermark_ms: int | None
    final_ms: int | None
    ended: bool
    late_inputs: tuple[LateInput, ...]
    sorted_inputs: tuple[SortedInput, ...]
    inputs: tuple[InputPosition, ...]
    counters: Counts
    refused: Counts
    counters_by_topic: tuple[TopicCount, ...]
    users_open: Count
    sessions_open: Count
    windows_withheld: Count
    unknown_names: tuple[UnknownName, ...]
    ignored: tuple[UnknownName, ...]
    user_partitions: UserPartitions | None
    awaited: tuple[AwaitedExperiment, ...]
    first_numbers: tuple[FirstNumber, ...]


class PublishedReport(ReportState, frozen=True):
    """The whole report."""

    windows: tuple[WindowNumbers, ...]
    user_windows: tuple[UserWindow, ...]
    totals: tuple[GroupTotals, ...]
    experiments: tuple[ExperimentReport, ...]
    experiments_entered_ms: int | None
    verdicts: tuple[VerdictLine, ...]
    explanations: tuple[Explanation, ...]
    history: tuple[HistorySeries, ...]


def published(report: Report, layout: TallyLayout, history: History) -> PublishedReport:
    """Return the report with its history, as `/api/report` serves it."""
    experiments = with_outlook(report.experiments, history)
    return PublishedReport(
        **msgspec.structs.asdict(report_state(report, layout)),
        windows=windows_of(report.windows),
        user_windows=user_windows_of(report.user_windows),
        totals=totals_of(report.totals, layout),
        experiments=tuple(worst_first(experiments)),
        experiments_entered_ms=report.entered_ms,
        verdicts=verdict_lines(experiments, report.up_to_ms),
        explanations=tuple(explanations(report, layout)),
        history=history.series,
    )


def report_state(report: Report, layout: TallyLayout) -> ReportState:
    """Return the report without windows, totals and experiments."""
    reasons = counts_by_reason(report.counts)
    return ReportState(
        warnings=tuple(map(str, report.warnings())),
        version=__version__,
        settings=report.settings,
        metrics=metric_facts(layout),
        rules=report.rules,
        tasks=report.tasks,
        tasks_committed=report.tasks_committed,
        watermark_ms=report.watermark_ms,
        final_ms=report.final_ms,
        ended=report.ended,
        late_inputs=report.late_inputs,
        sorted_inputs=report.sorted_inputs,
        inputs=report.inputs,
        counters=dict(sorted(reasons.items())),
        refused=refused_counts(reasons),
        counters_by_topic=tuple(
            TopicCount(reason=reason, topic=topic, count=count) for (reason, topic), count in sorted(report.counts.items())
        ),
        users_open=report.users_open,
        sessions_open=report.sessions_open,
        windows_withheld=report.withheld,
        unknown_names=report.unknown_names,
        ignored=report.ignored,
        user_partitions=report.user_partitions,
        awaited=tuple(verdict.shown() for verdict in report.awaited),
        first_numbers=report.first_numbers,
    )


def metric_facts(layout: TallyLayout) -> dict[str, MetricFacts]:
    """Return the facts of all metrics that a report with this layout may name, in order.

    >>> from streammetrics.metrics import Scorer
    >>> [(name, facts.label) for name, facts in metric_facts(TallyLayout(Scorer(["hit_rate@5", "hit_rate@10"]))).items()]
    [('hit_rate', 'Hit rate'), ('user_hit_rate', 'User hit rate')]
    """
    names = {metric.name for metric in layout.metrics}
    names |= {METRICS[name].of_users for name in names}
    return {name: MetricFacts(label=record.label, ceiling=record.ceiling) for name, record in METRICS.items() if name in names}


def totals_of(totals: Iterable[Total], layout: TallyLayout) -> tuple[GroupTotals, ...]:
    """Return the values of totals."""
    return tuple(
        GroupTotals(
            experiment=total.experiment,
            variant=total.variant,
            lists=layout.lists(total.tally),
            lists_with_feedback=layout.lists_with_feedback(total.tally),
            values=layout.means(total.tally, "zero"),
            values_with_feedback=layout.means(total.tally, "with_feedback"),
        )
        for total in totals
    )


def windows_of(windows: Iterable[Window]) -> tuple[WindowNumbers, ...]:
    """Return windows with their groups in the order of names."""
    return tuple(
        WindowNumbers(
            window_ms=window.window_ms,
            view=window.view,
            end_ms=window.end_ms,
            complete=window.complete,
            groups=tuple(
                GroupNumbers(
                    experiment=values.group.experiment,
                    variant=values.group.variant,
                    segments=values.group.segments,
                    lists=values.lists,
                    lists_with_feedback=values.lists_with_feedback,
                    values=dict(values.values),
                    values_with_feedback=dict(values.values_with_feedback),
                )
                for values in sorted(window.groups, key=lambda values: group_order(values.group))
            ),
        )
        for window in windows
    )


def user_windows_of(windows: Iterable[UniqueUserWindow]) -> tuple[UserWindow, ...]:
    """Return windows of users with their variants in the order of names."""
    return tuple(
        UserWindow(
            window_ms=window.window_ms,
            end_ms=window.end_ms,
            complete=window.complete,
            groups=tuple(
                GroupUsers(
                    experiment=counts.arm[0],
                    variant=counts.arm[1],
                    users=counts.users,
                    users_with_hit={metric_text("user_hit_rate", k): users for k, users in counts.users_with_hit.items()},
                    values={metric_text("user_hit_rate", k): rate for k, rate in counts.hit_rates.items()},
                )
                for counts in sorted(window.arms, key=lambda counts: group_order(counts.arm))
            ),
        )
        for window in windows
    )


def plain(value: object) -> Any:
    """Return a value of the API as plain JSON values."""
    return msgspec.json.decode(_encode(value))


def encoded(value: object) -> bytes:
    """Return a value of the API as JSON."""
    return _encode(value)


def _without_parts(value: Any) -> str:
    if isinstance(value, Words):
        return value.text
    raise TypeError(f"no value of a report: {type(value).__name__}")


_encode = msgspec.json.Encoder(enc_hook=_without_parts).encode


def json_lines(value: object) -> bytes:
    """Return a value as indented JSON, with a line end.

    >>> json_lines({"lists": 2}).decode().split()
    ['{', '"lists":', '2', '}']
    """
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


@dataclass(frozen=True, slots=True)
class ReportChoice:
    """What the part `experiments` is about.

    No names: see OPEN_MAX. No window: the longest of at most an hour. segment: `name=value`. day: of the newest day, not since the start.
    """

    experiments: tuple[str, ...] = ()
    window_ms: int | None = None
    segment: str = ""
    day: bool = False


class ReportExperiments(ApiValue, frozen=True):
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
