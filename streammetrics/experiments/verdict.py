"""Estimates and health -> one word that an alert may act on, with its reason in plain words. Pure.

With the tolerated drop `margin`:

    regressed     certain that the variant is worse than control by more than the margin
    safe          certain that it is not worse by more than the margin
    improved      certain that it is better than control (and so safe)
    inconclusive  none of these yet
    invalid       the experiment itself is broken: nothing may be read from it

Certain means one-sided, with the error of the policy over all looks together. An alarm that goes quiet again was not undone:
a verdict says what the numbers of now support.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from streammetrics.experiments.estimates import Estimate, Interval, certainly_above, certainly_below
from streammetrics.experiments.interleaving import Preference
from streammetrics.experiments.measures import Measure
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.sample_ratio import sample_ratio_p_value

Word: TypeAlias = Literal["regressed", "safe", "improved", "inconclusive", "invalid"]

VERDICT_CODES: Final[Mapping[Word, int]] = {"invalid": -2, "regressed": -1, "inconclusive": 0, "safe": 1, "improved": 2}
"""The verdict as a gauge: alert on == -1, and separately on == -2."""

_THINGS: Final = {
    "hit_rate": ("fewer", "more", "lists with a hit in the first {k}"),
    "user_hit_rate": ("fewer", "more", "users with a hit in the first {k}"),
    "item_hit_rate": ("fewer", "more", "hits among the items shown in the first {k}"),
    "precision": ("fewer", "more", "hits in the first {k}"),
}
_ALIKE: Final = "all users are alike, so nothing tells how certain that is"
"""Instead of an interval, where no variance can be seen."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word and why."""

    word: Word
    reason: str

    @property
    def code(self) -> int:
        return VERDICT_CODES[self.word]


class Joined(NamedTuple):
    """How much feedback counts for a list, and how much for none."""

    matched: int
    unmatched: int

    @property
    def unmatched_share(self) -> float | None:
        """None without feedback."""
        return self.unmatched / sum(self) if any(self) else None


NO_FEEDBACK: Final = Joined(0, 0)


@dataclass(frozen=True, slots=True)
class Health:
    """Whether an experiment can be read at all. `troubles` are sentences; any makes every verdict invalid."""

    sample_ratio_p: float
    multi_exposed_share: float
    unmatched_share: float | None
    troubles: tuple[str, ...]


def health(policy: Policy, first_exposures: Mapping[str, int], multi_exposed_users: int, joined: Joined = NO_FEEDBACK) -> Health:
    """Check the split, users in several variants, and the join.

    first_exposures: users by the variant that they saw first, those in several variants too. joined: how all feedback of the time
    fared. Where shares are configured, the split is that of the variants that have one; a stray label of a few users is no trouble,
    that of more than `multi_exposed_share_max` of all is. This share, and that of users in several variants, is judged from
    `min_users` users on, that of feedback from as much feedback on: a share of a handful says nothing.

    >>> health(Policy(), {"control": 4500, "treatment": 5500}, 3).troubles
    ('users are not split as they should be (control 4,500, treatment 5,500; practically never by chance)',)
    """
    troubles = []
    users, shares = sum(first_exposures.values()), policy.shares
    strays = {name: count for name, count in first_exposures.items() if count and shares is not None and name not in shares}
    p = sample_ratio_p_value({name: count for name, count in first_exposures.items() if name not in strays}, shares)
    if p < policy.sample_ratio_alpha:
        variants = sorted({*first_exposures, *(shares or ())} - strays.keys())
        counts = ", ".join(f"{variant} {first_exposures.get(variant, 0):,}" for variant in variants)
        troubles.append(f"users are not split as they should be ({counts}; {_chance(p)})")
    if users >= policy.min_users and sum(strays.values()) > policy.multi_exposed_share_max * users:
        astray = percent(sum(strays.values()) / users)
        troubles.append(f"{astray} of the users saw a variant without a configured share ({', '.join(sorted(strays))})")
    share = multi_exposed_users / users if users else 0.0
    if share > policy.multi_exposed_share_max and users >= policy.min_users:
        troubles.append(
            f"{percent(share)} of the users saw more than one variant; up to {percent(policy.multi_exposed_share_max)} is tolerated"
        )
    unmatched = joined.unmatched_share
    if unmatched is not None and unmatched > policy.unmatched_share_max and sum(joined) >= policy.min_users:
        troubles.append(
            f"{percent(unmatched)} of all feedback counts for no list; up to {percent(policy.unmatched_share_max)} is tolerated"
        )
    return Health(p, share, unmatched, tuple(troubles))


