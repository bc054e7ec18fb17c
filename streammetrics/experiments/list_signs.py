"""Signs in the lists of two arms that bend measures, although no statistic of the measures shows them. Stored integers in. Pure.

**Items per list.** item_hit_rate is per item shown. An arm that shows fewer items keeps its best ranks, so the rate rises without a better
ranker. Items per list are compared by a ratio of sums. The variance of a user's items per list is at most m (k - m) for a mean of m and at
most k items (Bhatia, Davis 2000), so that of an arm's mean is at most m (k - m) / n, with n effective users. No further sums are needed.

**Lists per user.** A crawler that makes a new id for each request, in one arm only, adds users with one list each. So does a client that
loses its id. The mean has the usual variance of a mean over users.

**Late reactions.** Reactions that come later than `join.attribution_ms` do not count. If one arm delays them, its measures fall, and more
of those that still count come in the last tenth of the window. The shares of both arms are compared by a two-proportion test. Its variance
is multiplied by two design effects (Kish 1965), as if all reactions to a list, and all of a user, came at the same time: the sum of
squares over the sum, of reactions by list and of lists by user. Each arm must have `LATE_EXPECTED` effective late reactions, as in the
rule for contingency tables (Cochran 1954).

Users of one day are compared with users of the same day, and the days are weighted by K_t K_c / (K_t + K_c): a user who came later has
fewer lists so far, whatever the arm. A sign is reported if the difference exceeds a named minimum and `ERRORS` standard errors. All are for
one look, and warn; none is proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from streammetrics.statistics.estimates import effective_users
from streammetrics.statistics.measures import LISTS_AT, USERS_AT, Measure, Measures
from streammetrics.words.numbers import percent
from streammetrics.words.sentences import DataWarning, Words, measure_name, named, say

ITEMS_MIN: Final = 0.02
"""The smallest difference of items per list that is reported."""
LISTS_MIN: Final = 0.05
"""The smallest difference of lists per user that is reported."""
LATE_MIN: Final = 0.02
"""The smallest difference of shares of late reactions that is reported: two points."""
USERS_MIN: Final = 10
"""Users of a day that both arms need for it to count."""
LATE_EXPECTED: Final = 5.0
"""The effective late reactions that each arm needs, if the share of both together holds in each."""
ERRORS: Final = 3.3
"""Standard errors that a difference needs. By chance, one look in a thousand shows more."""


class Reactions(NamedTuple):
    """The reactions to the lists of an arm; the first of each action on each item of a list counts.

    squares: the sum over lists of the square of their number. late: those that came later than nine tenths of the attribution window.
    """

    total: int
    squares: int
    late: int


NO_REACTIONS: Final = Reactions(0, 0, 0)


class ArmLists(NamedTuple):
    """What is known of the lists of an arm. days: moments by the day on which users came; moments: those of all users."""

    name: str
    days: Mapping[object, Sequence[int]]
    moments: Sequence[int]
    reactions: Reactions = NO_REACTIONS


class LikeLists(NamedTuple):
    """A treatment and the control.

    by_user: whether a user's lists are all in one arm. If each list is assigned on its own, an arm's lists per user follow from its share.
    """

    treatment: ArmLists
    control: ArmLists
    by_user: bool = True


class ListSigns(NamedTuple):
    """The signs of a treatment. fewer_items: why its item_hit_rate may not be called improved; None if it may."""

    warnings: tuple[DataWarning, ...] = ()
    fewer_items: str | None = None


def list_signs(measures: Measures, lists: LikeLists) -> ListSigns:
    """Return the signs of a treatment against the control."""
    warnings, fewer, (treatment, control, by_user) = list[DataWarning](), None, lists
    by_items = max(
        (measure for measure in measures if measure.name == "item_hit_rate"), key=lambda measure: measure.k or math.inf, default=None
    )
    by_lists = next((measure for measure in measures if measure.kind == "mean"), None)
    if by_items is not None and by_lists is not None:
        items = _of_days(lists, lambda moments: _items_per_list(measures, by_items, by_lists, moments))
        if items and _differ(items, ITEMS_MIN):
            more = "rises" if items[0].mean < items[1].mean else "falls"
            told = _compared(lists, "shows {own:.3g} items per list", items)
            bent = "{told}: {by_items} is per item shown and {more} by that alone"
            said = say(bent, told=told, by_items=measure_name(str(by_items)), more=more)
            warnings.append(DataWarning("items per list", said, variant=treatment.name))
            fewer = told if more == "rises" else None
    if by_lists is not None and by_user:
        visits = _of_days(lists, lambda moments: _lists_per_user(measures, by_lists, moments))
        if visits and _differ(visits, LISTS_MIN):
            told = _compared(lists, "has {own:.3g} lists per user", visits)
            more = "fewer" if visits[0].mean < visits[1].mean else "more"
            apart = say("{share} {more}", share=percent(abs(visits[0].mean / visits[1].mean - 1)), more=more)
            cause = "users come back more or less often, or a crawler or client makes new ids in one arm, which bends every verdict"
            said = say("{told}, {apart}: {cause}", told=told, apart=apart, cause=cause)
            warnings.append(DataWarning("lists per user", said, variant=treatment.name))
        warnings += _late_reactions(measures, by_lists, treatment, control)
    return ListSigns(tuple(warnings), fewer)


def _compared(lists: LikeLists, has: str, means: Sequence[_Mean]) -> Words:
    """Say what the treatment has, and the control beside it. `has` is a verb with the field `own`."""
    arms = {"treatment": named(lists.treatment.name), "control": named(lists.control.name)}
    template = "{treatment} " + has + " and {control} {others:.3g}"
    return say(template, own=means[0].mean, others=means[1].mean, **arms)


class _Mean(NamedTuple):
    mean: float
    variance: float


def _of_days(lists: LikeLists, mean_of: Callable[[Sequence[int]], _Mean]) -> list[_Mean]:
    """Return the means of the treatment and the control over the days on which both had new users; empty without such days."""
    arms = lists.treatment.days, lists.control.days
    users = {day: tuple(arm[day][USERS_AT] for arm in arms) for day in arms[0] if day in arms[1]}
    weights = {day: one * other / (one + other) for day, (one, other) in users.items() if min(one, other) >= USERS_MIN}
    total = math.fsum(weights.values())
    means = [{day: mean_of(arm[day]) for day in weights} for arm in arms]
    return [
        _Mean(
            math.fsum(weights[day] * mean.mean for day, mean in of_arm.items()) / total,
            math.fsum(weights[day] ** 2 * mean.variance for day, mean in of_arm.items()) / total**2,
        )
        for of_arm in means
        if total
    ]


def _differ(means: Sequence[_Mean], least: float) -> bool:
    treated, against = means
    apart = abs(treated.mean - against.mean)
    return against.mean > 0 and apart > max(least * against.mean, ERRORS * math.sqrt(treated.variance + against.variance))


def _late_reactions(measures: Measures, by_lists: Measure, treatment: ArmLists, control: ArmLists) -> list[DataWarning]:
    """Return the warning about reactions that come later in one of two arms; empty without such a sign."""
    arms = treatment, control
    if not all(arm.reactions.total for arm in arms):
        return []
    share = sum(arm.reactions.late for arm in arms) / sum(arm.reactions.total for arm in arms)
    effective = [_effective_reactions(measures, by_lists, arm) for arm in arms]
    shares = {arm.name: arm.reactions.late / arm.reactions.total for arm in arms}
    early, late = sorted(shares, key=shares.__getitem__)
    error = math.sqrt(share * (1 - share) * sum(1 / reactions for reactions in effective))
    if share * min(effective) < LATE_EXPECTED or shares[late] - shares[early] <= max(LATE_MIN, ERRORS * error):
        return []
    told = say(
        "{late} has {lates} of its reactions in the last tenth of join.attribution_ms and {early} {earlies}",
        late=named(late),
        lates=percent(shares[late]),
        early=named(early),
        earlies=percent(shares[early]),
    )
    cause = "reactions come later there, so some may come too late to count"
    fix = "compare the senders of both arms, or raise join.attribution_ms"
    return [DataWarning("late reactions", say("{told}: {cause}", told=told, cause=cause), fix, treatment.name)]


def _effective_reactions(measures: Measures, by_lists: Measure, arm: ArmLists) -> float:
    """Return how many independent reactions have the same spread, if all of one user came at the same time."""
    lists_of_user = arm.moments[LISTS_AT] / effective_users(measures, by_lists, arm.moments)
    return arm.reactions.total**2 / arm.reactions.squares / lists_of_user


def _items_per_list(measures: Measures, by_items: Measure, by_lists: Measure, moments: Sequence[int]) -> _Mean:
    at = measures.places(by_lists)
    items, lists, effective = moments[measures.places(by_items).d], moments[at.d], moments[at.d] ** 2 / moments[at.dd]
    mean = items / lists
    room = by_items.k - mean if by_items.k else mean  # without a cut-off the most items of a list are not known: as if it were 2 m
    return _Mean(mean, mean * room / effective)


def _lists_per_user(measures: Measures, by_lists: Measure, moments: Sequence[int]) -> _Mean:
    users, lists, squares = moments[USERS_AT], moments[LISTS_AT], moments[measures.places(by_lists).dd]
    mean = lists / users
    return _Mean(mean, (squares / users - mean * mean) / (users - 1))
