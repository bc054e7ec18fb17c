"""Signs that the sets of two arms are not alike, although no statistic of the measures shows them. Stored integers in. Pure.

**Items per list.** item_hit_rate is per item shown. An arm that shows fewer items keeps its best ranks, so the rate rises without a better
ranker. Items per list are compared by a ratio of sums. The variance of a user's items per list is at most m (k - m) for a mean of m and at
most k items (Bhatia, Davis 2000), so that of an arm's mean is at most m (k - m) / n, with n effective users. No further sums are needed.

**Lists per user.** A crawler that makes a new id for each request, in one arm only, adds users with one list each. So does a client that
loses its id. The mean has the usual variance of a mean over users.

**Late reactions.** Reactions that come later than `join.attribution_ms` do not count. If one arm delays them, its measures fall, and more
of those that still count come in the last tenth of the window. The shares of both arms are compared by a two-proportion test. Its variance
is multiplied by two design effects (Kish 1965), as if all reactions to a list, and all of a user, came at the same time: the sum of
squares over the sum, of reactions by list and of lists by user. Each arm must have `LATE_REACTIONS_MIN` effective late reactions, as in the
rule for contingency tables (Cochran 1954).

Users of one day are compared with users of the same day, and the days are weighted by K_t K_c / (K_t + K_c): a user who came later has
fewer lists so far, whatever the arm. In a day with a step of a rollout the users of the treatment came later. Lists are a concave function
of the time since a user came, so means are alike if their ratio is between 1 and that of these times. A sign is reported if the
difference exceeds a named minimum and `STANDARD_ERRORS_MIN` standard errors. All are for one look, and warn; none is proof.

**Shares by a segment's value**, such as a country. If half of the new users of one country are in the treatment and 5 % of all others, the
arms have different countries, and no cell of hours mends that. For a value v of a segment, with n_h new users of both arms in hour h, t_h
of them in the treatment, and n_hv and t_hv those with the value,

    Z = sum over h of (t_hv - n_hv t_h / n_h) / sqrt(sum over h of n_hv (n_h - n_hv) t_h (n_h - t_h) / (n_h**2 (n_h - 1)))

Given the arms of an hour, the users with the value are a draw without replacement (Mantel, Haenszel 1959), so a ramp or a daily cycle of
the shares is no difference. The hour is that of a user's first list, and the value is that list's: both are before any effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from streammetrics.experiments.hours import OTHER_VALUES, Entry
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import NO_REACTIONS, Reactions, StoredSums
from streammetrics.metrics.records import METRICS
from streammetrics.statistics.estimates import effective_users
from streammetrics.statistics.measures import LISTS_AT, USERS_AT, Measure, Measures
from streammetrics.words.names import name_order
from streammetrics.words.numbers import counted, percent
from streammetrics.words.sentences import DataWarning, Words, advice, measure_name, named, say

ITEMS_PER_LIST_APART_MIN: Final = 0.02
"""The smallest difference of items per list that is reported."""
LISTS_PER_USER_APART_MIN: Final = 0.05
"""The smallest difference of lists per user that is reported."""
IN_BOTH_ARMS_MIN: Final = 0.01
"""The share of two arms' users with lists of both from which on a warning says so, and their lists per user are not compared."""
LATE_SHARES_APART_MIN: Final = 0.02
"""The smallest difference of shares of late reactions that is reported: two points."""
DAY_USERS_MIN: Final = 10
"""Users of a day that both arms need for it to count."""
LATE_REACTIONS_MIN: Final = 5.0
"""The effective late reactions that each arm needs, if the share of both together holds in each."""
STANDARD_ERRORS_MIN: Final = 3.3
"""Standard errors that a difference needs. By chance, one look in a thousand shows more."""
WINDOW_SEGMENT_Z_MIN: Final = 4.5
"""Standard errors. At most 0.5 % of experiments with 24 values have a false alarm at any of 200 looks."""
VALUE_SHARES_APART_MIN: Final = 0.02
"""The least difference of two shares that counts: two points."""
OTHER_SEGMENT_Z_MIN: Final = 5.0
"""Standard errors for a segment that is not among those of windows. There may be many, with up to 33 values each."""
VALUE_VARIANCE_MIN: Final = 5.0
"""The least variance of the count of a value, in users. Below it the normal approximation does not hold."""


class ArmLists(NamedTuple):
    """What is known of the lists of an arm. days: moments by the day on which users came; moments: those of all users.

    ages: for how many hours its users have been there on average, by the same day; empty if that is not known.
    """

    name: str
    days: Mapping[Entry, Sequence[int]]
    moments: Sequence[int]
    reactions: Reactions = NO_REACTIONS
    ages: Mapping[Entry, float] = {}


class LikeLists(NamedTuple):
    """A treatment and the control.

    by_user: whether a user's lists are all in one arm. Else an arm's lists per user follow from its share: requests are assigned, or
    a step of a rollout moved users. from_hour: since when neither was silent; users who came before had less time for lists of that arm.
    """

    treatment: ArmLists
    control: ArmLists
    by_user: bool = True
    from_hour: int = 0


