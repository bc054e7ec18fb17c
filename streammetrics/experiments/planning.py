"""Planning: how many users a verdict takes under our own boundary, and what an undecided variant still needs. Pure.

A difference has variance V = v/n, with n users of all variants, so n users are the information n/v. The time of a verdict is the first
time that the score crosses the boundary (see `first_passage`). A plan gives the 10, 50, 80 and 90 % points of that time: of a hundred
experiments with this true lift, so many have their verdict by then.

A plan assumes a true lift. It does not use the present estimate, which is what one would like to know: plan for the lift that matters.
With a known score, the probabilities are those of the experiments that got this far.

What a plan leaves out: v falls when the same users come back, so verdicts may come earlier. Deciding measures share the error by a closed
test, so a verdict may come later: at most as if alpha were divided by their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from streammetrics.experiments.first_passage import PathStart, crossing_times, quantiles
from streammetrics.experiments.measures import ExperimentError
from streammetrics.experiments.sequence import Mixture, one_sided

PlannedWord: TypeAlias = Literal["regressed", "safe", "improved"]
"""The verdicts that can be planned for."""

SHARES: Final = (0.1, 0.5, 0.8, 0.9)
"""The shares of experiments whose users are planned."""
USERS_MAX: Final = 1e12
"""Plans end here: more users are shown as never."""
_BISECTIONS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRules:
    """The rules of a verdict, as in `Policy`. `alpha` is that of one treatment: divide it by their number."""

    alpha: float = 0.05
    margin: float = 0.01
    minimum_lift: float = 0.1

    def __post_init__(self) -> None:
        _check("alpha", self.alpha, 0 < self.alpha < 1, "between 0 and 1")
        _check("margin", self.margin, 0 <= self.margin < 1, "at least 0 and below 1")
        _check("minimum_lift", self.minimum_lift, 0 < self.minimum_lift < math.inf, "finite and above 0")

    def effect_of(self, verdict: PlannedWord) -> float:
        """Return the lift that a verdict's boundary detects; see `verdict.evidence`."""
        if verdict == "regressed":
            return max(self.minimum_lift - self.margin, self.minimum_lift / 2)
        return self.margin if verdict == "safe" and self.margin else self.minimum_lift

    def distance(self, verdict: PlannedWord, lift: float) -> float:
        """Return how far a true lift is beyond what the verdict rejects, as a share of the control's mean; 0 or less: never.

        >>> VerdictRules(margin=0.01).distance("regressed", -0.1), VerdictRules(margin=0.05).distance("safe", 0.0)
        (0.09000000000000001, 0.05)
        """
        return {"regressed": -self.margin - lift, "safe": lift + self.margin, "improved": lift}[verdict]


class Planned(NamedTuple):
    """Users of all variants together until a verdict, by share of experiments; infinite: never."""

    early: float
    half: float
    most: float
    late: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """An experiment that has not begun, with two arms.

    variation: the coefficient of variation of one user's value: the standard error of an arm's mean x sqrt(users) / mean.
    share: the treatment's part of the users of both arms.
    min_users: users of each arm at the first look.

    Raises ExperimentError for an invalid value.
    """

    variation: float
    share: float = 0.5
    min_users: int = 100
    rules: VerdictRules = field(default_factory=VerdictRules)

    def __post_init__(self) -> None:
        _check("variation", self.variation, 0 < self.variation < math.inf, "finite and above 0")
        _check("share", self.share, 0 < self.share < 1, "between 0 and 1")
        _check("min_users", self.min_users, self.min_users >= 2, "2 or more")

    @property
    def unit_variance(self) -> float:
        """The variance of the lift with one user: v. At a share p of the users it is 1/(4p(1 - p)) times that of equal arms."""
        return self.variation**2 / (self.share * (1 - self.share))

    @property
    def first_users(self) -> float:
        """Users of both arms at the first look."""
        return self.min_users / min(self.share, 1 - self.share)

    def mixture(self, verdict: PlannedWord) -> Mixture:
        """Return the mixture that is frozen at the first look, in units of the control's mean."""
        return Mixture(math.sqrt(self.unit_variance / self.first_users), self.rules.effect_of(verdict))


