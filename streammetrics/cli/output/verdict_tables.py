"""Formats experiments for a terminal: verdict, reason, then numbers. Pure; recomputes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from streammetrics.cli.output.explanation_tables import contribution_tables, why_lines
from streammetrics.cli.output.report_reader import (
    SCOPE_WORDS,
    ExperimentResults,
    confidence_text,
    credit_text,
    health_lines,
    interval_text,
    lift_text,
    share_text,
)
from streammetrics.cli.output.tables import number
from streammetrics.cli.output.terminal import FittingTable
from streammetrics.experiments import SINCE_START, ExperimentReport, MeasureReport
from streammetrics.experiments.measures import measure_text
from streammetrics.experiments.needed import needed_sentences
from streammetrics.experiments.verdict import Verdict, Word
from streammetrics.experiments.worst_first import worst_first
from streammetrics.reports.headline_metrics import headline_measures
from streammetrics.reports.text import counted, fit
from streammetrics.reports.time_text import minute_text
from streammetrics.reports.verdict_lines import ends_ms, further_warnings

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


def verdict_lines(results: ExperimentResults, all_measures: bool) -> Iterator[RenderableType]:
    """Yield the lines of each experiment, the worst first, or why there is none. A day has a line, and numbers with `all_measures`."""
    if not results.experiments:
        yield Text(results.empty_text())
    for awaited in results.awaited:
        yield Text.assemble((fit(awaited.experiment), "bold"), f" · no verdict yet. {' '.join(map(fit, awaited.sentences))}\n")
    for experiment, *others in results.shown():
        up_to = minute_text(ends_ms(experiment, results.at_ms))
        yield Text.assemble((fit(experiment.experiment), "bold"), f" · {_scope_words(experiment)} · up to {up_to}")
        yield _verdict_line(experiment.verdict)
        for each in others:
            yield Text.assemble(f"{_scope_words(each)}: ", _verdict_line(each.verdict))
            yield from _warnings(each, "")
        yield from _warnings(experiment, "")
        yield from _needed(experiment, "", None if all_measures else NEEDED_MAX)
        whole = [each for each in results.explanations if experiment.scope == SINCE_START and each.experiment == experiment.experiment]
        yield from why_lines(experiment, whole)
        yield from _numbers(experiment, all_measures)
        for each in others if all_measures else ():
            yield Text(f"{_scope_words(each)}:")
            yield from _numbers(each, all_measures)
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
    for each in further_warnings(experiment.warnings, experiment.verdict.reason):
        yield Text(f"{indent}warning: {fit(str(each))}")


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
    shown = None if all_measures else headline_measures(experiment)
    if experiment.preferences:
        yield _preferences(experiment)
    compared = list(_compared(experiment, shown))
    if compared:
        yield _measures(experiment, shown)
    if any(each.reduced for _, each in compared):
        yield _reduced(experiment, shown)
    measured = {(each.metric, each.k) for variant in experiment.variants for each in variant.measures}
    if shown is not None and len(measured) > len(shown):
        yield Text(f"{counted(len(measured) - len(shown), 'more measure')}: use --all", style="dim")


def _arms(experiment: ExperimentReport) -> FittingTable:
    table = FittingTable(("variant", "role"), ("users", "share of users", "lists", "effective users", "largest user"))
    by_exposures = any(variant.exposed_users for variant in experiment.variants)
    first = [variant.exposed_users if by_exposures else variant.first_exposures for variant in experiment.variants]
    for variant, users in zip(experiment.variants, first, strict=True):
        share = share_text(users / sum(first)) if sum(first) else "-"
        largest = f"≤ {share_text(variant.largest_user_share_max)}" if variant.lists else "-"
        numbers = f"{variant.users:,}", share, f"{variant.lists:,}", f"{variant.effective_users:,.0f}", largest
        table.add_row(variant.variant, variant.role, *numbers)
    return table


def _measures(experiment: ExperimentReport, shown: tuple[tuple[str, int], ...] | None) -> FittingTable:
    """Build one row per measure and compared variant, with the control's mean beside it."""
    table = FittingTable(("measure", "variant"), ("control", "mean", "lift", "interval"), ("verdict",))
    of_control = {
        (each.metric, each.k): each.mean
        for variant in experiment.variants
        if variant.variant == experiment.control
        for each in variant.measures
    }
    for variant, each in _compared(experiment, shown):
        verdict = Text(each.verdict.word, style=STYLES[each.verdict.word]) if each.verdict else Text("-")
        if each.paging and each.verdict:
            verdict.append(" (decides)", style="dim")
        interval = interval_text(each.lift_lower, each.lift_upper)
        mean = number(of_control.get((each.metric, each.k)))
        table.add_row(measure_text(each.metric, each.k), variant, mean, number(each.mean), lift_text(each.lift), interval, verdict)
    return table


def _preferences(experiment: ExperimentReport) -> FittingTable:
    """Build one row per team of an interleaved experiment and action. The first rows of a team decide."""
    table = FittingTable(("team", "against", "by"), ("users", "lists", "drafts first", "mean credit", "interval"), ("verdict",))
    for each in (*experiment.preferences, *experiment.preferences_by_action):
        verdict = Text(each.verdict.word, style=STYLES[each.verdict.word])
        counts = f"{each.users:,}", f"{each.lists:,}", share_text(each.first_share)
        action = each.action or "relevant items"
        table.add_row(each.team, each.against, action, *counts, f"{each.credit:+.4f}", credit_text(each), verdict)
    return table


def _reduced(experiment: ExperimentReport, shown: tuple[tuple[str, int], ...] | None) -> FittingTable:
    """Build the table of measures with reduced variance."""
    table = FittingTable(("with CUPED", "variant"), ("mean", "lift", "interval", "variance removed"))
    for variant, each in _compared(experiment, shown):
        if each.reduced is not None:
            interval = interval_text(each.reduced.lift_lower, each.reduced.lift_upper)
            numbers = number(each.reduced.mean), lift_text(each.reduced.lift), interval, share_text(each.reduced.variance_reduction)
            table.add_row(fit(measure_text(each.metric, each.k)), Text(fit(variant)), *numbers)
    return table


def _compared(experiment: ExperimentReport, shown: tuple[tuple[str, int], ...] | None) -> list[tuple[str, MeasureReport]]:
    """Return the shown measures of each variant except the control, in display order."""
    rows = [
        (variant.variant, each)
        for variant in experiment.variants
        if variant.variant != experiment.control
        for each in variant.measures
        if shown is None or (each.metric, each.k) in shown
    ]
    return sorted(rows, key=lambda row: shown.index((row[1].metric, row[1].k)) if shown else 0)
