"""Sample ratio: are users split as configured? A sequential test on users by their first variant. Counts in, a p-value out.

Let pi be the configured shares. Compare the probability of the counts n under splits drawn from a Dirichlet distribution (mean pi,
concentration c) with their probability under pi. The ratio is the Bayes factor

    B = Gamma(c) / Gamma(c + N) * product of Gamma(c pi_i + n_i) / Gamma(c pi_i) / pi_i**n_i,      N = sum of n_i

If users are split by pi, B is a martingale that starts at 1. So the probability that 1/B ever falls below alpha is at most alpha
(Lindon, Malek 2022, "Anytime-valid inference for multinomial count data"). B depends only on the current counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from streammetrics.errors import ExperimentError

CONCENTRATION: Final = 1_000.0
"""Expected size of a broken split's error: about 1 / sqrt(CONCENTRATION) = 3 %. A 45 : 55 split instead of halves is found (p below
0.01) with about 1,650 users, 48 : 52 with about 8,050. Any value is valid."""

SHARE_LEAST: Final = 0.000_001
SHARE_MOST: Final = 1_000_000
"""Bounds of a share. Between them nothing overflows in double precision."""


def sample_ratio_p_value(users: Mapping[str, int], shares: Mapping[str, float], concentration: float = CONCENTRATION) -> float:
    """Return the largest probability that the users' split is ever this far from the shares by chance; 1 without data.

    users: users by the variant that they saw first, 0 or more each.
    shares: each variant's part of the traffic, above 0, in any unit (1 and 1 are halves). A configured variant without users counts
        as 0, so the p-value falls. A variant without a share makes the p-value 0.
    Raises ExperimentError for negative counts, for shares that `check_shares` rejects, and for no shares at all.

    >>> equal = {"control": 1, "treatment": 1}
    >>> round(sample_ratio_p_value({"control": 5_000, "treatment": 5_060}, equal), 4)
    1.0
    >>> sample_ratio_p_value({"control": 4_500, "treatment": 5_500}, equal) < 1e-10
    True
    >>> sample_ratio_p_value({"control": 500}, equal) < 0.001
    True
    """
    counts = {variant: count for variant, count in users.items() if count}
    _check(users, shares, concentration)
    if any(variant not in shares for variant in counts):
        return 0.0
    if len(shares) < 2 or not counts:
        return 1.0
    whole = math.fsum(shares.values())
    terms = [math.lgamma(concentration) - math.lgamma(concentration + sum(counts.values()))]
    for variant, share in shares.items():
        count, prior = counts.get(variant, 0), concentration * share / whole
        terms += [math.lgamma(prior + count) - math.lgamma(prior), -count * math.log(share / whole)]
    return math.exp(min(0.0, -math.fsum(terms)))


def check_shares(shares: Mapping[str, float]) -> None:
    """Raise ExperimentError for a share that is not a number from SHARE_LEAST to SHARE_MOST."""
    for variant, share in shares.items():
        if not SHARE_LEAST <= share <= SHARE_MOST:
            raise ExperimentError(f"share of {variant!r}", f"got {share!r}; must be from {SHARE_LEAST:f} to {SHARE_MOST:,}")


def _check(counts: Mapping[str, int], shares: Mapping[str, float], concentration: float) -> None:
    for variant, count in counts.items():
        if count < 0:
            raise ExperimentError(f"users of {variant!r}", f"got {count}; must be 0 or more")
    if not shares:
        raise ExperimentError("shares", "got none; give one share per variant")
    check_shares(shares)
    if not 0 < concentration < math.inf:
        raise ExperimentError("concentration", f"got {concentration!r}; must be finite and above 0")