def judge(
    policy: Policy,
    measure: Measure,
    treatment: Estimate,
    control: Estimate,
    tau: float,
    interval: Interval | None,
    against: str = "control",
) -> Verdict:
    """The verdict on one measure of one healthy comparison with users enough; `interval` is the lift's, for the words only.

    >>> from streammetrics.experiments.measures import Measure
    >>> hits = Measure("hit_rate", 10, "mean", 2, 1, 40)
    >>> judge(Policy(), hits, Estimate(0.352, 1e-5, 9000), Estimate(0.4, 1e-5, 9000), 0.04, None).reason
    '12 % fewer lists with a hit in the first 10 than control; certain at 95 % however often you look'
    """
    alpha = policy.alarm_alpha(measure)
    lift = treatment.mean / control.mean - 1 if control.mean > 0 else None
    said = _compared(measure, lift, against)
    certain = f"certain at {percent(1 - alpha)} however often you look"
    if certainly_below(treatment, control, -policy.margin, tau, alpha):
        return Verdict("regressed", f"{said}; {certain}")
    if certainly_above(treatment, control, 0.0, tau, alpha):
        return Verdict("improved", f"{said}; {certain}")
    if certainly_above(treatment, control, -policy.margin, tau, alpha):
        return Verdict("safe", f"{said}; not worse by more than {percent(policy.margin)}, {certain}")
    alike = treatment.variance == control.variance == 0
    return Verdict("inconclusive", f"{said} so far; {_ALIKE if alike else _range(measure, interval)}")


def judge_preference(policy: Policy, found: Preference, team: str, against: str) -> Verdict:
    """The verdict on a team of a healthy interleaved experiment: improved where people certainly prefer it, regressed where the other.

    >>> found = Preference(900, 4_000, 0.12, 1e-4, 0.08, 0.16, True, False)
    >>> judge_preference(Policy(), found, "new", "old").reason
    'new won 12 lists in 100 more than it lost against old; certain to be preferred at 95 % however often you look'
    """
    if found.users < policy.min_users:
        return waiting(policy, {f"{team} against {against}": found.users})
    won = f"{100 * abs(found.mean):.3g} lists in 100 {'less' if found.mean < 0 else 'more'} than it lost against {against}"
    certain = f"at {percent(1 - policy.alpha)} however often you look"
    if found.preferred:
        return Verdict("improved", f"{team} won {won}; certain to be preferred {certain}")
    if found.disliked:
        return Verdict("regressed", f"{team} won {won}; {against} is certain to be preferred {certain}")
    return Verdict("inconclusive", f"{team} won {won} so far; {'either may be preferred' if found.variance else _ALIKE}")


def invalid(state: Health) -> Verdict:
    """The verdict on everything in an experiment that is broken."""
    return Verdict("invalid", "; ".join(state.troubles))


def waiting(policy: Policy, users: Mapping[str, int]) -> Verdict:
    """The verdict before there are users enough in every arm."""
    short = ", ".join(f"{variant} has {count:,}" for variant, count in users.items() if count < policy.min_users)
    return Verdict("inconclusive", f"nothing is shown before {policy.min_users:,} users an arm: {short}")


def percent(share: float) -> str:
    """A share for people: two digits, or three from 10 % on, and never a rounded 100 %.

    >>> percent(0.12), percent(0.0312), percent(0.9875), percent(0.00004)
    ('12 %', '3.1 %', '98.75 %', '0.004 %')
    >>> percent(0.9999999), percent(1.0), percent(1.345678), percent(123.45678)
    ('99.9999 %', '100 %', '135 %', '12,300 %')
    """
    value = 100 * share
    if 95 <= value < 100:
        return f"{math.floor(value * 10_000 + 1e-6) / 10_000:.6g} %"
    return f"{float(f'{value:.3g}' if value >= 10 else f'{value:.2g}'):,.10g} %"


def _compared(measure: Measure, lift: float | None, against: str) -> str:
    less, more, thing = _THINGS.get(measure.name, ("lower", "higher", f"{measure.name}@{{k}}"))
    thing = thing.format(k=measure.k)
    if lift is None:
        return f"{against} has no {thing}"
    return f"{percent(abs(lift))} {less if lift < 0 else more} {thing} than {against}"


def _range(measure: Measure, interval: Interval | None) -> str:
    if interval is None or interval.lower is None:
        return "the data do not bound the difference yet"
    less, more, _ = _THINGS.get(measure.name, ("lower", "higher", ""))
    ends = ["any number" if end is None else f"{percent(abs(end))} {less if end < 0 else more}" for end in (interval.lower, interval.upper)]
    return f"the truth may lie anywhere from {ends[0]} to {ends[1]}"


def _chance(p: float) -> str:
    if p <= 1e-12:
        return "practically never by chance"
    digits = len(str(int(1 / p))) - 1
    return f"by chance at most once in {int(1 / p) // 10**digits * 10**digits:,} tests"
