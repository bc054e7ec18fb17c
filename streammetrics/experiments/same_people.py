"""Do the arms of two experiments have the same users? Then their effects cannot be told apart. Stored integers in. Pure.

Two signs are looked for, in this order:

- **Equal moments.** Each arm of the one has the very sums of an arm of the other: users, lists, values and their squares. That is so if
  every list carries both experiments and one assignment. By chance it does not happen.
- **Equal arrivals.** If some lists lack one of the labels, sums differ a little. New users by hour still agree. With independent
  assignments, an hour with n new users gives a difference of variance n (p q + r s), with p and r the shares of both arms. Over B hours
  the sum of squared differences, each over its variance, is about B. If it is at most B / 10, with 16 hours or more, the users are the
  same: chi-square is so small by chance in fewer than 5 of a million pairs.

Experiments that share an assignment and label lists of different places have other users in part. That leaves no sign in these sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streammetrics.experiments.hours import Hours
from streammetrics.experiments.stored import Stored

BLOCKS_MIN: Final = 16
"""Blocks of time with enough new users that a pair of arms needs."""
ARRIVALS_MIN: Final = 5
"""New users of an arm that a block needs."""
CLOSE: Final = 0.1
"""The sum of squared differences per block, against 1 by chance."""


def same_people(one: Stored, other: Stored, min_users: int) -> dict[str, str] | None:
    """Return the arm of the other experiment that has the same users, for each arm of the one; None if some arm has no such twin.

    Arms with fewer than `min_users` users do not count.

    >>> kept = {"control": [500, 900, 3], "new": [498, 880, 4]}
    >>> users = {name: sums[0] for name, sums in kept.items()}
    >>> one = Stored(experiment="a", scope="start", moments=kept, first_exposures=users)
    >>> renamed = {"old": kept["control"], "new": kept["new"]}
    >>> two = Stored(experiment="b", scope="start", moments=renamed, first_exposures=users)
    >>> same_people(one, two, 100)
    {'control': 'old', 'new': 'new'}
    """
    arms, others = ([name for name, sums in each.moments.items() if sums[0] >= min_users] for each in (one, other))
    if len(arms) < 2 or len(arms) != len(others):
        return None
    users = [sum(each.moments[name][0] for name in names) for each, names in ((one, arms), (other, others))]
    if abs(users[0] - users[1]) > CLOSE * max(users):  # the common case, at once
        return None
    twins = {arm: next((each for each in others if [*one.moments[arm]] == [*other.moments[each]]), None) for arm in arms}
    found = {arm: twin for arm, twin in twins.items() if twin is not None}
    if len(found) < len(arms):
        found = _by_arrivals(one.hours, other.hours, arms, others)
    return found if len({*found.values()}) == len(arms) else None


def _by_arrivals(one: Hours, other: Hours, arms: list[str], others: list[str]) -> dict[str, str]:
    length = max(one.length, other.length)
    own, against = (hours.new_users_by_block(length) for hours in (one, other))
    found = {}
    for arm in arms:
        twin = next((each for each in others if _agree(own, against, arm, each)), None)
        if twin is not None:
            found[arm] = twin
    return found


def _agree(own: Mapping[str, Mapping[int, int]], against: Mapping[str, Mapping[int, int]], arm: str, other: str) -> bool:
    first, second = own.get(arm, {}), against.get(other, {})
    blocks = [each for each in first if min(first[each], second.get(each, 0)) >= ARRIVALS_MIN]
    if len(blocks) < BLOCKS_MIN or len(first) - len(blocks) > CLOSE * len(first):
        return False
    totals = [sum(sum(arms.values()) for arms in each.values()) for each in (own, against)]
    p, r = sum(first.values()) / totals[0], sum(second.values()) / totals[1]
    spread = p * (1 - p) + r * (1 - r)
    squares = sum(
        (first[each] - second[each]) ** 2 / (sum(arms.get(each, 0) for arms in own.values()) * spread) for each in blocks if spread > 0
    )
    return squares <= CLOSE * len(blocks)
