"""Interleaving: two rankers share one list, and users' actions show which one they prefer. Credits in, an interval on the mean out.

In a team-draft list each item comes from one team (Radlinski, Kurup, Joachims 2008, "How does clickthrough data reflect retrieval
quality?"). The team with more relevant items wins the list. Each list compares both rankers for the same user at the same moment, so
interleaving needs fewer users than two arms. It answers which ranker users prefer, not how much a metric changes. The credit of
a list is +1, 0 or -1, for each kind of action apart: clicks or better, purchases or better (see `credit_thresholds`).

**Draft bias.** The team that drafts first has the best place, and one item more in a list of odd length. If a coin decides who drafts
first, this is noise; if one team drafts first more often, it is a bias. So the mean is post-stratified (Holt, Smith 1979, "Post
stratification"): with m1 the mean credit of lists in which one team drafted first, and m2 that of the others,

    m = (m1 + m2) / 2

If users prefer neither team, the two are opposite and m is 0, however often each of them drafts first. With a fair coin it has less
variance than the plain mean. Its variance is clustered by user, by the delta method: with r = ((y1 - m1 d1)/D1 + (y2 - m2 d2)/D2) / 2 for
a user with credit y and lists d of each kind, V = K/(K - 1) * sum of r**2. If one team always drafts first, the bias cannot be removed.

**All against none.** If all users have the same credit, V is 0. Without a preference each user is a coin, so the evidence that K users
prefer one team is the mean likelihood of K heads over 2**-K: E = Gamma(K + 1/2) / (sqrt(pi) Gamma(K + 1)) 2**K (Krichevsky, Trofimov 1981).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from streammetrics.errors import ExperimentError
from streammetrics.statistics.estimates import EFFECTIVE_USERS_MIN
from streammetrics.statistics.sequence import Mixture, one_sided, two_sided

_LISTS_WIDTH: Final = 6
"""Moments of lists: users, lists of both kinds, and their three products."""
_LEVEL_WIDTH: Final = 9
"""Moments of one level: credit of both kinds, their three products, and their four products with lists."""
LEVELS_MAX: Final = 8
"""Most levels of credit: the deciding one and those of the greatest grades."""
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


def credit_thresholds(grades: Sequence[float], relevant: float) -> tuple[float, ...]:
    """Return the least grade that counts, by level: first that of the deciding credit, then those of the other actions, ascending.

    grades: all grades of actions. relevant: the deciding grade. A grade that counts the same items as the deciding one is left out.

    >>> credit_thresholds((0, 1, 2, 3), 1), credit_thresholds((0, 1, 3), 2)
    ((1, 2, 3), (2, 1))
    """
    same = min((grade for grade in grades if grade >= relevant), default=relevant)
    others = sorted(grade for grade in set(grades) if grade > 0 and grade != same)
    return (relevant, *others[-(LEVELS_MAX - 1) :])


def drafted_first(teams: Sequence[str | None], one: str, other: str) -> int:
    """Return 0 if the first item of the two teams is of `one`, 1 if it is of `other`. Both have an item in the list."""
    return 0 if teams.index(one) < teams.index(other) else 1


def credit_width(levels: int) -> int:
    """Return the number of moments of a pair of teams."""
    return _LISTS_WIDTH + _LEVEL_WIDTH * levels


def credit_levels(moments: Sequence[int]) -> int:
    """Return the number of levels in moments. Raises ExperimentError for a width that no number of levels has."""
    levels, rest = divmod(len(moments) - _LISTS_WIDTH, _LEVEL_WIDTH)
    if levels < 1 or rest:
        raise ExperimentError("moments", f"got {len(moments)} numbers; must be {_LISTS_WIDTH} + {_LEVEL_WIDTH} per level of credit")
    return levels


def credit_moments(sums: Sequence[int]) -> list[int]:
    """Return the credit moments of one user; all 0 without lists.

    sums: lists in which the first team drafted first, lists in which the second did, then for each level the credit of the second team
        in both kinds of lists. Add the new and subtract the old, as with the moments of measures. Raises ExperimentError if the credit
        exceeds the lists.

    >>> credit_moments([2, 1, -1, 1])
    [1, 2, 1, 4, 2, 1, -1, 1, 1, -1, 1, -2, -1, 2, 1]
    """
    first, second, *credits = sums
    lists = (first, second)
    if min(lists) < 0 or any(abs(credit) > lists[at % 2] for at, credit in enumerate(credits)):
        raise ExperimentError("credit", f"got {credits} for {first} and {second} lists; must be sums of -1, 0 or 1 per list")
    if not any(lists):
        return [0] * credit_width(len(credits) // 2)
    moments = [1, first, second, first * first, first * second, second * second]
    for one, other in zip(credits[::2], credits[1::2], strict=True):
        moments += (one, other, one * one, one * other, other * other, one * first, one * second, other * first, other * second)
    return moments


def add_credits(total: dict[tuple[str, str], list[int]], credits: Mapping[tuple[str, str], Sequence[int]], times: int) -> None:
    """Add a user's moments of each pair of teams `times` times; -1 removes them.

    >>> total: dict[tuple[str, str], list[int]] = {}
    >>> add_credits(total, {("a", "b"): (2, 1, -1, 1)}, 1)
    >>> total[("a", "b")][:6]
    [1, 2, 1, 4, 2, 1]
    """
    for pair, sums in credits.items():
        of_lists = credit_moments(sums)
        sums_of_pair = total.get(pair) or [0] * len(of_lists)
        total[pair] = [before + times * change for before, change in zip(sums_of_pair, of_lists, strict=True)]


def reversed_credit(moments: Sequence[int]) -> list[int]:
    """Return the moments of the mean credit for the other team of the pair.

    >>> reversed_credit(credit_moments([2, 1, -1, 1])) == credit_moments([1, 2, -1, 1])
    True
    """
    users, first, second, ff, fs, ss = moments[:_LISTS_WIDTH]
    turned = [users, second, first, ss, fs, ff]
    for at in range(credit_levels(moments)):
        y1, y2, y11, y12, y22, y1f, y1s, y2f, y2s = _level(moments, at)
        turned += (-y2, -y1, y22, y12, y11, -y2s, -y2f, -y1s, -y1f)
    return turned


def _level(moments: Sequence[int], level: int) -> Sequence[int]:
    start = _LISTS_WIDTH + _LEVEL_WIDTH * level
    return moments[start : start + _LEVEL_WIDTH]


@dataclass(frozen=True, slots=True)
class Preference:
    """The mean credit of a team against the control: from -1 to 1, above 0 if it is preferred. Bounds are None with too few users.

    mean: corrected for who drafts first; the plain mean if one team always does. plain: lists won less lists lost, as a share of lists.
    first_share: the share of lists in which the team drafted first.
    effective_users: Kish's effective sample size by lists. effective_orders: the least of both kinds of lists.
    preferred, disliked: one-sided decisions with error alpha over all looks together.
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
    plain: float = 0.0
    first_share: float = 0.5
    effective_orders: float = math.inf