class ListSigns(NamedTuple):
    """The signs of a treatment. fewer_items: why a metric per item may not be called improved; None if it may."""

    warnings: tuple[DataWarning, ...] = ()
    fewer_items: str | None = None


def list_signs(measures: Measures, lists: LikeLists) -> ListSigns:
    """Return the signs of a treatment against the control."""
    warnings, fewer, (treatment, control, by_user, _) = list[DataWarning](), None, lists
    per_item = (measure for measure in measures if METRICS[measure.name].is_per_item)
    by_items = max(per_item, key=lambda measure: measure.k or math.inf, default=None)
    by_lists = next((measure for measure in measures if measure.kind == "mean"), None)
    if by_items is not None and by_lists is not None:
        items = _of_days(lists, lambda moments: _items_per_list(measures, by_items, by_lists, moments))
        if items and _differ(items, ITEMS_PER_LIST_APART_MIN):
            more = "rises" if items[0].mean < items[1].mean else "falls"
            told = _compared(lists, "shows {own:.3g} items per list", items)
            bent = "{told}: {by_items} is per item shown and {more} by that alone"
            said = say(bent, told=told, by_items=measure_name(str(by_items)), more=more)
            warnings.append(DataWarning("items per list", said, variant=treatment.name))
            fewer = told if more == "rises" else None
    if by_lists is not None and by_user:
        visits = _of_days(lists, lambda moments: _lists_per_user(measures, by_lists, moments), lists.from_hour)
        if visits and _differ(visits, LISTS_PER_USER_APART_MIN, _ratio_of_ages(lists)):
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


def _weights_of_days(lists: LikeLists, from_hour: int = 0) -> dict[Entry, float]:
    """Return the weights of the days on which both arms had new users. Days that begin before `from_hour` do not count."""
    arms = lists.treatment.days, lists.control.days
    common = [day for day in arms[0] if day in arms[1] and day.first_hour >= from_hour]
    users = {day: tuple(arm[day][USERS_AT] for arm in arms) for day in common}
    return {day: one * other / (one + other) for day, (one, other) in users.items() if min(one, other) >= DAY_USERS_MIN}


def _of_days(lists: LikeLists, mean_of: Callable[[Sequence[int]], _Mean], from_hour: int = 0) -> list[_Mean]:
    """Return the means of the treatment and the control over these days; empty without such days."""
    weights = _weights_of_days(lists, from_hour)
    total = math.fsum(weights.values())
    means = [{day: mean_of(arm[day]) for day in weights} for arm in (lists.treatment.days, lists.control.days)]
    return [
        _Mean(
            math.fsum(weights[day] * mean.mean for day, mean in of_arm.items()) / total,
            math.fsum(weights[day] ** 2 * mean.variance for day, mean in of_arm.items()) / total**2,
        )
        for of_arm in means
        if total
    ]


def _ratio_of_ages(lists: LikeLists) -> float:
    """Return for how long the users of the treatment have been there, over that of the control; 1 if that is not known."""
    weights = _weights_of_days(lists, lists.from_hour)
    ages = [math.fsum(weights[day] * arm.ages.get(day, 0.0) for day in weights) for arm in (lists.treatment, lists.control)]
    return ages[0] / ages[1] if all(ages) else 1.0


def _differ(means: Sequence[_Mean], least: float, ratio: float = 1.0) -> bool:
    """Whether two means differ. ratio: means whose ratio is between this and 1 do not."""
    treated, against = means
    if against.mean <= 0:
        return False
    low, high = sorted((1.0, ratio))
    alike = min(max(treated.mean / against.mean, low), high)
    apart = abs(treated.mean - alike * against.mean)
    return apart > max(least * against.mean, STANDARD_ERRORS_MIN * math.sqrt(treated.variance + alike**2 * against.variance))


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
    least = max(LATE_SHARES_APART_MIN, STANDARD_ERRORS_MIN * error)
    if share * min(effective) < LATE_REACTIONS_MIN or shares[late] - shares[early] <= least:
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


class NewUsers(NamedTuple):
    """New users of an hour, or of an hour with one value: those of the treatment, and those of both arms."""

    treatment: int
    both: int


class ValueShares(NamedTuple):
    """The treatment's share of the new users with one value of a segment, and of all others."""

    segment: str
    value: str
    z: float
    share: float
    others: float


def z_of_value(hours: Sequence[tuple[NewUsers, NewUsers]]) -> float:
    """Return Z of one value. hours: the new users with the value and all new users, by hour; 0 while the variance is small.

    >>> alike, apart = [(NewUsers(50, 100), NewUsers(500, 1_000))] * 3, [(NewUsers(50, 100), NewUsers(95, 1_000))] * 3
    >>> z_of_value(alike), round(z_of_value(apart), 1)
    (0.0, 25.2)
    """
    excess = variance = 0.0
    for (treated, count), (all_treated, users) in hours:
        if users < 2:
            continue
        excess += treated - count * all_treated / users
        variance += count * (users - count) * all_treated * (users - all_treated) / (users * users * (users - 1))
    return excess / math.sqrt(variance) if variance >= VALUE_VARIANCE_MIN else 0.0


