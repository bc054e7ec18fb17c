"""A Report or the ProcessStatus of a process -> rows of series: a name of the table, label values in its order, a number.

No formats here, no clock, no client. Rows come with what matters most first, because what exceeds a limit is cut at the end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from streammetrics import __version__
from streammetrics.connectors.base import CommitOutcome
from streammetrics.events.outcomes import NOT_REFUSED, OUTCOMES, UNMATCHED
from streammetrics.exporters.prometheus.experiments import (
    ControlOf,
    control_by_convention,
    experiment_groups,
    experiment_rows,
    roles,
)
from streammetrics.exporters.prometheus.labels import Counters, LabelNames, ShownGroup
from streammetrics.exporters.prometheus.series import sum_series, value_series
from streammetrics.metrics import TallyLayout
from streammetrics.reports.report import Report, Total
from streammetrics.runtime.status import COMMIT_BUCKETS_SECONDS, ProcessStatus
from streammetrics.windows.panes import Group, GroupValues, Window

COMMIT_STATUSES = (*(outcome.value for outcome in CommitOutcome), "failed")

COUNTED_ALONE = {fate.name: f"streammetrics_{fate.series}_total" for fate in OUTCOMES if fate.series}
"""The reasons that have a series of their own; `late` is one of dropped events too."""

_OF_A_NODE = tuple(f"streammetrics_store_{what}" for what in ("memory_bytes", "memory_limit_bytes", "evicts", "forgets"))
"""The series of what a `StoreNode` says after its name, in its order."""


class SampleRow(NamedTuple):
    """One series now. The samples of a histogram are rows too: `labels` then ends with the suffix and the bucket's bound."""

    series: str
    labels: tuple[str, ...]
    value: float


class Sum(NamedTuple):
    """A counter of whole numbers, shown divided by 2**scale_bits."""

    series: str
    labels: tuple[str, ...]
    scale_bits: int = 0

    def row(self, value: int) -> SampleRow:
        return SampleRow(self.series, self.labels, value / (1 << self.scale_bits) if self.scale_bits else value)


class _Kept:
    """The rows of a page, by name, because a series that comes twice would make Prometheus refuse it; and how many were left out."""

    def __init__(self, rows_max: int, left_out: int) -> None:
        self._rows_max, self.left_out = rows_max, left_out
        self.rows: dict[tuple[str, tuple[str, ...]], SampleRow] = {}

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= self._rows_max

    def add(self, rows: Iterable[SampleRow]) -> None:
        for row in rows:
            name = row.series, row.labels
            if name in self.rows or len(self.rows) >= self._rows_max:
                self.left_out += 1
            else:
                self.rows[name] = row


