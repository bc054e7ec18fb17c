"""Estimates and health -> a verdict: one word for alerts, with its reason in plain words. Pure.

With the tolerated drop `margin`:

    regressed     the variant is certainly worse than the control by more than the margin
    safe          it is certainly not worse by more than the margin
    improved      it is certainly better than the control (and so safe)
    inconclusive  none of these yet
    invalid       the experiment itself is broken: do not read its numbers

"Certainly" is one-sided, with the policy's error over all looks together. A verdict describes the current numbers, so it can change.
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
"""Values of the verdict gauge. Alert on == -1, and separately on == -2."""

_THINGS: Final = {
    "hit_rate": ("fewer", "more", "lists with a hit in the first {k}"),
    "user_hit_rate": ("fewer", "more", "users with a hit in the first {k}"),
    "item_hit_rate": ("fewer", "more", "hits among the items shown in the first {k}"),
    "precision": ("fewer", "more", "hits in the first {k}"),
}
_ALIKE: Final = "all users have the same value, so no confidence can be given"
"""The reason when the variance is 0."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word and its reason."""

    word: Word
    reason: str

    @property
    def code(self) -> int:
        return VERDICT_CODES[self.word]


class Joined(NamedTuple):
    """Counts of feedback that matches a list, and of feedback that matches none."""

    matched: int
    unmatched: int

    @property
    def unmatched_share(self) -> float | None:
        """Share of feedback that matches no list; None without feedback."""
        return self.unmatched / sum(self) if any(self) else None


NO_FEEDBACK: Final = Joined(0, 0)


@dataclass(frozen=True, slots=True)
class Health:
    """Whether an experiment is sound. `troubles` are sentences; any of them makes every verdict invalid."""

    sample_ratio_p: float
    multi_exposed_share: float
    unmatched_share: float | None
    troubles: tuple[str, ...]


def health(policy: Policy, first_exposures: Mapping[str, int], multi_exposed_users: int, joined: Joined = NO_FEEDBACK) -> Health:
    """Check the split, the users that saw several variants, and the join of feedback.

    first_exposures: users by the variant that they saw first, including users that saw several. joined: all feedback of the time.

    If shares are configured, the split covers only variants with a share. Users of other variants make the experiment invalid if
    they are more than `multi_exposed_share_max` of all. Shares of users are checked once there are `min_users` users, and the share
    of feedback once there are as many feedback events.

    >>> health(Policy(), {"control": 4500, "treatment": 5500}, 3).troubles
    ('users are not split as configured (control 4,500, treatment 5,500; practically impossible by chance)',)
    """
    troubles = []
    users, shares = sum(first_exposures.values()), policy.shares
    strays = {name: count for name, count in first_exposures.items() if count and shares is not None and name not in shares}
    p = sample_ratio_p_value({name: count for name, count in first_exposures.items() if name not in strays}, shares)
    if p < policy.sample_ratio_alpha:
        variants = sorted({*first_exposures, *(shares or ())} - strays.keys())
        counts = ", ".join(f"{variant} {first_exposures.get(variant, 0):,}" for variant in variants)
        troubles.append(f"users are not split as configured ({counts}; {_chance(p)})")
    if users >= policy.min_users and sum(strays.values()) > policy.multi_exposed_share_max * users:
        stray_share = percent(sum(strays.values()) / users)
        troubles.append(f"{stray_share} of the users saw a variant without a configured share ({', '.join(sorted(strays))})")
    share = multi_exposed_users / users if users else 0.0
    if share > policy.multi_exposed_share_max and users >= policy.min_users:
        troubles.append(f"{percent(share)} of the users saw more than one variant; the limit is {percent(policy.multi_exposed_share_max)}")
    unmatched = joined.unmatched_share
    if unmatched is not None and unmatched > policy.unmatched_share_max and sum(joined) >= policy.min_users:
        troubles.append(f"{percent(unmatched)} of all feedback matches no list; the limit is {percent(policy.unmatched_share_max)}")
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
    """Return the verdict on one measure of a sound comparison with enough users. `interval` is the lift's, for the reason only.

    >>> from streammetrics.experiments.measures import Measure
    >>> hits = Measure("hit_rate", 10, "mean", 2, 1, 40)
    >>> judge(Policy(), hits, Estimate(0.352, 1e-5, 9000), Estimate(0.4, 1e-5, 9000), 0.04, None).reason
    '12 % fewer lists with a hit in the first 10 than control; 95 % confidence, safe to check at any time'
    """
    alpha = policy.alarm_alpha(measure)
    lift = treatment.mean / control.mean - 1 if control.mean > 0 else None
    lift_words = _compared(measure, lift, against)
    confidence = _confidence(alpha)
    if certainly_below(treatment, control, -policy.margin, tau, alpha):
        return Verdict("regressed", f"{lift_words}; {confidence}")
    if certainly_above(treatment, control, 0.0, tau, alpha):
        return Verdict("improved", f"{lift_words}; {confidence}")
    if certainly_above(treatment, control, -policy.margin, tau, alpha):
        return Verdict("safe", f"{lift_words}; at most {percent(policy.margin)} worse; {confidence}")
    alike = treatment.variance == control.variance == 0
    return Verdict("inconclusive", f"{lift_words} so far; {_ALIKE if alike else _range(measure, interval)}")


