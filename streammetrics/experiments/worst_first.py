"""What matters most comes first: the order of treatments and of experiments, and the words for those after the first. Pure.

By verdict as in WORST_FIRST, and within a verdict by the size of the lift that decides. Terminal, page, messages and tables share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from streammetrics.experiments.experiment_report import SINCE_START, THIS_DAY, ExperimentReport, MeasureReport, VariantReport
from streammetrics.experiments.verdict import WORST_FIRST, Verdict, Word, severity
from streammetrics.words.names import name_order
from streammetrics.words.sentences import Words, join, named, say

_ARE: Final[dict[Word, tuple[str, str]]] = {
    "invalid": ("is invalid", "are invalid"),
    "regressed": ("regressed", "regressed"),
    "mixed": ("is mixed", "are mixed"),
    "inconclusive": ("is inconclusive", "are inconclusive"),
    "safe": ("is safe", "are safe"),
    "improved": ("improved", "improved"),
}


def deciding_measure(variant: VariantReport) -> MeasureReport | None:
    """Return the measure that a variant's verdict is about: the first deciding one with the same word."""
    deciding = [measure for measure in variant.measures if measure.paging and measure.verdict is not None]
    same = (measure for measure in deciding if variant.verdict and measure.verdict and measure.verdict.word == variant.verdict.word)
    return next(same, deciding[0] if deciding else None)


def judged(variants: Iterable[VariantReport]) -> list[VariantReport]:
    """Return the variants that have a verdict, the worst first, and within a verdict the largest lift first."""
    return sorted((variant for variant in variants if variant.verdict is not None), key=_weight)


def _weight(variant: VariantReport) -> tuple[int, float, tuple[object, ...]]:
    measure = deciding_measure(variant)
    size = -1.0 if measure is None or measure.lift is None else abs(measure.lift)
    return severity(variant.verdict) if variant.verdict else len(WORST_FIRST), -size, (name_order(variant.variant),)


def verdict_of_all(variants: Iterable[VariantReport]) -> Verdict | None:
    """Return the verdict of the worst variant, with its name and how many treatments have which verdict; None if nothing is judged."""
    arms = [*variants]
    judged_variants = judged(arms)
    if not judged_variants or judged_variants[0].verdict is None:
        return None
    said = say("{variant}: {reason}", variant=named(judged_variants[0].variant), reason=judged_variants[0].verdict.said)
    open_arms = sum(variant.verdict is None and variant.gate is not None for variant in arms)
    counted = counted_treatments(judged_variants, open_arms)
    return Verdict(judged_variants[0].verdict.word, join([said, counted], "; ") if counted else said)


def counted_treatments(variants: Sequence[VariantReport], open_arms: int) -> Words:
    """Say which verdicts the other variants have, or if they differ, how many of all treatments have which. Empty for one treatment.

    found: the variants with a verdict, the worst first. open_arms: how many treatments have none yet.
    """
    words = [variant.verdict.word for variant in variants if variant.verdict is not None]
    if not open_arms and len(words) == 2:
        return say("{variant} {is_}", variant=named(variants[1].variant), is_=_ARE[words[1]][0])
    if not open_arms and len({*words}) == 1:
        return say("the {count} others {are}, too", count=len(words) - 1, are=_ARE[words[0]][1]) if len(words) > 1 else Words(())
    counts = [(words.count(word), word) for word in WORST_FIRST if word in words]
    told = [say("{count} {are}", count=count, are=_ARE[word][0 if count == 1 else 1]) for count, word in counts]
    if open_arms:
        told.append(say("{count} {have} no verdict yet", count=open_arms, have="has" if open_arms == 1 else "have"))
    return say("of {count} treatments {told}", count=len(words) + open_arms, told=join(told, ", "))


def worst_first(experiments: Iterable[ExperimentReport]) -> list[ExperimentReport]:
    """Return the experiments by the verdict and the size of their whole time. The day of each comes after its whole time."""
    reports = [*experiments]
    weights: dict[str, tuple[object, ...]] = {}
    for report in sorted(reports, key=lambda report: report.scope == SINCE_START):
        first = next(iter(judged(report.variants)), None)
        weights[report.experiment] = (severity(report.verdict), _weight(first)[1] if first else 1.0, name_order(report.experiment))
    return sorted(reports, key=lambda report: (*weights[report.experiment], report.scope == THIS_DAY, report.scope))
