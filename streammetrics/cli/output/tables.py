"""Formats reports as tables and lines for a terminal. Pure; prints and recomputes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from streammetrics.cli.output.terminal import FittingTable
from streammetrics.events.outcomes import IGNORED, names_of
from streammetrics.metrics import Metric, TallyLayout
from streammetrics.reports.data_warnings import UnknownName
from streammetrics.reports.history import choose_headline
from streammetrics.reports.report import Report, counts_by_reason, refused_counts
from streammetrics.windows.panes import GroupValues, WindowView
from streammetrics.words.names import group_order
from streammetrics.words.numbers import counted, percent

METRICS_MAX = 3
UNLABELLED = "all"

_OF_EXPOSURES = ("exposure", "list_exposed", "list_unexposed")
_FEEDBACK, _LABELS = names_of("feedback", "unmatched"), names_of("label")
_OTHERWISE = tuple(name for name in names_of("marked") if name not in _OF_EXPOSURES)


class VariantRow(NamedTuple):
    """The values of one variant, or of all traffic (both names empty), over some span of time."""

    experiment: str
    variant: str
    lists: int
    lists_with_feedback: int
    values: Mapping[str, float]

    @property
    def name(self) -> str:
        """The variant, or "all" for all traffic."""
        return self.variant if self.variant or self.experiment else UNLABELLED


def main_metrics(metrics: Iterable[Metric]) -> list[str]:
    """Return the names of at most three main metrics; see `choose_headline`."""
    return [str(Metric(*named)) for named in choose_headline(((metric.name, metric.k) for metric in metrics), at_most=METRICS_MAX)]


def window_rows(report: Report, window_ms: int, view: WindowView) -> list[VariantRow]:
    """Return all traffic and each variant of one window, without segments; empty if the window is not published."""
    return [
        _variant_row(values)
        for window in report.windows
        if window.window_ms == window_ms and window.view == view
        for values in sorted(window.groups, key=lambda values: group_order(values.group))
        if not values.group.segment
    ]


def total_rows(report: Report, layout: TallyLayout) -> list[VariantRow]:
    """Return all traffic and each variant over all final lists."""
    return [
        VariantRow(
            total.experiment,
            total.variant,
            layout.lists(total.tally),
            layout.lists_with_feedback(total.tally),
            layout.means(total.tally, "zero"),
        )
        for total in report.totals
    ]


def _variant_row(values: GroupValues) -> VariantRow:
    return VariantRow(values.group.experiment, values.group.variant, values.lists, values.lists_with_feedback, values.values)


def values_table(spans: Iterable[tuple[str, Sequence[VariantRow]]], metrics: Sequence[str]) -> FittingTable:
    """Build a table with one row per span and variant: number of lists, and metric means."""
    table = FittingTable(("span", "experiment", "variant"), ("lists", "with feedback", *metrics), grouped=True)
    for span, rows in spans:
        for row in rows:
            values = (number(row.values.get(metric)) for metric in metrics)
            lists = (f"{row.lists:,}", f"{row.lists_with_feedback:,}")
            table.add_row(span, row.experiment, row.name, *lists, *values)
        table.add_section()
    return table


def counter_lines(counts: Mapping[tuple[str, str], int], refusals: Iterable[str] = ()) -> Iterator[str]:
    """Yield the counts of events by outcome, in at most six lines; empty lines are left out. `refusals` follow the refused events.

    >>> print(*counter_lines({("events", "t"): 9, ("exposure", "t"): 4, ("list_exposed", "t"): 3, ("list_unexposed", "t"): 1}), sep="\\n")
    events    9
    exposures 4; 25 % of 4 lists have no variant
    """
    sums = counts_by_reason(counts)
    yield f"events    {sums['events']:,}"
    lines = (("refused", refused_counts(sums)), ("feedback", _FEEDBACK), ("counted", _OTHERWISE), ("labels", _LABELS))
    for heading, reasons in lines:
        if parts := [f"{reason} {sums[reason]:,}" for reason in reasons if sums[reason]]:
            total = f"{sum(sums[reason] for reason in reasons):,}: " if heading == "refused" else ""
            yield f"{heading:<10}{total}{', '.join(parts)}"
        if heading == "refused":
            yield from refusals
    lists = sums["list_exposed"] + sums["list_unexposed"]
    if lists or sums["exposure"]:
        share = percent(sums["list_unexposed"] / lists) if lists else "none"
        yield f"exposures {sums['exposure']:,}; {share} of {counted(lists, 'list')} {'has' if lists == 1 else 'have'} no variant"


def name_lines(names: Iterable[UnknownName]) -> Iterator[str]:
    """Yield a line with the unknown names of each kind, and with the reasons why records were ignored.

    >>> print(*name_lines([UnknownName("action", "CLICK", 2, "click"), UnknownName("ignored", "page view", 1)]), sep="\\n")
    unknown   action: CLICK 2 (did you mean click?)
    ignored   page view 1
    """
    for kind, of_kind in groupby(names, key=lambda entry: entry.kind):
        printed = ", ".join(map(str, of_kind))
        yield f"{'ignored':<10}{printed}" if kind == IGNORED else f"{'unknown':<10}{kind}: {printed}"


def number(value: float | None) -> str:
    """Format a metric value; a dash if there is none."""
    return "-" if value is None else f"{value:.4f}"