def judge_preference(policy: Policy, found: Preference, team: str, against: str) -> Verdict:
    """Return the verdict on a team of a sound interleaved experiment: improved if users certainly prefer it, regressed if the other.

    >>> found = Preference(900, 4_000, 0.12, 1e-4, 0.08, 0.16, True, False)
    >>> judge_preference(Policy(), found, "new", "old").reason
    'new won 12 more lists in 100 than it lost against old; users prefer new; 95 % confidence, safe to check at any time'
    """
    if found.users < policy.min_users:
        return waiting(policy, {f"{team} against {against}": found.users})
    won = f"{100 * abs(found.mean):.3g} {'fewer' if found.mean < 0 else 'more'} lists in 100 than it lost against {against}"
    confidence = _confidence(policy.alpha)
    if found.preferred:
        return Verdict("improved", f"{team} won {won}; users prefer {team}; {confidence}")
    if found.disliked:
        return Verdict("regressed", f"{team} won {won}; users prefer {against}; {confidence}")
    return Verdict("inconclusive", f"{team} won {won} so far; {'users may prefer either' if found.variance else _ALIKE}")


def invalid(state: Health) -> Verdict:
    """Return the verdict on everything in a broken experiment."""
    return Verdict("invalid", "; ".join(state.troubles))


def waiting(policy: Policy, users: Mapping[str, int]) -> Verdict:
    """Return the verdict while some arm has too few users."""
    short = ", ".join(f"{variant} has {count:,}" for variant, count in users.items() if count < policy.min_users)
    return Verdict("inconclusive", f"each arm needs at least {policy.min_users:,} users: {short}")


def percent(share: float) -> str:
    """Format a share with two digits, or three from 10 % on. It is never rounded up to 100 %.

    >>> percent(0.12), percent(0.0312), percent(0.9875), percent(0.00004)
    ('12 %', '3.1 %', '98.75 %', '0.004 %')
    >>> percent(0.9999999), percent(1.0), percent(1.345678), percent(123.45678)
    ('99.9999 %', '100 %', '135 %', '12,300 %')
    """
    value = 100 * share
    if 95 <= value < 100:
        return f"{math.floor(value * 10_000 + 1e-6) / 10_000:.6g} %"
    return f"{float(f'{value:.3g}' if value >= 10 else f'{value:.2g}'):,.10g} %"


def _confidence(alpha: float) -> str:
    return f"{percent(1 - alpha)} confidence, safe to check at any time"


def _compared(measure: Measure, lift: float | None, against: str) -> str:
    less, more, thing = _THINGS.get(measure.name, ("lower", "higher", f"{measure.name}@{{k}}"))
    thing = thing.format(k=measure.k)
    if lift is None:
        return f"{against} has no {thing}"
    return f"{percent(abs(lift))} {less if lift < 0 else more} {thing} than {against}"


def _range(measure: Measure, interval: Interval | None) -> str:
    if interval is None or interval.lower is None:
        return "there is too little data for an interval"
    less, more, _ = _THINGS.get(measure.name, ("lower", "higher", ""))
    lower, upper = (end if end is None else f"{percent(abs(end))} {less if end < 0 else more}" for end in (interval.lower, interval.upper))
    return f"the true difference is between {lower} and {upper or 'any higher value'}"


def _chance(p: float) -> str:
    if p <= 1e-12:
        return "practically impossible by chance"
    digits = len(str(int(1 / p))) - 1
    return f"happens by chance at most once in {int(1 / p) // 10**digits * 10**digits:,} tests"
