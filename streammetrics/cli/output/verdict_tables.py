"""Formats experiments for a terminal: verdict, reason, numbers, then why a variant differs from the control. Pure; recomputes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from streammetrics.cli.output.report_reader import (
    SCOPE_WORDS,
    ExperimentResults,
    confidence_text,
    credit_text,
    health_lines,
    interval_text,
    lift_text,
)
from streammetrics.cli.output.tables import number
from streammetrics.cli.output.terminal import FittingTable
from streammetrics.experiments import ExperimentReport, MeasureReport
from streammetrics.experiments.experiment_report import SINCE_START, worst_first
from streammetrics.experiments.verdict import Verdict, Word
from streammetrics.metrics.names import metric_text
from streammetrics.reports.explanation_values import Explanation
from streammetrics.reports.history import headline_measures
from streammetrics.reports.outlook import needed_sentences
from streammetrics.reports.verdict_lines import ends_ms, further_warnings
from streammetrics.words.names import fit
from streammetrics.words.numbers import counted, percent
from streammetrics.words.times import minute_text

NEEDED_MAX = 5
"""Lines about what undecided variants need."""
STYLES: dict[Word, str] = {
    "regressed": "bold red",
    "invalid": "bold yellow",
    "mixed": "bold magenta",
    "improved": "bold green",
    "safe": "green",
    "inconclusive": "bold",
}
_CLEAR = ("regressed", "improved", "mixed")
"""The verdicts with a difference to explain."""


def verdict_lines(results: ExperimentResults, all_measures: bool) -> Iterator[RenderableType]:
    """Yield the lines of each experiment, the worst first, or why there is none. A day has a line, and numbers with `all_measures`."""
    if not results.experiments:
        yield Text(results.empty_text())
    for awaited in results.awaited:
        yield Text.assemble((fit(awaited.experiment), "bold"), f" · no verdict yet. {' '.join(map(fit, awaited.sentences))}\n")
    for experiment, *others in results.scopes_by_experiment():
        up_to = minute_text(ends_ms(experiment, results.at_ms))
        yield Text.assemble((fit(experiment.experiment), "bold"), f" · {_scope_words(experiment)} · up to {up_to}")
        yield _verdict_line(experiment.verdict)
        for other_experiment in others:
            yield Text.assemble(f"{_scope_words(other_experiment)}: ", _verdict_line(other_experiment.verdict))
            yield from _warnings(other_experiment, "")
        yield from _warnings(experiment, "")
        yield from _needed(experiment, "", None if all_measures else NEEDED_MAX)
        whole = [
            explanation
            for explanation in results.explanations
            if experiment.scope == SINCE_START and explanation.experiment == experiment.experiment
        ]
        yield from why_lines(experiment, whole)
        yield from _numbers(experiment, all_measures)
        for other_experiment in others if all_measures else ():
            yield Text(f"{_scope_words(other_experiment)}:")
            yield from _numbers(other_experiment, all_measures)
        if all_measures:
            yield from contribution_tables(whole)
        yield Text(fit(" · ".join(health_lines(experiment))))
        yield Text(confidence_text(experiment) + "\n", style="dim")


def verdict_summary(experiments: Iterable[ExperimentReport]) -> Iterator[Text]:
    """Yield a line with the verdict of each experiment since it began, the worst first."""
    for experiment in worst_first(experiments):
        if experiment.scope != SINCE_START:
            continue
        word, reason = experiment.verdict.word, fit(experiment.verdict.reason)
        yield Text.assemble(f"{'verdict':<10}{fit(experiment.experiment)}: ", (word, STYLES[word]), f" ({reason})")
        yield from _warnings(experiment, f"{'':<10}")
        yield from _needed(experiment, f"{'':<10}", NEEDED_MAX)


def _warnings(experiment: ExperimentReport, indent: str) -> Iterator[Text]:
    """Yield what bends the numbers of an experiment, without what its verdict says already."""
    for warning in further_warnings(experiment.warnings, experiment.verdict.reason):
        yield Text(f"{indent}warning: {fit(str(warning))}")


def _needed(experiment: ExperimentReport, indent: str, most: int | None) -> Iterator[Text]:
    """Yield what undecided variants still need, `most` of them at most."""
    lines = [f"{indent}{fit(words)}" for words in needed_sentences(experiment)]
    yield from map(Text, lines[:most])
    if more := len(lines[most:]) if most is not None else 0:
        yield Text(
            f"{indent}{counted(more, 'more variant')} also {'needs' if more == 1 else 'need'} more users: streammetrics report --all"
        )


def _verdict_line(verdict: Verdict) -> Text:
    return Text.assemble((verdict.word.upper(), STYLES[verdict.word]), f"  {fit(verdict.reason)}")


def _scope_words(experiment: ExperimentReport) -> str:
    return fit(SCOPE_WORDS.get(experiment.scope, experiment.scope))


def _numbers(experiment: ExperimentReport, all_measures: bool) -> Iterator[RenderableType]:
    yield _arms(experiment)
    chosen = None if all_measures else headline_measures(experiment)
    if experiment.preferences:
        yield _preferences(experiment)
    compared = list(_compared(experiment, chosen))
    if compared:
        yield _measures(experiment, chosen)
    if any(measure.reduced for _, measure in compared):
        yield _reduced(experiment, chosen)
    measured = {(measure.metric, measure.k) for variant in experiment.variants for measure in variant.measures}
    if chosen is not None and len(measured) > len(chosen):
        yield Text(f"{counted(len(measured) - len(chosen), 'more measure')}: use --all", style="dim")


def _arms(experiment: ExperimentReport) -> FittingTable:
    table = FittingTable(("variant", "role"), ("users", "share of users", "lists", "effective users", "largest user"))
    by_exposures = any(variant.exposed_users for variant in experiment.variants)
    first = [variant.exposed_users if by_exposures else variant.first_list_users for variant in experiment.variants]
    for variant, users in zip(experiment.variants, first, strict=True):
        share = percent(users / sum(first)) if sum(first) else "-"
        largest = f"≤ {percent(variant.largest_user_share_max)}" if variant.lists else "-"
        numbers = f"{variant.users:,}", share, f"{variant.lists:,}", f"{variant.effective_users:,.0f}", largest
        table.add_row(variant.variant, variant.role, *numbers)
    return table


def _measures(experiment: ExperimentReport, chosen: tuple[tuple[str, int], ...] | None) -> FittingTable:
    """Build one row per measure and compared variant, with the control's mean beside it."""
    table = FittingTable(("measure", "variant"), ("control", "mean", "lift", "interval"), ("verdict",))
    of_control = {
        (measure.metric, measure.k): measure.mean
        for variant in experiment.variants
        if variant.variant == experiment.control
        for measure in variant.measures
    }
    for variant, measure in _compared(experiment, chosen):
        verdict = Text(measure.verdict.word, style=STYLES[measure.verdict.word]) if measure.verdict else Text("-")
        if measure.paging and measure.verdict:
            verdict.append(" (decides)", style="dim")
        interval = interval_text(measure.lift_lower, measure.lift_upper)
        mean = number(of_control.get((measure.metric, measure.k)))
        table.add_row(
            metric_text(measure.metric, measure.k), variant, mean, number(measure.mean), lift_text(measure.lift), interval, verdict
        )
    return table


