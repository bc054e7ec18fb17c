"""Shares of the arms that differ by a segment's value, such as a country. Counts of new users in, the value that stands out in words. Pure.

If half of the new users of one country are in the treatment and 5 % of all others, the arms have different countries, and no cell of hours
mends that. For a value v of a segment, with n_h new users of both arms in hour h, t_h of them in the treatment, and n_hv and t_hv those
with the value,

    Z = sum over h of (t_hv - n_hv t_h / n_h) / sqrt(sum over h of n_hv (n_h - n_hv) t_h (n_h - t_h) / (n_h**2 (n_h - 1)))

Given the arms of an hour, the users with the value are a draw without replacement (Mantel, Haenszel 1959), so a ramp or a daily cycle of
the shares is no difference. The hour is that of a user's first list, and the value is that list's: both are before any effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from streammetrics.experiments.hours import OTHER_VALUES
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import Stored
from streammetrics.statistics.measures import USERS_AT
from streammetrics.words.names import name_order
from streammetrics.words.numbers import counted, percent
from streammetrics.words.sentences import DataWarning, Words, advice, named, say

Z_MIN: Final = 4.5
"""Standard errors. At most 0.5 % of experiments with 24 values have a false alarm at any of 200 looks."""
DIFFERENCE_MIN: Final = 0.02
"""The least difference of two shares that counts: two points."""
WARNED_Z_MIN: Final = 5.0
"""Standard errors for a segment that is not among those of windows. There may be many, with up to 33 values each."""
VARIANCE_MIN: Final = 5.0
"""The least variance of the count of a value, in users. Below it the normal approximation does not hold."""


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
    return excess / math.sqrt(variance) if variance >= VARIANCE_MIN else 0.0


def uneven_value(
    hours: Sequence[NewUsers], values: Mapping[tuple[str, str], Mapping[int, NewUsers]], z_min: float = Z_MIN
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
        if abs(z) > z_min and abs(share - others) >= DIFFERENCE_MIN:
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


def uneven_shares(policy: Policy, stored: Stored, treatment: str, control: str, *, of_windows: bool = True) -> Words | None:
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
    uneven = uneven_value(users, values, Z_MIN if of_windows else WARNED_Z_MIN)
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


def strata_warning(policy: Policy, stored: Stored) -> DataWarning | None:
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
