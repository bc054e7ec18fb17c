"""Turn a Report into rows: the name of a series, its label values in order, and a number. No clock or client here.

The most important rows come first, because rows over the limit are cut at the end. The values of windows, which are most series, become
lines at once. A group whose values have not changed keeps its lines. Both text formats write a gauge in the same way. Of all else
`prometheus_client` makes the text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client.utils import floatToGoString

from streammetrics.events.outcomes import LABELS, NOT_REFUSED, OUTCOMES, UNMATCHED
from streammetrics.exporters.prometheus.experiments import (
    ControlOf,
    control_by_convention,
    experiment_groups,
    experiment_rows,
    roles,
)
from streammetrics.exporters.prometheus.labels import LabelNames, MonotonicCounters, ShownGroup
from streammetrics.exporters.prometheus.metric_series import sum_series, value_series
from streammetrics.metrics import Metric, TallyLayout
from streammetrics.reports.report import Report, Total
from streammetrics.windows.panes import Group, GroupValues, Window

COUNTED_ALONE = {fate.name: f"streammetrics_{fate.series}_total" for fate in OUTCOMES if fate.series}
"""Reasons with a series of their own. `late` is also a reason of dropped events."""
_number: Final[Callable[[float], str]] = floatToGoString


class SampleRow(NamedTuple):
    """The current value of one series. For a histogram `labels` ends with the suffix and the bound of the bucket."""

    series: str
    labels: tuple[str, ...]
    value: float


class ScaledCounter(NamedTuple):
    """A counter of integers. Its displayed value is divided by 2**scale_bits."""

    series: str
    labels: tuple[str, ...]
    scale_bits: int = 0

    def row(self, value: int) -> SampleRow:
        return SampleRow(self.series, self.labels, value / (1 << self.scale_bits) if self.scale_bits else value)


class LimitedRows:
    """At most `rows_max` distinct rows and lines, and the number of those left out. Prometheus rejects a page with a duplicate series.

    `lines` are those of the values of windows, by series.
    """

    def __init__(self, rows_max: int, left_out: int) -> None:
        self._rows_max, self.left_out = rows_max, left_out
        self.rows: dict[tuple[str, tuple[str, ...]], SampleRow] = {}
        self.lines: defaultdict[str, list[str]] = defaultdict(list)
        self._lines = 0

    def __len__(self) -> int:
        return len(self.rows) + self._lines

    @property
    def room(self) -> int:
        return max(0, self._rows_max - len(self))

    def add_lines(self, value_lines: ValueLines, all_lines: int) -> None:
        """Add the lines of a group; of `all_lines`, those that are not among them are left out."""
        for series, text in value_lines.text.items():
            self.lines[series].append(text)
        self._lines += value_lines.lines
        self.left_out += all_lines - value_lines.lines

    def add(self, rows: Iterable[SampleRow]) -> None:
        for row in rows:
            name = row.series, row.labels
            if name in self.rows or not self.room:
                self.left_out += 1
            else:
                self.rows[name] = row


class ReportRows:
    """Makes the rows of consecutive reports. Names stay stable between reports, and counters never decrease."""

    def __init__(
        self, layout: TallyLayout, window_names: Mapping[int, str], label_values_max: int, control_of: ControlOf = control_by_convention
    ) -> None:
        self._layout = layout
        self._values = ValueWriter(layout, window_names)
        self._window_names = window_names
        self._names = LabelNames(label_values_max)
        self._control_of = control_of
        self._events, self._totals = MonotonicCounters[ScaledCounter](), MonotonicCounters[ScaledCounter]()

    def update(self, report: Report, rows_max: int) -> LimitedRows:
        """Return at most `rows_max` rows of a report, with the number of series left out by the limit or because of their names."""
        self._values.begin()
        live = {values.group for window in report.windows for values in window.groups}
        live |= {Group(*reached.arm) for window in report.user_windows for reached in window.arms}
        resting = {Group(total.experiment, total.variant) for total in report.totals}
        groups = self._names.assign(live, resting | {*experiment_groups(report.experiments)})
        experiment_samples, folded = experiment_rows(report.experiments, groups)
        user_samples, folded_users = _user_rows(report, self._window_names, groups)
        by_group = _by_group(report.windows)
        page = LimitedRows(rows_max, folded + folded_users)
        page.add(self._state_rows(report))
        page.add(SampleRow(*row) for row in experiment_samples)
        self._add_values(page, (pair for pair in by_group if not pair[0].group.segment), groups)
        page.add(user_samples)
        page.add(self._total_rows(report, groups))
        self._add_values(page, (pair for pair in by_group if pair[0].group.segment), groups)
        return page

    def _state_rows(self, report: Report) -> Iterator[SampleRow]:
        yield SampleRow("streammetrics_tasks", (), report.tasks)
        yield SampleRow("streammetrics_open_sessions", (), report.sessions_open)
        yield SampleRow("streammetrics_users_open", (), report.users_open)
        if report.watermark_ms is not None:
            yield SampleRow("streammetrics_tasks_watermark_timestamp_seconds", (), report.watermark_ms / 1_000)
        if (placed := report.user_partitions) is not None:
            yield SampleRow("streammetrics_users_on_several_partitions_ratio", (), placed.share)
        yield from self._end_rows(report)
        if report.entered_ms is not None:
            yield SampleRow("streammetrics_experiment_entered_timestamp_seconds", (), report.entered_ms / 1_000)
        for counter, value in self._events.update((counter, counter, count) for counter, count in _event_counts(report)).items():
            yield counter.row(value)
        for position in report.inputs:
            if position.watermark_ms is not None:
                labels = (position.topic, str(position.partition))
                yield SampleRow("streammetrics_watermark_timestamp_seconds", labels, position.watermark_ms / 1_000)

    def _end_rows(self, report: Report) -> Iterator[SampleRow]:
        """Yield when the newest complete windows end: those of lists, and those of users."""
        for window in report.windows:
            if window.complete and window.end_ms is not None:
                labels = (self._window_names[window.window_ms], window.view)
                yield SampleRow("streammetrics_window_end_timestamp_seconds", labels, window.end_ms / 1_000)
        for user_samples in report.user_windows:
            if user_samples.complete and user_samples.end_ms is not None:
                name = self._window_names[user_samples.window_ms]
                yield SampleRow("streammetrics_window_users_end_timestamp_seconds", (name,), user_samples.end_ms / 1_000)

    def _total_rows(self, report: Report, groups: Mapping[Group, ShownGroup]) -> Iterator[SampleRow]:
        for counter, value in self._totals.update(self._total_sources(report, groups)).items():
            yield counter.row(value)
        for labels in roles(groups, report.experiments, self._control_of):
            yield SampleRow("streammetrics_variant_info", labels, 1)

    def _total_sources(self, report: Report, groups: Mapping[Group, ShownGroup]) -> Iterator[tuple[Hashable, ScaledCounter, int]]:
        """Yield every number of every total, keyed by original names, with its counter."""
        for total in report.totals:
            for counter, value in self._total_counters(total, groups[Group(total.experiment, total.variant)]):
                yield (counter.series, total.experiment, total.variant, counter.labels[2:]), counter, value

    def _total_counters(self, total: Total, group: ShownGroup) -> Iterator[tuple[ScaledCounter, int]]:
        labels = (group.experiment, group.variant)
        yield ScaledCounter("streammetrics_final_lists_total", labels), self._layout.lists(total.tally)
        yield ScaledCounter("streammetrics_final_lists_with_feedback_total", labels), self._layout.lists_with_feedback(total.tally)
        for column, value in zip(self._layout.columns, self._layout.sums(total.tally), strict=True):
            if column.kind == "bucket":
                continue
            name, k = sum_series(column.metric.name, column.kind), cutoff(column.metric)
            yield ScaledCounter(name, (*labels, k), column.scale_bits), value

    def _add_values(self, page: LimitedRows, pairs: Iterable[tuple[GroupValues, Window]], groups: Mapping[Group, ShownGroup]) -> None:
        """Add the values of windows. These are most rows, so rows without room are counted and not made."""
        for values, window in pairs:
            group = groups[values.group]
            count = lines_of(window, values)
            if group.is_folded or not page.room:  # means cannot be added
                page.left_out += count
            else:
                page.add_lines(self._values.lines(window, values, group, page.room), count)


def _user_rows(report: Report, window_names: Mapping[int, str], groups: Mapping[Group, ShownGroup]) -> tuple[list[SampleRow], int]:
    """Return rows for users of windows, and the number left out because of folded names. Distinct users cannot be added up."""
    rows, folded = [], 0
    for window in report.user_windows:
        name = window_names[window.window_ms]
        for reached in window.arms:
            group = groups[Group(*reached.arm)]
            if group.is_folded:
                folded += 1 + len(reached.users_with_hit)
                continue
            labels = (group.experiment, group.variant)
            rows.append(SampleRow("streammetrics_window_users", (*labels, name), reached.users))
            rows += [SampleRow("streammetrics_user_hit_rate", (*labels, str(k), name), rate) for k, rate in reached.hit_rates.items()]
    return rows, folded


def _by_group(windows: tuple[Window, ...]) -> list[tuple[GroupValues, Window]]:
    """Every group of every window by name, so that all traffic comes before variants."""
    pairs = [(values, window) for window in windows for values in window.groups]
    return sorted(pairs, key=lambda pair: pair[0].group)


def _event_counts(report: Report) -> Iterator[tuple[ScaledCounter, int]]:
    """What was not shown, and every counter of events by topic, from 0 on. A reason without a series of its own is one of `dropped`."""
    yield ScaledCounter("streammetrics_windows_withheld_total", ()), report.withheld
    for topic in sorted({position.topic for position in report.inputs}):
        names = (fate.name for fate in OUTCOMES)
        others = sorted(reason for reason, at in report.counts if at == topic)
        for reason in dict.fromkeys((*names, *others)):
            count = report.counts.get((reason, topic), 0)
            if reason in COUNTED_ALONE:
                yield ScaledCounter(COUNTED_ALONE[reason], (topic,)), count
            if reason in UNMATCHED:
                yield ScaledCounter("streammetrics_feedback_unmatched_total", (reason, topic)), count
            elif reason in LABELS:
                yield ScaledCounter("streammetrics_labels_dropped_total", (reason, topic)), count
            elif reason not in NOT_REFUSED:
                yield ScaledCounter("streammetrics_dropped_total", (reason, topic)), count


class ValueLines(NamedTuple):
    """The lines of one group in one window: what they were made of, their number, and the text by series."""

    values: GroupValues
    group: ShownGroup
    lines: int
    text: Mapping[str, str]


class ValueWriter:
    """Makes the lines of consecutive reports."""

    def __init__(self, layout: TallyLayout, window_names: Mapping[int, str]) -> None:
        self._window_names = window_names
        self._series = {
            (str(metric), view): (value_series(metric.name, view), cutoff(metric))
            for metric in layout.metrics
            for view in ("final", "live")
        }
        self._former: dict[tuple[Group, int, str], ValueLines] = {}
        self._made: dict[tuple[Group, int, str], ValueLines] = {}

    def begin(self) -> None:
        """Begin the next report. Lines that the last one did not use are dropped."""
        self._former, self._made = self._made, {}

    def lines(self, window: Window, values: GroupValues, group: ShownGroup, most: int) -> ValueLines:
        """Return the lines of a group in a window, `most` of them at most."""
        wanted = min(most, lines_of(window, values))
        key = values.group, window.window_ms, window.view
        lines = self._former.get(key)
        if lines is None or lines.group != group or lines.values != values or lines.lines != wanted:
            lines = self._written(window, values, group, wanted)
        self._made[key] = lines
        return lines

    def _written(self, window: Window, values: GroupValues, group: ShownGroup, wanted: int) -> ValueLines:
        text: dict[str, str] = {}
        count = 0
        for series, line in self._series_lines(window, values, group):
            if count == wanted:
                break
            text[series] = text.get(series, "") + line
            count += 1
        return ValueLines(values, group, count, text)

    def _series_lines(self, window: Window, values: GroupValues, group: ShownGroup) -> Iterator[tuple[str, str]]:
        experiment, variant, segments = map(_escaped, group)
        view, name = window.view, self._window_names[window.window_ms]
        end = f'segments="{segments}",variant="{variant}"'
        place = f'{{experiment="{experiment}",{end},view="{view}",window="{name}"}}'
        counts = {"streammetrics_window_lists": values.lists}
        if view == "final":  # the feedback of live lists is still on its way
            counts["streammetrics_window_lists_with_feedback"] = values.lists_with_feedback
        for series, count in counts.items():
            yield series, f"{series}{place} {_number(count)}\n"
        for text, number in values.values.items():
            series, k = self._series[text, view]
            labels = f'{{experiment="{experiment}",k="{k}",{end},window="{name}"}}'
            yield series, f"{series}{labels} {_number(number)}\n"


def lines_of(window: Window, values: GroupValues) -> int:
    """Return how many series a group has in a window: its lists, those with feedback if they are final, and its metrics."""
    return (2 if window.view == "final" else 1) + len(values.values)


def cutoff(metric: Metric) -> str:
    """Return the label of a metric's cut-off; empty for a metric without one."""
    return str(metric.k) if metric.k else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
