"""The decided verdicts of an experiment: what new lists cannot change any more, and what is frozen of it. Pure.

See `experiment_state`. Lists of the other arm that come later make its users differ more, so that intervals grow. So the verdict and the
numbers of a deciding measure are frozen with the scales of the experiment, and shown from then on, until the arm has lists again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from streammetrics.experiments.arms import Arms
from streammetrics.experiments.experiment_report import SINCE_START, ExperimentReport, MeasureReport
from streammetrics.experiments.experiment_state import ExperimentState
from streammetrics.experiments.measure_words import lift_words
from streammetrics.experiments.stored import Stored
from streammetrics.experiments.verdict import VERDICT_CODES, Verdict
from streammetrics.statistics.measures import measure_text
from streammetrics.words.numbers import confidence
from streammetrics.words.sentences import say, without_advice

FROZEN_NUMBERS: Final = ("lift", "lift_lower", "lift_upper", "judged_lift_upper")
"""What is frozen of a decided measure besides its verdict."""


def _decision_key(variant: str, measure: MeasureReport, number: str) -> str:
    return f"{measure_text(measure.metric, measure.k)} {variant} decided {number}"


def decided_ms_of(verdict: Verdict, state: ExperimentState, stored: Stored, arms: Iterable[str], control: str | None) -> int | None:
    """Return the time of the last list that can change a certain verdict on arms, if it counts; None while the verdict can change."""
    if state.word == "running" or verdict.word in ("inconclusive", "invalid"):
        return None
    last = [min(stored.last_ms[name] for name in {arm, control or arm} if name in stored.last_ms) for arm in arms if arm in stored.last_ms]
    return max(last) if last and max(last) < stored.to_ms else None


def with_decision(arms: Arms, variant: str, report: MeasureReport) -> MeasureReport:
    """Return the measure with the verdict and the numbers that were frozen when its arm, or the control, had stopped."""
    code, at_ms = (arms.scales.get(_decision_key(variant, report, number)) for number in ("verdict", "ms"))
    last = [arms.stored.last_ms[arm] for arm in (variant, arms.control or "") if arm in arms.stored.last_ms]
    is_open = report.verdict is None or report.verdict.word == "invalid" or arms.states.of(variant).word == "running"
    if code is None or is_open or arms.stored.scope != SINCE_START or at_ms != min(last, default=None):
        return report
    numbers: dict[str, Any] = {number: arms.scales.get(_decision_key(variant, report, number)) for number in FROZEN_NUMBERS}
    word = next(word for word, number in VERDICT_CODES.items() if number == code)
    measure = next(measure for measure in arms.measures if str(measure) == measure_text(report.metric, report.k))
    words = lift_words(measure, numbers["lift"], arms.control or "")
    return replace(report, **numbers, verdict=Verdict(word, say("{words}; {sure}", words=words, sure=confidence(arms.policy.alpha))))


def new_decisions(report: ExperimentReport, frozen: Mapping[str, float]) -> dict[str, float]:
    """Return what to freeze, by name: the verdicts and numbers of the deciding measures of decided variants, and the time of the last list.

    report: since the start of the experiment. What is frozen for the same time never changes.
    """
    chosen = dict[str, float]()
    for variant in report.variants:
        for measure in variant.measures if variant.decided_ms is not None else ():
            is_certain = measure.paging and measure.verdict is not None and measure.verdict.word in ("regressed", "improved", "safe")
            if not is_certain or frozen.get(_decision_key(variant.variant, measure, "ms")) == variant.decided_ms:
                continue
            numbers: dict[str, Any] = {number: getattr(measure, number) for number in FROZEN_NUMBERS}
            numbers |= {"verdict": measure.verdict and measure.verdict.code, "ms": variant.decided_ms}
            chosen |= {_decision_key(variant.variant, measure, name): float(value) for name, value in numbers.items() if value is not None}
    return chosen


def with_state(verdict: Verdict, state: ExperimentState, decided_ms: int | None) -> Verdict:
    """Return the verdict that also says why nothing new can change it."""
    if state.word == "running":
        return verdict
    said, how = without_advice(verdict.said)
    template = "{said}; {state}" if decided_ms is None else "{said}; decided: {state}"
    told = say(template, said=said, state=state.said)
    return Verdict(verdict.word, say("{told}.{how}", told=told, how=how) if how else told)
