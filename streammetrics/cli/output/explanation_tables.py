"""Formats explanations for a terminal: why a variant differs from the control. Pure; recomputes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from streammetrics.cli.output.report_reader import interval_text, lift_text, share_text
from streammetrics.cli.output.terminal import FittingTable
from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.measures import measure_text
from streammetrics.reports.explanation_values import Explanation
from streammetrics.reports.text import fit
from streammetrics.reports.time_text import minute_text

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
        names = [(each.metric, each.k) for each in variant.measures if each.paging and each.verdict and each.verdict.word in _CLEAR]
        about = [each for each in explanations if each.variant == variant.variant and (each.metric, each.k) in names]
        found = [each for each in about if each.summary]
        if about and not found:
            unknown.append(about[0])
        for each in found[:1]:
            when = f"exploratory, lists from {minute_text(each.from_ms)} to {minute_text(each.end_ms)}"
            yield Text(fit(f"why {each.variant} ({measure_text(each.metric, each.k)}; {when}): {'; '.join(each.summary)}"))
    if unknown:
        yield Text(fit(f"why {', '.join(each.variant for each in unknown)}: {unknown[0].unknown}"))


def contribution_tables(explanations: Sequence[Explanation]) -> Iterator[RenderableType]:
    """Yield the contributions of all explanations, by segment value and by rank."""
    for each in explanations:
        title = f"{each.variant} against {each.against}, {measure_text(each.metric, each.k)}: {each.difference:+.4f} (exploratory)"
        if each.segments:
            yield Text(fit(f"contributions by segment value, {title}"))
            yield _segments(each)
        if each.ranks:
            measure = f"{each.ranks_of}@{each.ranks[-1].last}"
            yield Text(fit(f"contributions by rank, {each.variant} against {each.against}, {measure} (exploratory)"))
            yield _ranks(each)


def _segments(found: Explanation) -> FittingTable:
    numbers = ("lists", "control", "contribution", "of the whole", "by share", "lift", "interval (one look)")
    table = FittingTable(("segment", "value"), numbers, grouped=True)
    for part in found.segments:
        for each in part.values:
            of_whole = share_text(each.contribution / found.difference) if found.difference else "-"
            table.add_row(
                *(part.segment, each.value, f"{each.lists:,}", f"{each.control_lists:,}", f"{each.contribution:+.4f}", of_whole),
                *(f"{each.mix:+.4f}", lift_text(each.lift), interval_text(each.lift_lower, each.lift_upper)),
            )
        if part.others:
            table.add_row(part.segment, f"{part.others:,} more", "", "", f"{part.others_contribution:+.4f}", "", "", "", "")
    return table


def _ranks(found: Explanation) -> FittingTable:
    table = FittingTable(("ranks",), ("contribution", "of the whole"))
    whole = sum(each.contribution for each in found.ranks)
    for each in found.ranks:
        ranks = str(each.first) if each.first == each.last else f"{each.first} to {each.last}"
        table.add_row(ranks, f"{each.contribution:+.4f}", share_text(each.contribution / whole) if whole else "-")
    return table
