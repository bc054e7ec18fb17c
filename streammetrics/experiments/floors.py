"""Effective users: what an arm needs before an interval or a verdict counts. Moments in, numbers out.

The variance is clustered by user, so it needs many users. If a few users (bots, one heavy account) produce most of an arm's lists, the
estimate has only a few independent parts. Their number is Kish's effective sample size, n_eff = (sum d)**2 / sum d**2, with d a user's
lists (or items, or 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from streammetrics.experiments.measures import Measure, Measures
from streammetrics.words.sentences import named, say

EFFECTIVE_USERS_MIN: Final = 20.0
"""With four bots among 600 users, 29 % of experiments without an effect had a false verdict without this floor, and none with it."""


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