def uneven_value(
    hours: Sequence[NewUsers], values: Mapping[tuple[str, str], Mapping[int, NewUsers]], z_min: float = WINDOW_SEGMENT_Z_MIN
) -> ValueShares | None:
    """Return the value with the greatest |Z| whose share certainly differs from that of all others; None if there is none.

    hours: new users by hour. values: those with a value of a segment, by (segment, value) and the index of the hour.

    >>> hours = [NewUsers(295, 1_000)] * 3
    >>> uneven_value(hours, {("country", "US"): dict.fromkeys(range(3), NewUsers(250, 500))})  # doctest: +ELLIPSIS
    ValueShares(segment='country', value='US', z=24.6..., share=0.5, others=0.09)
    """
    shares = list[ValueShares]()
    whole = NewUsers(sum(hour.treatment for hour in hours), sum(hour.both for hour in hours))
    for (segment, value), counts in values.items():
        of_value = NewUsers(sum(hour.treatment for hour in counts.values()), sum(hour.both for hour in counts.values()))
        if not 0 < of_value.both < whole.both:
            continue
        share, others = of_value.treatment / of_value.both, (whole.treatment - of_value.treatment) / (whole.both - of_value.both)
        z = z_of_value([(users, hours[at]) for at, users in counts.items()])
        if abs(z) > z_min and abs(share - others) >= VALUE_SHARES_APART_MIN:
            shares.append(ValueShares(segment, value, z, share, others))
    return min(shares, key=lambda share: (-abs(share.z), name_order(share.segment), name_order(share.value)), default=None)


def uneven_words(uneven: ValueShares, treatment: str, how: str) -> Words:
    """Say which value has another share, and what helps.

    >>> uneven_words(ValueShares("country", "US", 25.2, 0.5, 0.05), "ranker", " Assign all alike")
    'ranker has 50 % of the new users with country=US and 5 % of all others. Assign all alike'
    """
    return say(
        "{treatment} has {share} of the new users with {segment}={value} and {others} of all others.{how}",
        treatment=named(treatment),
        share=percent(uneven.share),
        segment=named(uneven.segment),
        value=named(uneven.value),
        others=percent(uneven.others),
        how=advice(how),
    )


def uneven_shares(policy: Policy, stored: StoredSums, treatment: str, control: str, *, of_windows: bool = True) -> Words | None:
    """Say which value of a segment has another share of the treatment; None if none has.

    With strata, users of a stratum are compared with each other. of_windows: whether the segments of windows are looked at, or all others,
    which the ranker may decide about.
    """
    users, values = list[NewUsers](), dict[tuple[str, str], dict[int, NewUsers]]()
    for row in stored.run_hours.rows.values():
        strata = {key[2]: _of_arms(of_variants, treatment, control) for key, of_variants in row.values.items() if not key[0]}
        whole = _of_arms(row.new_users, treatment, control)
        others = (sum(counts) for counts in zip(NewUsers(0, 0), *strata.values(), strict=True))
        strata[""] = NewUsers(*(all_users - count for all_users, count in zip(whole, others, strict=True)))
        numbers = {stratum: len(users) + at for at, stratum in enumerate(strata)}
        users += strata.values()
        for (segment, value, stratum), of_variants in row.values.items():
            if segment and (segment in stored.segments) is of_windows:
                values.setdefault((segment, value), {})[numbers[stratum]] = _of_arms(of_variants, treatment, control)
    uneven = uneven_value(users, values, WINDOW_SEGMENT_Z_MIN if of_windows else OTHER_SEGMENT_Z_MIN)
    if uneven is None:
        return None
    how = f" Assign all alike, or name an experiment for each {uneven.segment}"
    if policy.strata is None:
        how = f" Assign all alike. If it is meant, set {policy.settings_text(stored.experiment, {'strata': uneven.segment})}"
    apart = "" if of_windows else f". If the ranker decides about {uneven.segment}, it is an effect"
    return uneven_words(uneven, treatment, how + apart)


def _of_arms(users: Mapping[str, int], treatment: str, control: str) -> NewUsers:
    treated = users.get(treatment, 0)
    return NewUsers(treated, treated + users.get(control, 0))


def strata_warning(policy: Policy, stored: StoredSums) -> DataWarning | None:
    """Say how many users came while `strata` was set otherwise; None if none did. They are compared as it was set then."""
    users: dict[bool, int] = {True: 0, False: 0}
    for (_, entry), sums in stored.entry_moments.sums.items():
        segment = entry.stratum.partition("=")[0]
        users[entry.stratum == OTHER_VALUES or segment == (policy.strata or "")] += sums[USERS_AT]
    if not users[False]:
        return None
    said = say(
        "{users} of {all:,} came while strata was set otherwise, and are compared as it was then",
        users=counted(users[False], "user"),
        all=sum(users.values()),
    )
    return DataWarning("strata", said, "give the experiment another name, or replay the log")
