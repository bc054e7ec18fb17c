"""Reports as tables for a terminal. Pure: a Report in, lines and renderables out; nothing is printed and nothing computed anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from streammetrics.cli.output.terminal import FittingTable
from streammetrics.events.outcomes import names_of
from streammetrics.metrics import Metric, TallyLayout
from streammetrics.reports.headline_metrics import choose_headline
from streammetrics.reports.report import Report, counts_by_reason, refused_counts
from streammetrics.windows.panes import GroupValues, WindowView

METRICS_MAX = 3
UNLABELLED = "all"

_FEEDBACK, _OTHERWISE = names_of("feedback", "unmatched"), names_of("marked")


class VariantRow(NamedTuple):
    """One variant of an experiment, or all traffic (both names empty), and its values over some span."""

    experiment: str
    variant: str
    lists: int
    lists_with_feedback: int
    values: Mapping[str, float]

    @property
    def name(self) -> str:
        return self.variant if self.variant or self.experiment else UNLABELLED


def main_metrics(metrics: Iterable[Metric]) -> list[str]:
    """At most three of the computed metrics, by name: see `choose_headline`."""
    return [str(Metric(*named)) for named in choose_headline(((metric.name, metric.k) for metric in metrics), at_most=METRICS_MAX)]


def arms_of_window(report: Report, window_ms: int, view: WindowView) -> list[VariantRow]:
    """All traffic and each variant in one window, without segments; empty while the window shows nothing."""
    return [
        _arm(values)
        for window in report.windows
        if window.window_ms == window_ms and window.view == view
        for values in window.groups
        if not values.group.segment
    ]


def arms_of_totals(report: Report, layout: TallyLayout) -> list[VariantRow]:
    """All traffic and each variant over every final list so far."""
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


def _arm(values: GroupValues) -> VariantRow:
    return VariantRow(values.group.experiment, values.group.variant, values.lists, values.lists_with_feedback, values.values)


def values_table(spans: Iterable[tuple[str, Sequence[VariantRow]]], metrics: Sequence[str]) -> FittingTable:
    """One row a span and arm: how many lists, and the metrics' means over them."""
    table = FittingTable(("span", "experiment", "variant"), ("lists", "with feedback", *metrics), grouped=True)
    for span, arms in spans:
        for arm in arms:
            values = (number(arm.values.get(metric)) for metric in metrics)
            lists = (f"{arm.lists:,}", f"{arm.lists_with_feedback:,}")
            table.add_row(span, arm.experiment, arm.name, *lists, *values)
        table.add_section()
    return table


def counter_lines(counts: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """What became of the events, in at most four lines; those that would say nothing are left out."""
    sums = counts_by_reason(counts)
    yield f"events    {sums['events']:,}"
    for heading, reasons in (("refused", refused_counts(sums)), ("feedback", _FEEDBACK), ("counted", _OTHERWISE)):
        if message := [f"{reason} {sums[reason]:,}" for reason in reasons if sums[reason]]:
            total = f"{sum(sums[reason] for reason in reasons):,}: " if heading == "refused" else ""
            yield f"{heading:<10}{total}{', '.join(message)}"


def number(value: float | None) -> str:
    """A metric's value for people; a dash where there is none."""
    return "-" if value is None else f"{value:.4f}"
