"""Interleaving: two rankers share one list, and users' clicks show which one they prefer. Credits in, an interval on the mean out.

In a team-draft list each item comes from one team (Radlinski, Kurup, Joachims 2008, "How does clickthrough data reflect retrieval
quality?"). The team with more relevant items wins the list. Each list compares both rankers for the same user at the same moment, so
interleaving needs far fewer users than two arms. It answers which ranker users prefer, not how much a metric changes. The credit of
a list is +1, 0 or -1. The mean credit is (lists won - lists lost) / lists, with a variance clustered by user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streammetrics.experiments.estimates import Estimate
from streammetrics.experiments.measures import ExperimentError
from streammetrics.experiments.sequence import Mixture, one_sided, two_sided

CREDIT_WIDTH: Final = 6
"""Moments of the mean credit of one team: users, lists, lists squared, credit, credit squared, lists x credit."""
INTERLEAVED: Final = "interleaved"
"""The variant with lists of two rankers. Its lists are compared by team; the variant is compared with no other."""
MINIMUM_CREDIT: Final = 0.05
"""The preference to detect: 5 in 100 more lists won than lost. It is the scale tau and does not depend on the data."""


def list_credit(teams: Sequence[str | None], grades: Sequence[float], control: str, team: str, threshold: float = 1.0) -> int | None:
    """Return the outcome of one list for `team` against `control`: 1 won, -1 lost, 0 tied; None if one of them has no item in it.

    teams, grades: of the list's items in rank order. The team is None for an item of no team. An item counts if its grade is at
    least `threshold`. Raises ExperimentError when the lengths differ or both teams are the same.

    >>> list_credit(["a", "b", "b", "a"], [0, 1, 2, 1], control="a", team="b")
    1
    >>> list_credit(["a", "b"], [0, 0], control="a", team="b"), list_credit(["a", "a"], [1, 0], control="a", team="b")
    (0, None)
    """
    if len(teams) != len(grades):
        raise ExperimentError("grades", f"got {len(grades)}; must be {len(teams)}, as many as `teams`")
    if control == team:
        raise ExperimentError("team", f"got {team!r}, which is the control; must be another team")
    if control not in teams or team not in teams:
        return None
    ours = sum(grade >= threshold for of, grade in zip(teams, grades, strict=True) if of == team)
    theirs = sum(grade >= threshold for of, grade in zip(teams, grades, strict=True) if of == control)
    return (ours > theirs) - (ours < theirs)


def credit_moments(lists: int, credit: int) -> list[int]:
    """Return the credit moments of one user with `lists` interleaved lists and a sum of credits; all 0 without lists.

    Add the new and subtract the old, as with the moments of measures. Raises ExperimentError if the credit exceeds the lists.

    >>> credit_moments(3, -2)
    [1, 3, 9, -2, 4, -6]
    """
    if lists < 0 or abs(credit) > lists:
        raise ExperimentError("credit", f"got {credit} for {lists} lists; must be a sum of -1, 0 or 1 per list")
    return [1, lists, lists * lists, credit, credit * credit, lists * credit] if lists else [0] * CREDIT_WIDTH


def add_credits(total: dict[tuple[str, str], list[int]], credits: Mapping[tuple[str, str], tuple[int, int]], times: int) -> None:
    """Add a user's moments of each pair of teams (lists, credit) `times` times; -1 removes them.

    >>> total: dict[tuple[str, str], list[int]] = {}
    >>> add_credits(total, {("a", "b"): (3, -2)}, 1)
    >>> total
    {('a', 'b'): [1, 3, 9, -2, 4, -6]}
    """
    for pair, (lists, credit) in credits.items():
        known = total.get(pair) or [0] * CREDIT_WIDTH
        total[pair] = [before + times * change for before, change in zip(known, credit_moments(lists, credit), strict=True)]


def reversed_credit(moments: Sequence[int]) -> list[int]:
    """Return the moments of the mean credit for the other team of the pair.

    >>> reversed_credit([1, 3, 9, -2, 4, -6])
    [1, 3, 9, 2, 4, 6]
    """
    users, lists, dd, y, yy, yd = moments
    return [users, lists, dd, -y, yy, -yd]


@dataclass(frozen=True, slots=True)
class Preference:
    """The mean credit of a team against the control: from -1 to 1, above 0 if it is preferred. Bounds are None with too few users.

    `preferred` and `disliked` are one-sided decisions with error alpha over all looks together.
    """

    users: int
    lists: int
    effective_users: float
    mean: float
    variance: float
    lower: float | None
    upper: float | None
    preferred: bool
    disliked: bool


def preference(
    moments: Sequence[int], alpha: float, min_users: int = 100, effective_users_min: float = 20.0, tau: float = MINIMUM_CREDIT
) -> Preference | None:
    """Return the interval on the mean credit from summed `credit_moments`, valid at all looks together; None without lists.

    >>> from streammetrics.experiments.moments import add
    >>> moments = [0] * CREDIT_WIDTH
    >>> for user in range(400):
    ...     moments = add(moments, credit_moments(2, 1 if user % 4 else -1))
    >>> found = preference(moments, alpha=0.05)
    >>> found.mean, found.preferred, 0 < found.lower < 0.25 < found.upper
    (0.25, True, True)
    """
    if len(moments) != CREDIT_WIDTH:
        raise ExperimentError("moments", f"got {len(moments)} numbers; must be {CREDIT_WIDTH}")
    users, lists, dd, y, yy, yd = moments
    if lists <= 0:
        return None
    mean = y / lists
    squares = yy * lists * lists - 2 * y * yd * lists + y * y * dd
    found = Estimate(mean, users * squares / ((users - 1) * lists**4) if users > 1 else math.inf, users)
    effective = lists * lists / dd
    if users < min_users or effective < effective_users_min or not 0 < found.variance < math.inf:
        return Preference(users, lists, effective, mean, found.variance, None, None, False, False)
    error, mixture = math.sqrt(found.variance), Mixture(tau)
    half, alarm = (error * boundary(found.variance, mixture, alpha) for boundary in (two_sided, one_sided))
    return Preference(users, lists, effective, mean, found.variance, mean - half, mean + half, mean > alarm, -mean > alarm)
