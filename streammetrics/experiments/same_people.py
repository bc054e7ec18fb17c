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
    arms, others = ([name for name, sums in stored.moments.items() if sums[0] >= min_users] for stored in (one, other))
    if len(arms) < 2 or len(arms) != len(others):
        return None
    users = [sum(stored.moments[name][0] for name in names) for stored, names in ((one, arms), (other, others))]
    if abs(users[0] - users[1]) > CLOSE * max(users):  # the common case, at once
        return None
    twins = {arm: next((name for name in others if [*one.moments[arm]] == [*other.moments[name]]), None) for arm in arms}
    pairs = {arm: twin for arm, twin in twins.items() if twin is not None}
    if len(pairs) < len(arms):
        pairs = _by_arrivals(one.hours, other.hours, arms, others)
    return pairs if len({*pairs.values()}) == len(arms) else None


def _by_arrivals(one: Hours, other: Hours, arms: list[str], others: list[str]) -> dict[str, str]:
    length = max(one.length, other.length)
    ours, against = (hours.new_users_by_block(length) for hours in (one, other))
    twins = {}
    for arm in arms:
        twin = next((name for name in others if _agree(ours, against, arm, name)), None)
        if twin is not None:
            twins[arm] = twin
    return twins


def _agree(ours: Mapping[str, Mapping[int, int]], against: Mapping[str, Mapping[int, int]], arm: str, other: str) -> bool:
    first, second = ours.get(arm, {}), against.get(other, {})
    blocks = [block for block in first if min(first[block], second.get(block, 0)) >= ARRIVALS_MIN]
    if len(blocks) < BLOCKS_MIN or len(first) - len(blocks) > CLOSE * len(first):
        return False
    totals = [sum(sum(arms.values()) for arms in by_block.values()) for by_block in (ours, against)]
    p, r = sum(first.values()) / totals[0], sum(second.values()) / totals[1]
    spread = p * (1 - p) + r * (1 - r)
    squares = sum(
        (first[block] - second[block]) ** 2 / (sum(arms.get(block, 0) for arms in ours.values()) * spread) for block in blocks if spread > 0
    )
    return squares <= CLOSE * len(blocks)
