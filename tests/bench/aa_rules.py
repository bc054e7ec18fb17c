"""Decision rules of the A/A harness at every look, computed with numpy: ours, and the usual ones on the same data.

Our boundaries and floors are written here a second time, for whole arrays. `aa_check` compares them with the package.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr  # type: ignore[import-untyped]  # scipy has no stubs

from streammetrics.experiments.policy import Policy
from tests.bench.aa_check import Last
from tests.bench.aa_traffic import Floats, Traffic

Flags = npt.NDArray[np.bool_]

ALPHA = 0.05
POLICY = Policy()
FIXED = 1.959963984540054
"""The boundary of a test at a single look."""

RULES = {
    "interval": "interval of the difference excludes 0",
    "alarm": "one-sided alarm for drops, margin 0",
    "reduced": "interval, with variance reduction",
    "user hits": "interval, share of users with a hit",
    "fixed": "fixed 1.96, clustered by user",
    "per list": "fixed 1.96, lists as independent",
}
OURS = ("interval", "alarm", "reduced", "user hits")


@dataclass(frozen=True, slots=True)
class Arms:
    """Sums at every look, shape (looks, 2 arms): users, lists, and what the estimates need."""

    k: Floats
    n: Floats
    y: Floats
    yy: Floats
    nn: Floats
    yn: Floats
    squares: Floats
    hitters: Floats
    x: Floats
    xx: Floats
    xy: Floats
    xn: Floats


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of each rule, shape (looks,): True where it finds a difference. `users` are those of both arms.

    last: estimates at the last look; None without enough users. reduction: share of the variance that the covariate removes.
    """

    certain: dict[str, Flags]
    users: Floats
    last: Last | None = None
    reduction: float = 0.0


@dataclass(frozen=True, slots=True)
class Mixtures:
    """What is frozen at the first look that passes the floors: the standard error of the difference, and the effect to detect."""

    tau: float
    effect: float


def sums(traffic: Traffic, looks: int) -> Arms:
    """Sum up by look and arm how each list changes its user's totals, from (n, y) to (n + 1, y + worth)."""
    order = np.lexsort((traffic.times, traffic.users))
    users, worth = traffic.users[order], traffic.worth[order]
    first = np.concatenate([[True], users[1:] != users[:-1]])
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, len(users)))
    total = np.cumsum(worth)
    y = total - worth - np.repeat(total[starts] - worth[starts], lengths)
    n = np.arange(len(users), dtype=np.float64) - np.repeat(starts, lengths)
    arms = traffic.arms[users]
    x = traffic.earlier[users] - traffic.earlier.mean().round()
    cells = np.minimum((traffic.times[order] * looks).astype(np.int64), looks - 1) * 2 + arms

    def summed(change: Floats) -> Floats:
        return np.bincount(cells, change, 2 * looks).reshape(looks, 2).cumsum(axis=0)

    return Arms(
        k=summed(first.astype(np.float64)),
        n=summed(np.ones(len(users))),
        y=summed(worth),
        yy=summed(worth * (2 * y + worth)),
        nn=summed(2 * n + 1),
        yn=summed(y + worth * (n + 1)),
        squares=summed(worth * worth),
        hitters=summed(((y == 0) & (worth > 0)).astype(np.float64)),
        x=summed(x * first),
        xx=summed(x * x * first),
        xy=summed(x * worth),
        xn=summed(x),
    )


