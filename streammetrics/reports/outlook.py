"""Adds what undecided variants still need to a report, with the time that it takes at the present rate of new users. Pure.

It is computed when a report is shown, because it costs milliseconds per variant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from streammetrics.events.event_time import DAY_MS
from streammetrics.experiments.experiment_report import SINCE_START, ExperimentReport, MeasureReport, NeededUsers, VariantReport
from streammetrics.experiments.policy import INTERLEAVED
from streammetrics.reports.history import History, HistorySeries
from streammetrics.statistics.planning import ComparisonScore, PlannedUsers, PlannedWord, VerdictRules, more_users
from streammetrics.statistics.sequence import Mixture
from streammetrics.words.numbers import percent
from streammetrics.words.sentences import Part, Words, named, say
from streammetrics.words.times import HOUR_MS

_WORDS: Final[tuple[PlannedWord, ...]] = ("regressed", "improved", "safe")
RATE_MS_MIN: Final = 5 * 60_000
"""Shortest time in which new users are counted."""


def with_needed(experiment: ExperimentReport, users_per_hour: float | None = None) -> ExperimentReport:
    """Return the report with `needed` of every inconclusive variant, and `gate_needed` of every variant whose gate waits.

    users_per_hour: new users of all variants; None leaves hours unknown.
    """
    variants = tuple(
        replace(
            variant,
            needed=needed_of(experiment, variant, users_per_hour),
            gate_needed=gate_needed_of(experiment, variant, users_per_hour),
        )
        for variant in experiment.variants
    )
    return replace(experiment, variants=variants)


def gate_needed_of(experiment: ExperimentReport, variant: VariantReport, users_per_hour: float | None = None) -> NeededUsers | None:
    """Return what it takes until the gate passes if there is no difference; None unless it waits for an inconclusive variant."""
    if variant.gate is None or variant.gate.word != "wait" or not experiment.gate_margin:
        return None
    if all(measure.within_gate_margin for measure in variant.measures if measure.paging):
        return None
    answers = needed_of(experiment, variant, users_per_hour, experiment.gate_margin)
    return next((answer for answer in answers if answer.verdict == "safe"), None)


def needed_of(
    experiment: ExperimentReport, variant: VariantReport, users_per_hour: float | None = None, margin: float | None = None
) -> tuple[NeededUsers, ...]:
    """Return what an inconclusive variant needs, the most likely verdict first; empty if it has another verdict or no interval yet.

    margin: that of a gate; None: the experiment's own.
    """
    undecided = variant.verdict is not None and variant.verdict.word == "inconclusive"
    if not undecided or variant.role == INTERLEAVED or experiment.health.troubles:
        return ()
    rules = VerdictRules(
        alpha=experiment.alpha, margin=experiment.margin if margin is None else margin, minimum_lift=experiment.minimum_lift
    )
    soonest = {word: _soonest(experiment, variant, rules, word) for word in _WORDS}
    # A measure beyond its own boundary waits for the others, which share the error. How many users that takes is not known.
    answers = [
        _answer(planned, rules, word, users_per_hour) for word, planned in soonest.items() if planned is not None and planned[1].half > 0
    ]
    is_better = next(
        (measure.lift is not None and measure.lift * _sign_of_better(measure) > 0 for measure in variant.measures if measure.paging), False
    )
    likely: PlannedWord = "improved" if is_better else "regressed"
    return tuple(sorted(answers, key=lambda answer: (answer.verdict != likely, answer.verdict != "safe")))


def _soonest(
    experiment: ExperimentReport, variant: VariantReport, rules: VerdictRules, word: PlannedWord
) -> tuple[MeasureReport, PlannedUsers] | None:
    """Return the deciding measure that brings a verdict, and its users. `safe` needs all of them; a drop or a rise needs one."""
    open_measures = [
        measure for measure in variant.measures if measure.paging and measure.verdict and measure.verdict.word == "inconclusive"
    ]
    planned = [(measure, users) for measure in open_measures if (users := _users(experiment, measure, rules, word)) is not None]
    if not planned or (word == "safe" and len(planned) < len(open_measures)):
        return None
    return (max if word == "safe" else min)(planned, key=lambda pair: pair[1].half)


def _users(experiment: ExperimentReport, measure: MeasureReport, rules: VerdictRules, word: PlannedWord) -> PlannedUsers | None:
    """Return the further users until one measure's verdict; None without a frozen scale, or if the interval excludes the lift."""
    better, judged = _sign_of_better(measure), measure.judged
    lift = better * _gain(rules, word)
    if judged is None or measure.tau is None or measure.alpha is None or measure.lift_lower is None or judged.control_mean <= 0:
        return None
    if lift < measure.lift_lower or (measure.lift_upper is not None and lift > measure.lift_upper):
        return None
    rejected = 1.0 if word == "improved" else 1 - better * rules.margin
    variance = judged.error**2 + (rejected * judged.control_error) ** 2 - 2 * rejected * judged.covariance
    if not 0 < variance < math.inf:
        return None
    sign = -better if word == "regressed" else better
    frozen_mean = None if measure.minimum_difference is None else measure.minimum_difference / rules.minimum_lift
    score = ComparisonScore(
        users=sum(variant.users for variant in experiment.variants),
        z=sign * (judged.mean - rejected * judged.control_mean) / math.sqrt(variance),
        variance=variance,
        mixture=Mixture(measure.tau, None if frozen_mean is None else rules.effect_of(word) * frozen_mean),
        distance=rules.distance(word, _gain(rules, word)) * judged.control_mean,
    )
    planned = more_users(score, measure.alpha / experiment.treatments)
    return planned if planned.half < math.inf else None