def preference(
    moments: Sequence[int],
    alpha: float,
    min_users: int = 100,
    effective_users_min: float = EFFECTIVE_USERS_MIN,
    level: int = 0,
    teams: int = 1,
) -> Preference | None:
    """Return the interval on the mean credit from summed `credit_moments`, valid at all looks together; None without lists.

    moments: of the team against the control, which is the first of the pair. There is no interval without `effective_users_min`
    effective users in each kind of lists. teams: teams that are compared with the control; decisions share alpha among them (Bonferroni).

    >>> from streammetrics.statistics.moments import add
    >>> moments = [0] * credit_width(1)
    >>> for user in range(400):
    ...     moments = add(moments, credit_moments([1, 1, *((1, 1) if user % 4 else (-1, -1))]))
    >>> estimate = preference(moments, alpha=0.05)
    >>> estimate.mean, estimate.preferred, 0 < estimate.lower < 0.5 < estimate.upper
    (0.5, True, True)
    """
    credit_levels(moments)
    users, first, second, ff, fs, ss = moments[:_LISTS_WIDTH]
    lists = first + second
    if lists <= 0:
        return None
    y1, y2, *products = _level(moments, level)
    plain, effective = (y1 + y2) / lists, lists * lists / (ff + 2 * fs + ss)
    if not first or not second:
        return Preference(users, lists, effective, plain, math.inf, None, None, False, False, plain, second / lists, 0.0)
    m1, m2 = Fraction(y1, first), Fraction(y2, second)
    mean = float((m1 + m2) / 2)
    variance = _variance(users, (first, second), (m1, m2), products, (ff, fs, ss))
    orders = min(first * first / ff, second * second / ss)
    measured = Preference(users, lists, effective, mean, variance, None, None, False, False, plain, second / lists, orders)
    if users < min_users or min(effective, orders) < effective_users_min or variance == math.inf:
        return measured
    if variance == 0:
        is_certain = _log_evidence_of_all(users) >= math.log(teams / alpha)
        return replace(measured, preferred=is_certain and mean > 0, disliked=is_certain and mean < 0)
    error, mixture = math.sqrt(variance), Mixture(MINIMUM_CREDIT)
    half, alarm = error * two_sided(variance, mixture, alpha), error * one_sided(variance, mixture, alpha / teams)
    return replace(measured, lower=mean - half, upper=mean + half, preferred=mean > alarm, disliked=-mean > alarm)


def _log_evidence_of_all(users: int) -> float:
    """Return ln E that users have a preference, if all of them prefer the same team.

    >>> [round(_log_evidence_of_all(users), 1) for users in (2, 5, 100)]
    [0.4, 2.1, 66.4]
    """
    return math.lgamma(users + 0.5) - math.lgamma(users + 1) - math.log(math.pi) / 2 + users * math.log(2)


def _variance(
    users: int, lists: tuple[int, int], means: tuple[Fraction, Fraction], products: Sequence[int], squares: tuple[int, int, int]
) -> float:
    """Return the clustered variance of (m1 + m2) / 2; infinite for a single user."""
    if users < 2:
        return math.inf
    (first, second), (m1, m2), (ff, fs, ss) = lists, means, squares
    y11, y12, y22, y1f, y1s, y2f, y2s = products
    one = Fraction(y11 - 2 * m1 * y1f + m1 * m1 * ff) / (first * first)
    other = Fraction(y22 - 2 * m2 * y2s + m2 * m2 * ss) / (second * second)
    both = Fraction(y12 - m2 * y1s - m1 * y2f + m1 * m2 * fs) / (first * second)
    return float(Fraction(users, 4 * (users - 1)) * (one + other + 2 * both))
