"""Planning: how many users a verdict takes under our own boundary, and what an undecided variant still needs. Pure.

A difference has variance V = v/n, with n users of all variants, so n users are the information I = n/v. The score W = D/V of a difference
D is a Brownian motion in I, with the true difference as its drift (see `sequence`). A verdict comes when W first reaches the boundary
b(I) = z(1/I) sqrt(I). By I the path has crossed with about the probability that it has crossed the tangent of b at I, which has a closed
form (Siegmund 1985, "Sequential Analysis"). With the slope s = b'(I), a path that begins at (I0, W0), and a drift of mu more than s,

    P(verdict by I) = Phi((mu T - a) / sqrt(T)) + exp(2 mu a) Phi((-mu T - a) / sqrt(T)),    T = I - I0,    a = b(I) - s T - W0

A plan gives the 10, 50, 80 and 90 % points of that time: of a hundred experiments with this true lift, so many have their verdict by then.

A plan assumes a true lift. It does not use the present estimate, which is what one would like to know: plan for the lift that matters.
With a known score, the probabilities are those of the experiments that got this far.

What a plan leaves out: v falls when the same users come back, so verdicts may come earlier. Deciding measures share the error by a closed
test, so a verdict may come later: at most as if alpha were divided by their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from streammetrics.errors import ExperimentError
from streammetrics.statistics.sequence import Mixture, one_sided

PlannedWord: TypeAlias = Literal["regressed", "safe", "improved"]
"""The verdicts that can be planned for."""

SHARES: Final = (0.1, 0.5, 0.8, 0.9)
"""The shares of experiments whose users are planned."""
USERS_MAX: Final = 1e12
"""Plans end here: more users are shown as never."""
_BISECTIONS: Final = 24
"""Halvings of a lift."""
_HALVINGS: Final = 40
"""Halvings of the logarithm of the information."""
_EXPONENT_MAX: Final = 700.0
"""Above it, exp overflows. The normal tail beside it is 0 long before."""
_STEP: Final = 1e-4
"""The relative step of the numerical slope of the boundary."""


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


class PlannedUsers(NamedTuple):
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


def plan(assumed: Assumptions, verdict: PlannedWord, lift: float) -> PlannedUsers:
    """Return the users until a verdict if this is the true lift; at least those of the first look.

    >>> half = Assumptions(variation=0.85, rules=VerdictRules(margin=0.0))
    >>> [round(users, -2) for users in plan(half, "regressed", -0.1)]
    [500.0, 1500.0, 2800.0, 3800.0]
    >>> plan(half, "regressed", 0.0)
    PlannedUsers(early=inf, half=inf, most=inf, late=inf)
    """
    path = _Path(assumed.mixture(verdict), assumed.rules.alpha, assumed.rules.distance(verdict, lift))
    unit = assumed.unit_variance
    return PlannedUsers(*(max(assumed.first_users, unit * path.information_of(share, USERS_MAX / unit)) for share in SHARES))


def verdict_chance(assumed: Assumptions, verdict: PlannedWord, lift: float, users: float) -> float:
    """Return the probability of a verdict by so many users of both arms, if this is the true lift.

    >>> [round(verdict_chance(Assumptions(variation=0.85), "regressed", -0.2, users), 2) for users in (50, 500, 5000)]
    [0.0, 0.43, 1.0]
    """
    path = _Path(assumed.mixture(verdict), assumed.rules.alpha, assumed.rules.distance(verdict, lift))
    return 0.0 if users < assumed.first_users else path.crossed(users / assumed.unit_variance)


def detectable_lift(assumed: Assumptions, verdict: Literal["regressed", "improved"], users: float, share: float = 0.8) -> float | None:
    """Return the smallest lift that this share of experiments finds by so many users of both arms; None if it would be 100 % or more.

    It is negative for a drop.

    >>> round(detectable_lift(Assumptions(variation=0.85), "regressed", 3_444), 2)
    -0.1
    """
    sign = -1.0 if verdict == "regressed" else 1.0
    low, high = 0.0, 1.0
    if verdict_chance(assumed, verdict, sign * high, users) < share:
        return None
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if verdict_chance(assumed, verdict, sign * middle, users) >= share else (middle, high)
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


def more_users(progress: ComparisonScore, alpha: float) -> PlannedUsers:
    """Return how many more users of all variants it takes until a verdict; 0 if the score is beyond the boundary already.

    >>> mixture = Mixture(0.12, 0.1)
    >>> [round(users, -2) for users in more_users(ComparisonScore(1_000, 0.5, 0.0029, mixture, 0.1), 0.05)]
    [900.0, 1900.0, 3300.0, 4400.0]
    >>> more_users(ComparisonScore(1_000, 5.0, 0.0029, mixture, 0.1), 0.05).half
    0.0
    """
    unit = progress.variance * progress.users
    if progress.z >= one_sided(progress.variance, progress.mixture, alpha):
        return PlannedUsers(0.0, 0.0, 0.0, 0.0)
    start, score = 1 / progress.variance, progress.z / math.sqrt(progress.variance)
    path = _Path(progress.mixture, alpha, progress.distance, start, score)
    return PlannedUsers(*(max(0.0, unit * path.information_of(share, USERS_MAX / unit) - progress.users) for share in SHARES))


@dataclass(frozen=True, slots=True)
class _Path:
    """The score of one direction from (start, score) on, with the true difference as its drift."""

    mixture: Mixture
    alpha: float
    drift: float
    start: float = 0.0
    score: float = 0.0

    def bound(self, information: float) -> float:
        """Return b(I): the boundary of the score."""
        return one_sided(1 / information, self.mixture, self.alpha) * math.sqrt(information)

    def crossed(self, information: float) -> float:
        """Return the probability that the score has crossed the boundary by this information."""
        bound, step = self.bound(information), _STEP * information
        slope = (self.bound(information + step) - self.bound(information - step)) / (2 * step)
        length, net = information - self.start, self.drift - slope
        height, root = bound - slope * length - self.score, math.sqrt(length)
        if height <= 0:
            return 1.0
        beyond = math.exp(min(2 * net * height, _EXPONENT_MAX))
        return min(1.0, _normal((net * length - height) / root) + beyond * _normal((-net * length - height) / root))

    def information_of(self, share: float, most: float) -> float:
        """Return the information by which this share of paths has crossed; infinite beyond `most`, or without a drift."""
        if self.drift <= 0 or self.start >= most or self.crossed(most) < share:
            return math.inf
        low, high = math.log(_STEP), math.log(most - self.start)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.crossed(self.start + math.exp(middle)) >= share else (middle, high)
        return self.start + math.exp(high)


def _normal(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


def _check(name: str, value: object, fine: bool, allowed: str) -> None:
    if not fine:
        raise ExperimentError(name, f"got {value!r}; must be {allowed}")
