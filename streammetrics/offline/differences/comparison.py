"""Compares an online report with an offline one: settings, spans, counters, and the numbers of groups with their causes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from streammetrics.offline.differences.causes import Causes
from streammetrics.offline.differences.counts import changed_counts, changed_inputs
from streammetrics.offline.differences.found import ChangedGroup, FoundDifferences, SideSpan
from streammetrics.offline.differences.groups import changed_panes, changed_values, values_of, values_of_experiments
from streammetrics.offline.differences.pane_sums import PaneSums
from streammetrics.offline.differences.setting_changes import changed_settings
from streammetrics.reports.published import PublishedReport
from streammetrics.reports.text import counted


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One side: its name for messages, its report, and its panes if it has them."""

    name: str
    report: PublishedReport
    panes: PaneSums | None = None


@dataclass(slots=True)
class _Notes:
    """What was compared, what was not, and the groups that differ."""

    compared: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    groups: list[ChangedGroup] = field(default_factory=list)

    def add(self, what: str, groups: Iterator[ChangedGroup]) -> None:
        self.compared.append(what)
        self.groups.extend(groups)


def find_differences(online: ComparedSide, offline: ComparedSide) -> FoundDifferences:
    """Compare two sides.

    Panes are compared over their common span. Totals and experiments are compared only if both reports end at the same event time, and
    windows only if both have the same window.
    """
    ours, theirs = online.report, offline.report
    settings = changed_settings(ours.settings, theirs.settings)
    counters = changed_counts(ours.counters, theirs.counters)
    same_end, notes, spans = _same_end(ours, theirs), _Notes(), _Spans(online, offline)
    if spans.common is not None:
        assert online.panes is not None
        assert offline.panes is not None
        starts = spans.starts(online.panes) | spans.starts(offline.panes)
        notes.add(f"{counted(len(starts), 'final pane')} of the common span", changed_panes(online.panes, offline.panes, starts))
        if one_sided := sorted({name for name, _ in online.panes.metrics() ^ offline.panes.metrics()}):
            notes.left_out.append(f"metrics that only one side has, or in another scale: {', '.join(one_sided)}")
    else:
        notes.left_out.append(spans.trouble)
    _add_totals(notes, ours, theirs, same_end)
    _add_windows(notes, ours, theirs)
    inputs = changed_inputs(ours.counters_by_topic, theirs.counters_by_topic)
    causes = Causes(settings, counters, inputs, same_end)
    groups = tuple(causes.explain(group) for group in notes.groups)
    return FoundDifferences(
        equal=bool(notes.compared) and not groups and not (same_end and counters) and not (same_end and spans.only_anywhere),
        online=spans.online,
        offline=spans.offline,
        common_from_ms=None if spans.common is None else spans.common[0],
        common_to_ms=None if spans.common is None else spans.common[1],
        pane_ms=spans.pane_ms,
        settings=settings,
        inputs=inputs,
        counters=counters,
        counters_cover_the_span=same_end,
        groups=groups,
        compared=tuple([*notes.compared, "counters"] if same_end else notes.compared),
        left_out=tuple(notes.left_out),
    )


def _same_end(online: PublishedReport, offline: PublishedReport) -> bool:
    """Return whether both reports are about the same lists: both inputs have ended, or both are final up to the same time."""
    return online.ended == offline.ended and online.final_ms == offline.final_ms


def _add_totals(notes: _Notes, online: PublishedReport, offline: PublishedReport, same_end: bool) -> None:
    if not same_end:
        notes.left_out.append("totals and experiments: the reports end at different event times")
        return
    notes.add("totals", changed_values("totals", values_of(online.totals), values_of(offline.totals)))
    ours, theirs = values_of_experiments(online.experiments), values_of_experiments(offline.experiments)
    for scope in sorted(ours.keys() | theirs.keys(), reverse=True):
        place = f"experiments since {'their start' if scope == 'start' else f'the start of the {scope}'}"
        notes.add(place, changed_values(place, ours.get(scope, {}), theirs.get(scope, {})))


def _add_windows(notes: _Notes, online: PublishedReport, offline: PublishedReport) -> None:
    """Compare the final windows that both sides have. Live windows depend on the moment of reading."""
    sides = [{(one.window_ms, one.end_ms): one for one in report.windows if one.view == "final"} for report in (online, offline)]
    shared = sorted(sides[0].keys() & sides[1].keys(), key=lambda each: (each[0], each[1] or 0))
    for window_ms, end_ms in shared:
        ours, theirs = (side[window_ms, end_ms] for side in sides)
        if ours.complete and theirs.complete:
            place = f"window of {window_ms // 1_000:,} s that ends at {end_ms}"
            notes.add(place, changed_values(place, values_of(ours.groups), values_of(theirs.groups)))
    if others := len(sides[0].keys() ^ sides[1].keys()):
        notes.left_out.append(f"{counted(others, 'window')} that only one report has")


class _Spans:
    """The span of each side, and the common span of their panes (start and end, epoch ms), or why there is none."""

    def __init__(self, online: ComparedSide, offline: ComparedSide) -> None:
        self.common: tuple[int, int] | None = None
        self.pane_ms: int | None = None
        self.trouble = "panes: give those of both sides with --online-panes and --offline-panes"
        sides = online.panes, offline.panes
        if sides[0] is not None and sides[1] is not None:
            self._set_common(online, offline, sides[0], sides[1])
        self.online, self.offline = self._span(online), self._span(offline)
        self.only_anywhere = self.online.only_here + self.offline.only_here

    def _set_common(self, online: ComparedSide, offline: ComparedSide, ours: PaneSums, theirs: PaneSums) -> None:
        if not ours.panes or not theirs.panes:
            self.trouble = f"panes: {(online if not ours.panes else offline).name} has no final pane"
        elif ours.pane_ms != theirs.pane_ms or ours.pane_ms is None:
            self.trouble = f"panes: they have different lengths, {ours.pane_ms} ms online and {theirs.pane_ms} ms offline"
        else:
            first = max(min(ours.panes), min(theirs.panes))
            end = min(max(ours.panes), max(theirs.panes)) + ours.pane_ms
            self.pane_ms, self.trouble = ours.pane_ms, "panes: the two sides have no pane in common"
            if first < end:
                self.common = first, end

    def starts(self, panes: PaneSums) -> set[int]:
        """Return the panes of one side within the common span."""
        return set() if self.common is None else {start for start in panes.panes if self.common[0] <= start < self.common[1]}

    def _span(self, side: ComparedSide) -> SideSpan:
        report, panes = side.report, side.panes
        span = SideSpan(report.watermark_ms, report.final_ms, report.ended)
        if panes is None or not panes.panes:
            return span
        outside = panes.panes.keys() - self.starts(panes) if self.common is not None else set()
        only = len(outside), panes.lists_of(outside)
        return SideSpan(span.watermark_ms, span.final_ms, span.ended, min(panes.panes), max(panes.panes), *only)
