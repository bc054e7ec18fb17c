"""Formats explanations for a terminal: why a variant differs from the control. Pure; recomputes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from streammetrics.cli.output.report_reader import interval_text, lift_text
from streammetrics.cli.output.terminal import FittingTable
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.explanation_values import Explanation
from streammetrics.statistics.measures import measure_text
from streammetrics.words.names import fit
from streammetrics.words.numbers import percent
from streammetrics.words.times import minute_text

_CLEAR = ("regressed", "improved", "mixed")
"""The verdicts with a difference to explain."""


def why_lines(experiment: ExperimentReport, explanations: Sequence[Explanation]) -> Iterator[Text]:
    """Yield one line for each variant with a clear difference, about the first deciding measure that has its verdict.

    Variants without a certain finding share one short line.
    """
    unknown: list[Explanation] = []
    for variant in experiment.variants:
        if variant.verdict is None or variant.verdict.word not in _CLEAR:
            continue
        names = [
            (measure.metric, measure.k)
            for measure in variant.measures
            if measure.paging and measure.verdict and measure.verdict.word in _CLEAR
        ]
        about = [
            explanation
            for explanation in explanations
            if explanation.variant == variant.variant and (explanation.metric, explanation.k) in names
        ]
        explained = [explanation for explanation in about if explanation.summary]
        if about and not explained:
            unknown.append(about[0])
        for explanation in explained[:1]:
            when = f"exploratory, lists from {minute_text(explanation.from_ms)} to {minute_text(explanation.end_ms)}"
            measure = measure_text(explanation.metric, explanation.k)
            yield Text(fit(f"why {explanation.variant} ({measure}; {when}): {'; '.join(explanation.summary)}"))
    if unknown:
        yield Text(fit(f"why {', '.join(explanation.variant for explanation in unknown)}: {unknown[0].unknown}"))


def contribution_tables(explanations: Sequence[Explanation]) -> Iterator[RenderableType]:
    """Yield the contributions of all explanations, by segment value and by rank."""
    for explanation in explanations:
        arms, measure = f"{explanation.variant} against {explanation.against}", measure_text(explanation.metric, explanation.k)
        title = f"{arms}, {measure}: {explanation.difference:+.4f} (exploratory)"
        if explanation.segments:
            yield Text(fit(f"contributions by segment value, {title}"))
            yield _segments(explanation)
        if explanation.ranks:
            measure = f"{explanation.ranks_of}@{explanation.ranks[-1].last}"
            yield Text(fit(f"contributions by rank, {explanation.variant} against {explanation.against}, {measure} (exploratory)"))
            yield _ranks(explanation)


def _segments(explanation: Explanation) -> FittingTable:
    numbers = ("lists", "control", "contribution", "of the whole", "by share", "lift", "interval (one look)")
    table = FittingTable(("segment", "value"), numbers, grouped=True)
    for part in explanation.segments:
        for value in part.values:
            of_whole = percent(value.contribution / explanation.difference) if explanation.difference else "-"
            table.add_row(
                *(part.segment, value.value, f"{value.lists:,}", f"{value.control_lists:,}", f"{value.contribution:+.4f}", of_whole),
                *(f"{value.mix:+.4f}", lift_text(value.lift), interval_text(value.lift_lower, value.lift_upper)),
            )
        if part.others:
            table.add_row(part.segment, f"{part.others:,} more", "", "", f"{part.others_contribution:+.4f}", "", "", "", "")
    return table


def _ranks(explanation: Explanation) -> FittingTable:
    table = FittingTable(("ranks",), ("contribution", "of the whole"))
    whole = sum(rank.contribution for rank in explanation.ranks)
    for rank in explanation.ranks:
        ranks = str(rank.first) if rank.first == rank.last else f"{rank.first} to {rank.last}"
        table.add_row(ranks, f"{rank.contribution:+.4f}", percent(rank.contribution / whole) if whole else "-")
    return table