def _sign_of_better(measure: MeasureReport) -> float:
    """Return the sign of a lift that makes a measure better."""
    return -1.0 if measure.lower_is_better else 1.0


def _gain(rules: VerdictRules, word: PlannedWord) -> float:
    """Return the true lift that is assumed for a verdict, above 0 if it makes the measure better."""
    return {"regressed": -rules.minimum_lift, "improved": rules.minimum_lift, "safe": 0.0}[word]


def _answer(
    planned: tuple[MeasureReport, PlannedUsers], rules: VerdictRules, word: PlannedWord, users_per_hour: float | None
) -> NeededUsers:
    measure, users = planned
    half, low, high = (_count(count) for count in (users.half, users.early, users.late))
    assert half is not None, "a verdict that never comes is no answer"
    hours = [None if users_then is None or not users_per_hour else users_then / users_per_hour for users_then in (half, low, high)]
    return NeededUsers(word, measure.metric, measure.k, _sign_of_better(measure) * _gain(rules, word), half, low or 0, high, *hours)


def _count(users: float) -> int | None:
    return None if users == math.inf else math.ceil(users)


def needed_words(needed: NeededUsers, aim: str = "") -> Words:
    """Say what a variant still needs. `aim` replaces the words for the verdict, such as "to pass the gate, if there is no difference".

    >>> needed_words(NeededUsers("regressed", "ndcg", 10, -0.1, 1_234, 310, 4_180, 5.2, 1.3, 17.6))
    'needs about 1,200 more users (310 to 4,200), about 5.2 more hours, to find a drop of 10 %'
    >>> needed_words(NeededUsers("safe", "ndcg", 10, 0.0, 163_400, 40_100, None))
    'needs about 160,000 more users (40,000 or more) to be safe, if there is no difference'
    """
    high = "or more" if needed.users_high is None else say("to {high}", high=rounded(needed.users_high))
    time = "" if needed.hours is None else say(", about {hours},", hours=_hours(needed.hours))
    return say(
        "needs about {users} more users ({low} {high}){time} {aim}",
        users=rounded(needed.users),
        low=rounded(needed.users_low),
        high=high,
        time=time,
        aim=aim or _aim(needed),
    )


def _aim(needed: NeededUsers) -> str:
    if needed.verdict == "safe":
        return "to be safe, if there is no difference"
    return say("to find a {change} of {size}", change="drop" if needed.lift < 0 else "rise", size=percent(abs(needed.lift)))


def needed_sentences(experiment: ExperimentReport) -> list[Words]:
    """Return what each inconclusive variant needs until its most likely verdict, one sentence for each."""
    waiting = [variant for variant in experiment.variants if variant.needed]
    return [say("{variant} {needs}", variant=named(variant.variant), needs=needed_words(variant.needed[0])) for variant in waiting]


def rounded(users: int) -> Words:
    """Return a number of users with two digits."""
    return Words([Part("number", f"{float(f'{users:.2g}'):,.0f}")])


def _hours(hours: float) -> Words:
    """Return a time in minutes, hours or days, with two digits.

    >>> _hours(0.4), _hours(5.23), _hours(100.0)
    ('24 more minutes', '5.2 more hours', '4.2 more days')
    """
    amount, unit = (60 * hours, "minutes") if hours < 1 else (hours, "hours") if hours < 48 else (hours / 24, "days")
    return say("{amount:,g} more {unit}", amount=float(f"{amount:.2g}"), unit=unit)


def with_outlook(experiments: Iterable[ExperimentReport], history: History) -> tuple[ExperimentReport, ...]:
    """Return the experiments with `needed` in the scope since their start. The scope of a day ends before most verdicts."""
    return tuple(
        with_needed(experiment, users_per_hour(history.of(experiment.experiment, experiment.scope)))
        if experiment.scope == SINCE_START
        else experiment
        for experiment in experiments
    )


def users_per_hour(series: HistorySeries) -> float | None:
    """Return the rate of new users of all variants, per hour of event time; None if the history does not show it.

    It is that of the last day, so that it covers all hours. In a run of less than two days it is that of the later half, because most
    users of an experiment come for the first time early.
    """
    kept = series.snapshots.kept
    if not kept:
        return None
    last_ms, last = kept[-1]
    from_ms = last_ms - min(DAY_MS, (last_ms - kept[0][0]) // 2)
    first_ms, first = next((series for series in kept if series[0] >= from_ms), kept[-1])
    users = last.users - first.users
    return users * HOUR_MS / (last_ms - first_ms) if users > 0 and last_ms - first_ms >= RATE_MS_MIN else None
