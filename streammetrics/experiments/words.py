"""Words for numbers in reasons: shares, lifts, intervals. Pure."""

from __future__ import annotations

import math
from typing import Final

from streammetrics.experiments.estimates import Interval
from streammetrics.experiments.measures import Measure

_THINGS: Final = {
    "hit_rate": ("fewer", "more", "lists with a hit in the first {k}"),
    "user_hit_rate": ("fewer", "more", "users with a hit in the first {k}"),
    "item_hit_rate": ("fewer", "more", "hits among the items shown in the first {k}"),
    "precision": ("fewer", "more", "hits in the first {k}"),
}


def percent(share: float) -> str:
    """Format a share with two digits, or three from 10 % on. It is never rounded up to 100 %.

    >>> percent(0.12), percent(0.0312), percent(0.9875), percent(0.00004)
    ('12 %', '3.1 %', '98.75 %', '0.004 %')
    >>> percent(0.9999999), percent(1.0), percent(1.345678), percent(123.45678)
    ('99.9999 %', '100 %', '135 %', '12,300 %')
    """
    value = 100 * share
    if 95 <= value < 100:
        return f"{math.floor(value * 10_000 + 1e-6) / 10_000:.6g} %"
    return f"{float(f'{value:.3g}' if value >= 10 else f'{value:.2g}'):,.10g} %"


def chance(p: float) -> str:
    """Say how rare something with a p-value is.

    >>> chance(0.0123), chance(1e-14)
    ('happens by chance at most once in 80 tests', 'practically impossible by chance')
    """
    if p <= 1e-12:
        return "practically impossible by chance"
    digits = len(str(int(1 / p))) - 1
    return f"happens by chance at most once in {int(1 / p) // 10**digits * 10**digits:,} tests"


def confidence(alpha: float) -> str:
    """Return how sure a verdict of this error is."""
    return f"{percent(1 - alpha)} confidence, safe to check at any time"


def means_words(measure: Measure, means: tuple[float, float], difference: Interval | None, against: str) -> str:
    """Describe two means, of a treatment and the control, and how far apart they are at least.

    >>> empty = Measure("zero_result_rate", 0, "mean", 2, 1, 0, lower_is_better=True)
    >>> means_words(empty, (0.15, 0.0), Interval(0.1153, 0.19), "control")
    'zero_result_rate is 15 % against 0 % in control; the difference is at least 11.5 points'
    """
    is_share = measure.ceiling == 1
    one, other = (percent(mean) if is_share else f"{mean:.3g}" for mean in means)
    ends = [end for end in ((difference.lower, difference.upper) if difference else ()) if end is not None]
    least = min(map(abs, ends), default=0.0) if len({end > 0 for end in ends}) == 1 else 0.0
    apart = f"{100 * least:.3g} points" if is_share else f"{least:.3g}"
    return f"{measure} is {one} against {other} in {against}" + (f"; the difference is at least {apart}" if least else "")


def lift_words(measure: Measure, lift: float | None, against: str) -> str:
    """Describe a lift; None means that the control's mean is 0.

    >>> lift_words(Measure("hit_rate", 10, "mean", 2, 1, 40), -0.12, "control")
    '12 % fewer lists with a hit in the first 10 than control'
    >>> lift_words(Measure("ndcg", 10, "mean", 2, 1, 40), 0.0, "control")
    'no difference from control in ndcg@10'
    """
    less, more, thing = _THINGS.get(measure.name, ("lower", "higher", str(measure)))
    thing = thing.format(k=measure.k)
    if lift is None:
        return f"{against} has no {thing}"
    if lift == 0:
        return f"no difference from {against} in {thing}"
    return f"{percent(abs(lift))} {less if lift < 0 else more} {thing} than {against}"


def interval_words(measure: Measure, interval: Interval | None) -> str:
    """Describe where the true lift may be."""
    if interval is None or interval.lower is None:
        return "there is too little data for an interval"
    less, more, _ = _THINGS.get(measure.name, ("lower", "higher", ""))
    lower, upper = (end if end is None else f"{percent(abs(end))} {less if end < 0 else more}" for end in (interval.lower, interval.upper))
    return f"the true difference is between {lower} and {upper or 'any higher value'}"