class ReportRows:
    """Makes rows of one report after the other, so that names and counters stay steady between them."""

    def __init__(
        self, layout: TallyLayout, window_names: Mapping[int, str], label_values_max: int, control_of: ControlOf = control_by_convention
    ) -> None:
        self._layout = layout
        self._metrics = {str(metric): metric for metric in layout.scorer.metrics}
        self._window_names = window_names
        self._names = LabelNames(label_values_max)
        self._control_of = control_of
        self._events, self._totals = Counters[Sum](), Counters[Sum]()

    def take(self, report: Report, rows_max: int) -> tuple[list[SampleRow], int]:
        """The first rows of a report, each series once, and how many series were left out: beyond the limit, or because of their names."""
        live = {values.group for window in report.windows for values in window.groups}
        live |= {Group(*reached.arm) for window in report.user_windows for reached in window.arms}
        resting = {Group(total.experiment, total.variant) for total in report.totals}
        groups = self._names.assign(live, resting | {*experiment_groups(report.experiments)})
        of_experiments, folded = experiment_rows(report.experiments, groups)
        of_users, folded_users = _user_rows(report, self._window_names, groups)
        by_group = _by_group(report.windows)
        page = _Kept(rows_max, folded + folded_users)
        page.add(self._state_rows(report))
        page.add(SampleRow(*row) for row in of_experiments)
        self._add_values(page, (pair for pair in by_group if not pair[0].group.segment), groups)
        page.add(of_users)
        page.add(self._total_rows(report, groups))
        self._add_values(page, (pair for pair in by_group if pair[0].group.segment), groups)
        return [*page.rows.values()], page.left_out

    def _state_rows(self, report: Report) -> Iterator[SampleRow]:
        yield SampleRow("streammetrics_tasks", (), report.tasks)
        yield SampleRow("streammetrics_open_sessions", (), report.sessions_open)
        yield SampleRow("streammetrics_users_open", (), report.users_open)
        if report.watermark_ms is not None:
            yield SampleRow("streammetrics_tasks_watermark_timestamp_seconds", (), report.watermark_ms / 1_000)
        for window in report.windows:
            if window.complete and window.end_ms is not None:
                labels: tuple[str, ...] = (self._window_names[window.window_ms], window.view)
                yield SampleRow("streammetrics_window_end_timestamp_seconds", labels, window.end_ms / 1_000)
        for of_users in report.user_windows:
            if of_users.complete and of_users.end_ms is not None:
                name = self._window_names[of_users.window_ms]
                yield SampleRow("streammetrics_window_users_end_timestamp_seconds", (name,), of_users.end_ms / 1_000)
        if report.entered_ms is not None:
            yield SampleRow("streammetrics_experiment_entered_timestamp_seconds", (), report.entered_ms / 1_000)
        for counter, value in self._events.take((counter, counter, count) for counter, count in _event_counts(report)).items():
            yield counter.row(value)
        for each in report.inputs:
            if each.watermark_ms is not None:
                labels = (each.topic, str(each.partition))
                yield SampleRow("streammetrics_watermark_timestamp_seconds", labels, each.watermark_ms / 1_000)

    def _total_rows(self, report: Report, groups: Mapping[Group, ShownGroup]) -> Iterator[SampleRow]:
        for counter, value in self._totals.take(self._total_sources(report, groups)).items():
            yield counter.row(value)
        for labels in roles(groups, report.experiments, self._control_of):
            yield SampleRow("streammetrics_variant_info", labels, 1)

    def _total_sources(self, report: Report, groups: Mapping[Group, ShownGroup]) -> Iterator[tuple[Hashable, Sum, int]]:
        """Every number of every total by the names as sent, with the counter that shows it."""
        for total in report.totals:
            for counter, value in self._total_counters(total, groups[Group(total.experiment, total.variant)]):
                yield (counter.series, total.experiment, total.variant, counter.labels[2:]), counter, value

    def _total_counters(self, total: Total, shown: ShownGroup) -> Iterator[tuple[Sum, int]]:
        labels = (shown.experiment, shown.variant)
        yield Sum("streammetrics_final_lists_total", labels), self._layout.lists(total.tally)
        yield Sum("streammetrics_final_lists_with_feedback_total", labels), self._layout.lists_with_feedback(total.tally)
        for column, value in zip(self._layout.scorer.columns, self._layout.columns(total.tally), strict=True):
            name, k = sum_series(column.metric.name, column.kind), str(column.metric.k)
            yield Sum(name, (*labels, k), column.scale_bits), value

    def _add_values(self, page: _Kept, found: Iterable[tuple[GroupValues, Window]], groups: Mapping[Group, ShownGroup]) -> None:
        """Add the values of windows. Most rows by far are these, so those that find no room are counted and not made."""
        for values, window in found:
            shown = groups[values.group]
            if shown.is_folded or page.is_full:  # means cannot be added
                page.left_out += 2 + len(values.values) + len(values.values_with_feedback)
            else:
                page.add(self._group_rows(window, values, shown))

    def _group_rows(self, window: Window, values: GroupValues, group: ShownGroup) -> Iterator[SampleRow]:
        name = self._window_names[window.window_ms]
        labels = (group.experiment, group.variant, name, group.segments, window.view)
        yield SampleRow("streammetrics_window_lists", labels, values.lists)
        yield SampleRow("streammetrics_window_lists_with_feedback", labels, values.lists_with_feedback)
        for with_feedback, numbers in ((False, values.values), (True, values.values_with_feedback)):
            for text, number in numbers.items():
                metric = self._metrics[text]
                place = (group.experiment, group.variant, str(metric.k), name, group.segments)
                yield SampleRow(value_series(metric.name, window.view, with_feedback), place, number)


