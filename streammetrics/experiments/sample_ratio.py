"""Are users split as configured? A sequential test on first exposures, valid however often one looks. Counts in, a p-value out.

Let pi be the configured shares. The probability of the counts n under all splits theta drawn from a Dirichlet law with mean pi and
concentration c, over their probability under pi itself, is the Bayes factor

    B = Gamma(c) / Gamma(c + N) * product of Gamma(c pi_i + n_i) / Gamma(c pi_i) / pi_i**n_i,      N = sum of n_i

B is a martingale that starts at 1 when users are split by pi, so 1/B is ever below alpha with chance at most alpha (Lindon, Malek 2022,
"Anytime-valid inference for multinomial count data"). It depends on the counts of now only: not on when one looked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from streammetrics.experiments.measures import ExperimentError

CONCENTRATION: Final = 1_000.0
"""How close to the configured shares a broken split is expected: about 1 / sqrt(CONCENTRATION), 3 %: a 45 : 55 split of users
is told from halves (below 0.01) by about 1,650 users, 48 : 52 by about 8,050. Any value is valid."""

SHARE_LEAST: Final = 0.000_001
SHARE_MOST: Final = 1_000_000
"""Nobody means to split users beyond these, and doubles hold whatever is computed between them."""


def sample_ratio_p_value(
    first_exposures: Mapping[str, int], shares: Mapping[str, float] | None = None, concentration: float = CONCENTRATION
) -> float:
    """How likely the users' split is ever this far from the configured shares by chance, at most; 1 while there is nothing to say.

    first_exposures: users by the variant that they saw first, 0 or more each.
    shares: variants with their parts of the traffic, above 0, in any unit (1 and 1 are halves); None: equal among the variants
        that were seen. A configured variant without users counts as 0 and makes the p-value fall; a variant that was seen though it
        is not configured makes it 0.
    Raises ExperimentError for negative counts, shares that `check_shares` refuses, or no configured variant.

    >>> round(sample_ratio_p_value({"control": 5_000, "treatment": 5_060}), 4)
    1.0
    >>> sample_ratio_p_value({"control": 4_500, "treatment": 5_500}) < 1e-10
    True
    >>> sample_ratio_p_value({"control": 500}, {"control": 1, "treatment": 1}) < 0.001
    True
    """
    counts = {variant: count for variant, count in first_exposures.items() if count}
    _check(first_exposures, shares, concentration)
    if shares is None:
        shares = dict.fromkeys(counts, 1.0)
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
    """Raises ExperimentError for a share that is not a number from SHARE_LEAST to SHARE_MOST."""
    for variant, share in shares.items():
        if not SHARE_LEAST <= share <= SHARE_MOST:
            raise ExperimentError(f"share of {variant!r}", f"got {share!r}; allowed are numbers from {SHARE_LEAST:f} to {SHARE_MOST:,}")


def _check(counts: Mapping[str, int], shares: Mapping[str, float] | None, concentration: float) -> None:
    for variant, count in counts.items():
        if count < 0:
            raise ExperimentError(f"first exposures of {variant!r}", f"got {count}; allowed are 0 or more")
    if shares is not None:
        if not shares:
            raise ExperimentError("shares", "got none; allowed is a share for each variant, or None for equal shares")
        check_shares(shares)
    if not 0 < concentration < math.inf:
        raise ExperimentError("concentration", f"got {concentration!r}; allowed are finite numbers above 0")
