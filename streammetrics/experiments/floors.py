"""Floors: what an arm needs before an interval or a verdict counts. Moments in, numbers out; no stored state of its own.

The variance is clustered by user, so it needs many users. Two kinds of traffic have enough users by count and still too few:

**Dominant users.** If a few users (bots, one heavy account) produce most of an arm's lists, the estimate has only a few independent
parts. Their number is Kish's effective sample size, n_eff = (sum d)**2 / sum d**2, with d a user's lists (or items, or 1).

**Rare events in a small arm.** A small arm with few hits by chance has a small variance too, so a drop seems certain too early. The
expected number of users with a hit in the smaller arm is (H_t + H_c) * K_min / (K_t + K_c), with H users with a hit and K users. It
pools both arms on purpose: a floor on the arm's own hits would never pass for a ranker that kills all clicks. A measure that is almost
always at its ceiling has the same fault on the other side: there users below the ceiling are rare. So these are counted in the same way.

"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from streammetrics.experiments.measures import USERS_AT, Measure, Measures
from streammetrics.experiments.words import measure_name, named, say

EFFECTIVE_USERS_MIN: Final = 20.0
"""With four bots among 600 users, 29 % of experiments without an effect had a false verdict without this floor, and none with it."""
HIT_USERS_MIN: Final = 20.0
"""With 2 % hits in an arm of 5 %, 13 % without this floor and 0.2 % with it. measurements.md has these and other regimes."""


def effective_users(measures: Measures, measure: Measure, moments: Sequence[int]) -> float:
    """Return (sum d)**2 / sum d**2: the number of users of equal weight with the same spread; 0 without lists.

    >>> from streammetrics.metrics import Scorer
    >>> from streammetrics.experiments.moments import of_users
    >>> measures = Measures(Scorer(["mrr@10"]).columns)
    >>> effective_users(measures, measures.all[0], of_users(measures, [[1, 0]] * 60 + [[40, 0]]))  # doctest: +ELLIPSIS
    6.02...
    """
    at = measures.places(measure)
    return moments[at.d] ** 2 / moments[at.dd] if moments[at.dd] else 0.0


def largest_user_share_max(users: int, effective: float) -> float:
    """Return the largest share of an arm's lists (or items) that one user can have, given its users and effective users; 0 without lists.

    This is Samuelson's inequality: 1/K + sqrt((1 - 1/K) (1/n_eff - 1/K)). It is exact if one user dominates and the others are alike.
    It grows with K, so users who count in several strata only make it larger.

    >>> round(largest_user_share_max(61, 100**2 / (60 + 40**2)), 12)
    0.4
    """
    if not effective:
        return 0.0
    return 1 / users + math.sqrt((1 - 1 / users) * max(1 / effective - 1 / users, 0.0))


class EventUsers(NamedTuple):
    """Expected users in the smaller of two arms, if both arms have the same share of them.

    above_zero: users with a value above 0, such as a hit. below_ceiling: users below the ceiling of the measure; infinite without one.
    """

    above_zero: float
    below_ceiling: float

    @property
    def least(self) -> float:
        return min(self)


def users_above_zero(measures: Measures, measure: Measure, moments: Sequence[int]) -> float:
    """Return the number of users with a value above 0, or a lower bound if it is not measured.

    Of a measure of hits the exact number is the numerator of `user_hit_rate` at the same cut-off. The bound is
    (sum y)**2 / sum y**2, which is never more than the users with y > 0 (Cauchy-Schwarz).
    """
    at = measures.places(measure)
    bound = _bound(moments[at.y], moments[at.yy])
    hits = (moments[measures.places(each).y] for each in measures if each.kind == "users" and each.k == measure.k)
    return max(bound, next(hits, 0)) if measure.counts_hits else bound


def users_below_ceiling(measures: Measures, measure: Measure, moments: Sequence[int]) -> float:
    """Return a lower bound of the users with y below ceiling * d, exact for a share of users; infinite without a ceiling.

    It is the bound of `users_above_zero`, of ceiling * d - y.
    """
    if measure.ceiling is None:
        return math.inf
    at, one = measures.places(measure), measure.ceiling << measure.scale_bits
    squares = moments[at.dd] * one * one - 2 * moments[at.yd] * one + moments[at.yy]
    return _bound(moments[at.d] * one - moments[at.y], squares)


def _bound(total: int, squares: int) -> float:
    return total**2 / squares if squares else 0.0


def expected_event_users(measures: Measures, measure: Measure, treatment: Sequence[int], control: Sequence[int]) -> EventUsers:
    """Return the users with an event that are expected in the smaller of two arms; 0 without users."""
    arms, users = (treatment, control), (treatment[USERS_AT], control[USERS_AT])
    if not any(users):
        return EventUsers(0.0, 0.0)
    above = math.fsum(users_above_zero(measures, measure, each) for each in arms)
    below = math.fsum(users_below_ceiling(measures, measure, each) for each in arms)
    return EventUsers(above * min(users) / sum(users), below * min(users) / sum(users))


def few_effective_users(measure: Measure, name: str, users: int, effective: float, least: float, share: float) -> str:
    """Say that a few users dominate an arm; `share` is the largest that one user can have."""
    unit = "items" if measure.kind == "ratio" else "lists"
    return say(
        "a few users dominate {name}: its {users:,} users count as {effective:.3g}, at least {least:g} are needed;"
        " one user may have up to {largest:.2g} % of its {unit}",
        name=named(name),
        users=users,
        effective=effective,
        least=least,
        largest=100 * share,
        unit=unit,
    )


def rare_events(measure: Measure, smaller: str, expected: EventUsers, least: float) -> str:
    """Say which events are too rare in the smaller arm.

    >>> rare_events(Measure("hit_rate", 10, "mean", 2, 1, 40), "treatment", EventUsers(300.0, 5.5), 20)
    'hit_rate@10 is close to 1: about 5.5 users below it are expected in treatment, at least 20 are needed'
    """
    if expected.above_zero >= least:
        rare, count, who = (
            say("{measure} is close to {ceiling}", measure=measure_name(str(measure)), ceiling=str(measure.ceiling)),
            expected.below_ceiling,
            "below it",
        )
    elif measure.counts_hits:
        rare, count, who = say("hits are too rare"), expected.above_zero, "with a hit"
    else:
        rare, count, who = say("{measure} is close to 0", measure=measure_name(str(measure))), expected.above_zero, "above it"
    return say(
        "{rare}: about {count:.2g} users {who} are expected in {smaller}, at least {least:g} are needed",
        rare=rare,
        count=count,
        who=who,
        smaller=named(smaller),
        least=least,
    )