def _user_rows(report: Report, window_names: Mapping[int, str], groups: Mapping[Group, ShownGroup]) -> tuple[list[SampleRow], int]:
    """The distinct users of windows, and how many series are left out because their names are folded: users cannot be added."""
    rows, folded = [], 0
    for window in report.user_windows:
        name = window_names[window.window_ms]
        for reached in window.arms:
            shown = groups[Group(*reached.arm)]
            if shown.is_folded:
                folded += 1 + len(reached.users_with_hit)
                continue
            labels = (shown.experiment, shown.variant)
            rows.append(SampleRow("streammetrics_window_users", (*labels, name), reached.users))
            rows += [SampleRow("streammetrics_user_hit_rate", (*labels, str(k), name), rate) for k, rate in reached.hit_rates.items()]
    return rows, folded


def _by_group(windows: tuple[Window, ...]) -> list[tuple[GroupValues, Window]]:
    """Every group of every window by name, so that all traffic comes before variants."""
    found = [(values, window) for window in windows for values in window.groups]
    return sorted(found, key=lambda pair: pair[0].group)


def _event_counts(report: Report) -> Iterator[tuple[Sum, int]]:
    """What was not shown, and every counter of events by topic, from 0 on. A reason without a series of its own is one of `dropped`."""
    yield Sum("streammetrics_windows_withheld_total", ()), report.withheld
    for topic in sorted({each.topic for each in report.inputs}):
        known = (fate.name for fate in OUTCOMES)
        others = sorted(reason for reason, at in report.counts if at == topic)
        for reason in dict.fromkeys((*known, *others)):
            count = report.counts.get((reason, topic), 0)
            if reason in COUNTED_ALONE:
                yield Sum(COUNTED_ALONE[reason], (topic,)), count
            if reason in UNMATCHED:
                yield Sum("streammetrics_feedback_unmatched_total", (reason, topic)), count
            elif reason not in NOT_REFUSED:
                yield Sum("streammetrics_dropped_total", (reason, topic)), count


def status_rows(status: ProcessStatus, loop: bool) -> Iterator[SampleRow]:
    """The rows of one process; `loop` tells whether it consumes. Other threads may write `status` meanwhile."""
    troubles = (status.store_trouble, status.publish_trouble)
    yield SampleRow("streammetrics_build_info", (__version__,), 1)
    yield SampleRow("streammetrics_store_up", (), float(troubles == (None, None)))
    for node in status.store_nodes:
        for name, message in zip(_OF_A_NODE, node[1:], strict=True):
            if message is not None:
                yield SampleRow(name, (node.name,), float(message))
    if not loop:
        return
    yield SampleRow("streammetrics_source_up", (), float(status.source_trouble is None))
    yield SampleRow("streammetrics_rebalances_total", (), status.rebalances)
    yield SampleRow("streammetrics_client_rebuilds_total", (), status.client_rebuilds)
    yield SampleRow("streammetrics_dead_letters_total", (), status.dead_letters)
    yield SampleRow("streammetrics_cached_users", (), status.cached_users)
    yield SampleRow("streammetrics_paused_inputs", (), status.paused_inputs)
    for outcome in COMMIT_STATUSES:
        yield SampleRow("streammetrics_commits_total", (outcome,), status.commits[outcome])
    yield from _commit_times(status)
    # Copied first: the loop adds and removes inputs while this is read.
    for origin, records in sorted(dict(status.lag_records).items()):
        yield SampleRow("streammetrics_lag_records", (origin.topic, str(origin.partition)), records)
    for origin, seconds in sorted(dict(status.lag_seconds).items()):
        yield SampleRow("streammetrics_lag_seconds", (origin.topic, str(origin.partition)), seconds)


def _commit_times(status: ProcessStatus) -> Iterator[SampleRow]:
    """The histogram. A commit may be noted while it is read: buckets first and never falling, as the formats want them."""
    times = status.commit_times
    buckets = list(accumulate(list(times.buckets), max))
    total = max(times.count, buckets[-1])
    for bound, count in zip((*COMMIT_BUCKETS_SECONDS, "+Inf"), (*buckets, total), strict=True):
        yield SampleRow("streammetrics_commit_seconds", ("_bucket", str(bound)), count)
    yield SampleRow("streammetrics_commit_seconds", ("_count", ""), total)
    yield SampleRow("streammetrics_commit_seconds", ("_sum", ""), times.sum_seconds)
