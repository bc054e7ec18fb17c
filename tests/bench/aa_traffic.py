"""Draws seeded experiments with numpy: the user, time and worth of each list, and the arm of each user.

A list is a hit with its user's chance at that time. A hit is worth 840 / rank. These are integers, so sums of doubles are exact. Times
run from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

UNIT = 840
"""Worth of a hit at rank 1; 840 / rank is whole for ranks 1 to 8."""
RANK_CHANCE = 0.75
"""Chance that the first relevant item is at rank r, given that it is not above. A hit is worth 0.86 on average."""
EARLIER_LISTS = 4
"""Lists of a user before the experiment, for the covariate of variance reduction."""


@dataclass(frozen=True, slots=True)
class Regime:
    """How users arrive and what they like.

    lists: a user's mean number of lists from start to end.
    score, taste, drift: a list is a hit if a standard normal number is below the user's score. The score is `score`, plus a taste with
        standard deviation `taste`, plus a random walk with standard deviation `drift` from start to end.
    shape: of the gamma distribution of activity; small if a few users make most lists.
    growth: how much more active later users are, in e-folds from start to end.
    """

    name: str
    users: int
    lists: float
    staggered: bool = False
    taste: float = 0.0
    drift: float = 0.0
    shape: float = 2.0
    growth: float = 0.0
    score: float = 0.0


REGIMES = (
    Regime("staggered users, user effects", 2_000, 12, staggered=True, taste=0.7),
    Regime("all at start, user effects", 600, 40, taste=0.7),
    Regime("all at start, no user effects", 600, 40),
    Regime("all at start, drifting taste", 600, 40, taste=0.4, drift=1.0),
)


STRESSES = (
    Regime("later users are more active", 2_000, 6, staggered=True, taste=0.7, growth=3.0),
    Regime("a few users make most lists", 2_000, 10, staggered=True, taste=0.7, shape=0.15),
    Regime("hits are rare (2 %)", 2_000, 10, staggered=True, taste=0.3, score=-2.1),
    Regime("few users, tastes change quickly", 260, 60, taste=0.3, drift=2.0),
    Regime("most users come once", 4_000, 0.3, staggered=True, taste=0.7),
)
"""Harder regimes for a theorem about independent observations."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """One experiment's lists in order of time, shape (lists,) each. `arms` and `earlier` are by user.

    earlier: worth of the user's EARLIER_LISTS lists before the experiment.
    """

    times: Floats
    users: Ints
    worth: Floats
    arms: Ints
    earlier: Floats


def draw(regime: Regime, seed: tuple[int, ...], drop: float = 0.0) -> Traffic:
    """Draw one experiment with two equal arms. Users of arm 1 hit less often, by the factor 1 - drop."""
    random = np.random.default_rng(seed)
    arrivals = random.uniform(0, 1, regime.users) if regime.staggered else random.uniform(0, 0.01, regime.users)
    rates = random.gamma(regime.shape, regime.lists / regime.shape, regime.users) * np.exp(regime.growth * arrivals)
    counts = 1 + random.poisson(rates * (1 - arrivals))
    users = np.repeat(np.arange(regime.users), counts)
    times = arrivals[users] + (1 - arrivals[users]) * random.uniform(0, 1, len(users))
    firsts = np.cumsum(counts) - counts
    times[firsts] = arrivals
    order = np.lexsort((times, users))
    users, times = users[order], times[order]
    arms: Ints = random.integers(0, 2, regime.users)
    taste: Floats = regime.taste * random.standard_normal(regime.users)
    score = taste[users] + regime.drift * _walk(random, times, firsts, counts)
    worth = _worth(random, regime.score + score, (1 - drop * arms[users]).astype(np.float64))
    before = np.repeat(np.arange(regime.users), EARLIER_LISTS)
    worth_before = _worth(random, regime.score + taste[before], np.ones(len(before), dtype=np.float64))
    earlier = np.bincount(before, worth_before, regime.users).astype(np.float64)
    order = np.argsort(times, kind="stable")
    return Traffic(times[order], users[order], worth[order], arms, earlier)


def _walk(random: np.random.Generator, times: Floats, firsts: Ints, counts: Ints) -> Floats:
    """Draw a Brownian path per user at the times of their lists, 0 at the first."""
    gaps = np.diff(times, prepend=0.0)
    gaps[firsts] = 0.0
    path = np.cumsum(np.sqrt(gaps) * random.standard_normal(len(times)))
    return path - np.repeat(path[firsts], counts)


def _worth(random: np.random.Generator, score: Floats, factor: Floats) -> Floats:
    """Draw the worth of lists: hits where a standard normal number is below the score, thinned by the factor."""
    hit = (random.standard_normal(len(score)) < score) & (random.uniform(0, 1, len(score)) < factor)
    ranks = np.minimum(random.geometric(RANK_CHANCE, len(score)), 8)
    return np.where(hit, UNIT // ranks, 0).astype(np.float64)
