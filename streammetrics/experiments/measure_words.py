"""What comparisons say: means, lifts and intervals in words. Pure."""

from __future__ import annotations

from streammetrics.metrics.records import METRICS
from streammetrics.statistics.estimates import Interval
from streammetrics.statistics.measures import Measure
from streammetrics.words.numbers import percent
from streammetrics.words.sentences import Words, measure_name, named, say
from streammetrics.words.times import minute_text


def means_words(measure: Measure, means: tuple[float, float], difference: Interval | None, against: str) -> Words:
    """Describe two means, of a treatment and the control, and how far apart they are at least.

    >>> empty = Measure("zero_result_rate", 0, "mean", 2, 1, 0, lower_is_better=True)
    >>> means_words(empty, (0.15, 0.0), Interval(0.1153, 0.19), "control")
    'zero_result_rate is 15 % against 0 % in control; the difference is at least 11.5 points'
    """
    is_share = measure.ceiling == 1
    one, other = (percent(mean) if is_share else say("{mean:.3g}", mean=mean) for mean in means)
    ends = [end for end in ((difference.lower, difference.upper) if difference else ()) if end is not None]
    least = min(map(abs, ends), default=0.0) if len({end > 0 for end in ends}) == 1 else 0.0
    apart = say("{points:.3g} points", points=100 * least) if is_share else say("{least:.3g}", least=least)
    said = say(
        "{measure} is {one} against {other} in {against}", measure=measure_name(str(measure)), one=one, other=other, against=named(against)
    )
    return say("{said}; the difference is at least {apart}", said=said, apart=apart) if least else said


def lift_words(measure: Measure, lift: float | None, against: str) -> Words:
    """Describe a lift; None means that the control's mean is 0.

    >>> lift_words(Measure("hit_rate", 10, "mean", 2, 1, 40), -0.12, "control")
    '12 % fewer lists with a hit in the first 10 than control'
    >>> lift_words(Measure("ndcg", 10, "mean", 2, 1, 40), 0.0, "control")
    'no difference from control in ndcg@10'
    """
    counted = METRICS[measure.name].counted
    thing = say(counted or "{measure}", k=measure.k, measure=measure_name(str(measure)))
    if lift is None:
        return say("{against} has no {thing}", against=named(against), thing=thing)
    if lift == 0:
        return say("no difference from {against} in {thing}", against=named(against), thing=thing)
    return say("{change} {thing} than {against}", change=_size_words(measure, lift), thing=thing, against=named(against))


def interval_words(measure: Measure, interval: Interval | None) -> Words:
    """Describe where the true lift may be."""
    if interval is None or interval.lower is None:
        return say("there is too little data for an interval")
    lower, upper = ("any higher value" if end is None else _size_words(measure, end) for end in (interval.lower, interval.upper))
    return say("the true difference is between {lower} and {upper}", lower=lower, upper=upper)


def change_words(measure: Measure, before: float, since: float, at_ms: int) -> Words:
    """Describe a change of the effect: the lifts before a time and since.

    >>> change_words(Measure("ndcg", 10, "mean", 2, 1, 40), 0.67, -0.15, 1_732_183_200_000)
    'the effect has changed: 67 % higher before 2024-11-21 10:00 UTC, 15 % lower since'
    """
    return say(
        "the effect has changed: {before} before {at}, {since} since",
        before=_size_words(measure, before),
        since=_size_words(measure, since),
        at=minute_text(at_ms),
    )


def _size_words(measure: Measure, lift: float) -> Words:
    less, more = ("fewer", "more") if METRICS[measure.name].counted else ("lower", "higher")
    return say("{size} {change}", size=percent(abs(lift)), change=less if lift < 0 else more)