def judge(traffic: Traffic, looks: int = 400, alpha: float = ALPHA) -> Decisions:
    """Return the decisions of every rule at every look. There are none before both arms have enough users and pass the floors."""
    arms = sums(traffic, looks)
    enough = (arms.k >= POLICY.min_users).all(axis=1) & (arms.y > 0).any(axis=1)
    certain = {rule: np.zeros(looks, dtype=bool) for rule in RULES}
    with np.errstate(all="ignore"):
        smaller = arms.k.min(axis=1) / arms.k.sum(axis=1)
        hits, misses = (smaller * users.sum(axis=1) for users in (arms.hitters, arms.k - arms.hitters))
        has_hits = enough & (hits >= POLICY.hit_users_min)
        by_user = has_hits & (misses >= POLICY.hit_users_min)
        ready = has_hits & (arms.n**2 / arms.nn >= POLICY.effective_users_min).all(axis=1)
        if not ready.any():
            return Decisions(certain, arms.k.sum(axis=1))
        means = arms.y / arms.n
        variances = arms.k / (arms.k - 1) * (arms.yy - 2 * means * arms.yn + means**2 * arms.nn) / arms.n**2
        per_list = (arms.squares / arms.n - means**2) / arms.n
        rates = arms.hitters / arms.k
        rate_variances = rates * (1 - rates) / (arms.k - 1)
        reduced, reduced_variances = reduce_variance(arms, means, variances)
    frozen, frozen_rates = freeze(means, variances, ready), freeze(rates, rate_variances, by_user)
    z = standardised(means, variances)
    rules = {
        "interval": log_evidence_two_sided(z, variances, frozen) >= -np.log(alpha),
        "alarm": log_evidence_one_sided(-z, variances, frozen) >= -np.log(alpha),
        "user hits": log_evidence_two_sided(standardised(rates, rate_variances), rate_variances, frozen_rates) >= -np.log(alpha),
        "reduced": log_evidence_two_sided(standardised(reduced, reduced_variances), reduced_variances, frozen) >= -np.log(alpha),
        "fixed": np.abs(z) > FIXED,
        "per list": np.abs(standardised(means, per_list)) > FIXED,
    }
    last = Last((means[-1], variances[-1]), (rates[-1], rate_variances[-1]), (reduced[-1], reduced_variances[-1]))
    reduction = float(1 - reduced_variances[-1].sum() / variances[-1].sum())
    open_at = {rule: by_user if rule == "user hits" else ready for rule in RULES}
    return Decisions({rule: found & open_at[rule] for rule, found in rules.items()}, arms.k.sum(axis=1), last, reduction)


def freeze(means: Floats, variances: Floats, ready: Flags) -> Mixtures:
    """Return what the package freezes at the first look that is ready; arm 0 is the control."""
    first = int(np.argmax(ready))
    return Mixtures(float(np.sqrt(variances[first].sum())), POLICY.minimum_lift * float(means[first, 0]))


def standardised(means: Floats, variances: Floats) -> Floats:
    """Return arm 1 minus arm 0 in standard errors, shape (looks,)."""
    with np.errstate(all="ignore"):
        found: Floats = np.nan_to_num((means[:, 1] - means[:, 0]) / np.sqrt(variances.sum(axis=1)))
    return found


def log_evidence_one_sided(z: Floats, variances: Floats, frozen: Mixtures) -> Floats:
    """Return ln E of the package's one-sided mixture; minus infinity without variance."""
    variance, ratio, step = _terms(variances, frozen)
    q = z / np.sqrt(1 + ratio)
    with np.errstate(over="ignore", invalid="ignore"):
        normal = np.log(2) - np.log1p(1 / ratio) / 2 + log_ndtr(q) + q * q / 2
        evidence = np.logaddexp(step * z - step * step / 2, normal) - np.log(2)
    return np.where(variance > 0, evidence, -np.inf)


def log_evidence_two_sided(z: Floats, variances: Floats, frozen: Mixtures) -> Floats:
    """Return ln E of the package's two-sided mixture; minus infinity without variance."""
    variance, ratio, step = _terms(variances, frozen)
    with np.errstate(over="ignore"):
        point = np.logaddexp(step * z, -step * z) - np.log(2) - step * step / 2
        normal = z * z / (2 * (1 + ratio)) - np.log1p(1 / ratio) / 2
    return np.where(variance > 0, np.logaddexp(point, normal) - np.log(2), -np.inf)


def _terms(variances: Floats, frozen: Mixtures) -> tuple[Floats, Floats, Floats]:
    """Return V, V / tau**2 and effect / sqrt(V) at every look, with 1 for a V that is unknown or 0."""
    variance = np.nan_to_num(variances.sum(axis=1), nan=0.0, posinf=0.0)
    usable = np.where(variance > 0, variance, 1.0)
    return variance, usable / frozen.tau**2, frozen.effect / np.sqrt(usable)


def reduce_variance(arms: Arms, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Return means and variances without what earlier means explain, as `streammetrics.experiments.cuped` computes them."""
    centre = arms.x.sum(axis=1, keepdims=True) / arms.k.sum(axis=1, keepdims=True)
    shift = arms.x / arms.k - centre
    spread = (arms.xx - arms.x**2 / arms.k) / (arms.k * (arms.k - 1))
    both = (arms.xy - means * arms.xn) / (arms.n * (arms.k - 1))
    slope = both.sum(axis=1, keepdims=True) / spread.sum(axis=1, keepdims=True)
    return means - slope * shift, variances - 2 * slope * both + slope**2 * spread