def _preferences(experiment: ExperimentReport) -> FittingTable:
    """Build one row per team of an interleaved experiment and action. The first rows of a team decide."""
    table = FittingTable(("team", "against", "by"), ("users", "lists", "drafts first", "mean credit", "interval"), ("verdict",))
    for preference in (*experiment.preferences, *experiment.preferences_by_action):
        verdict = Text(preference.verdict.word, style=STYLES[preference.verdict.word])
        counts = f"{preference.users:,}", f"{preference.lists:,}", percent(preference.first_share)
        action = preference.action or "relevant items"
        table.add_row(preference.team, preference.against, action, *counts, f"{preference.credit:+.4f}", credit_text(preference), verdict)
    return table


def _reduced(experiment: ExperimentReport, chosen: tuple[tuple[str, int], ...] | None) -> FittingTable:
    """Build the table of measures with reduced variance."""
    table = FittingTable(("with CUPED", "variant"), ("mean", "lift", "interval", "variance removed"))
    for variant, measure in _compared(experiment, chosen):
        if measure.reduced is not None:
            interval = interval_text(measure.reduced.lift_lower, measure.reduced.lift_upper)
            numbers = (
                number(measure.reduced.mean),
                lift_text(measure.reduced.lift),
                interval,
                percent(measure.reduced.variance_reduction),
            )
            table.add_row(fit(metric_text(measure.metric, measure.k)), Text(fit(variant)), *numbers)
    return table


def _compared(experiment: ExperimentReport, chosen: tuple[tuple[str, int], ...] | None) -> list[tuple[str, MeasureReport]]:
    """Return the shown measures of each variant except the control, in display order."""
    rows = [
        (variant.variant, measure)
        for variant in experiment.variants
        if variant.variant != experiment.control
        for measure in variant.measures
        if chosen is None or (measure.metric, measure.k) in chosen
    ]
    return sorted(rows, key=lambda row: chosen.index((row[1].metric, row[1].k)) if chosen else 0)


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
            measure = metric_text(explanation.metric, explanation.k)
            yield Text(fit(f"why {explanation.variant} ({measure}; {when}): {'; '.join(explanation.summary)}"))
    if unknown:
        yield Text(fit(f"why {', '.join(explanation.variant for explanation in unknown)}: {unknown[0].unknown}"))


def contribution_tables(explanations: Sequence[Explanation]) -> Iterator[RenderableType]:
    """Yield the contributions of all explanations, by segment value and by rank."""
    for explanation in explanations:
        arms, measure = f"{explanation.variant} against {explanation.against}", metric_text(explanation.metric, explanation.k)
        title = f"{arms}, {measure}: {explanation.difference:+.4f} (exploratory)"
        if explanation.segments:
            yield Text(fit(f"contributions by segment value, {title}"))
            yield _segments(explanation)
        if explanation.ranks:
            measure = metric_text(explanation.ranks_of or "", explanation.ranks[-1].last)
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