def plan(assumed: Assumptions, verdict: PlannedWord, lift: float) -> Planned:
    """Return the users until a verdict if this is the true lift.

    >>> half = Assumptions(variation=0.85, rules=VerdictRules(margin=0.0))
    >>> [round(users, -2) for users in plan(half, "regressed", -0.1)]
    [500.0, 1400.0, 2700.0, 3700.0]
    >>> plan(half, "regressed", 0.0)
    Planned(early=inf, half=inf, most=inf, late=inf)
    """
    unit = assumed.unit_variance
    start = PathStart(assumed.first_users / unit)
    found = quantiles(
        _Boundary(assumed.mixture(verdict), assumed.rules.alpha), assumed.rules.distance(verdict, lift), start, SHARES, USERS_MAX / unit
    )
    return Planned(*(each * unit for each in found))


def verdict_chance(assumed: Assumptions, verdict: PlannedWord, lift: float, users: Sequence[float]) -> list[float]:
    """Return the probability of a verdict by each number of users of both arms, if this is the true lift.

    >>> [round(each, 2) for each in verdict_chance(Assumptions(variation=0.85), "regressed", -0.2, [50, 500, 5000])]
    [0.0, 0.43, 1.0]
    """
    unit, first = assumed.unit_variance, assumed.first_users
    last = max(users, default=0.0)
    if last <= first:
        return [0.0 for _ in users]
    boundary = _Boundary(assumed.mixture(verdict), assumed.rules.alpha)
    times, crossed = crossing_times(boundary, assumed.rules.distance(verdict, lift), PathStart(first / unit), last / unit)
    return [0.0 if each < first else float(np.interp(each / unit, times, crossed)) for each in users]


def detectable_lift(assumed: Assumptions, verdict: Literal["regressed", "improved"], users: float, share: float = 0.8) -> float | None:
    """Return the smallest lift that this share of experiments finds by so many users of both arms; None if it would be 100 % or more.

    It is negative for a drop.

    >>> round(detectable_lift(Assumptions(variation=0.85), "regressed", 3_444), 2)
    -0.1
    """
    sign = -1.0 if verdict == "regressed" else 1.0

    def found(lift: float) -> bool:
        return verdict_chance(assumed, verdict, sign * lift, [users])[0] >= share

    low, high = 0.0, 1.0
    if not found(high):
        return None
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return sign * high


class ComparisonScore(NamedTuple):
    """How far a comparison is: the score of one direction, in the units of the measure.

    users: of all variants. z: standard errors from what the verdict rejects, above 0 in the verdict's direction. variance: of the
    difference from it. mixture: the frozen one. distance: the true difference from what the verdict rejects.
    """

    users: int
    z: float
    variance: float
    mixture: Mixture
    distance: float


def more_users(progress: ComparisonScore, alpha: float) -> Planned:
    """Return how many more users of all variants it takes until a verdict; 0 if the score is beyond the boundary already.

    >>> mixture = Mixture(0.12, 0.1)
    >>> [round(users, -2) for users in more_users(ComparisonScore(1_000, 0.5, 0.0029, mixture, 0.1), 0.05)]
    [900.0, 1900.0, 3300.0, 4300.0]
    >>> more_users(ComparisonScore(1_000, 5.0, 0.0029, mixture, 0.1), 0.05).half
    0.0
    """
    unit = progress.variance * progress.users
    if progress.z >= one_sided(progress.variance, progress.mixture, alpha):
        return Planned(0.0, 0.0, 0.0, 0.0)
    start = PathStart(1 / progress.variance, progress.z / math.sqrt(progress.variance))
    found = quantiles(_Boundary(progress.mixture, alpha), progress.distance, start, SHARES, USERS_MAX / unit)
    return Planned(*(max(0.0, each * unit - progress.users) for each in found))


@dataclass(frozen=True, slots=True)
class _Boundary:
    """b(I): the boundary of the score."""

    mixture: Mixture
    alpha: float

    def __call__(self, information: float) -> float:
        return one_sided(1 / information, self.mixture, self.alpha) * math.sqrt(information)


def _check(name: str, value: object, fine: bool, allowed: str) -> None:
    if not fine:
        raise ExperimentError(name, f"got {value!r}; must be {allowed}")
