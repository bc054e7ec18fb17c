"""How many users a verdict takes, on Brownian paths: a difference of two means. Its variance falls with the users.

A user's coefficient of variation is 0.85 and both arms have the same size, so the lift has variance (2 * 0.85)**2 / users. Looks grow
by a constant factor from 200 users. The evidence is the package's mixture, as in `aa_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from streammetrics.experiments.planning import Assumptions, PlannedWord, VerdictRules, plan
from streammetrics.experiments.sequence import Mixture, one_sided
from tests.bench.aa_rules import ALPHA, Mixtures, log_evidence_one_sided
from tests.bench.aa_traffic import Floats

CV = 0.85
FIRST_USERS = 200
Case: TypeAlias = tuple[PlannedWord, float, float, float]
"""(verdict, minimum_lift, margin, true lift)"""
CASES: tuple[Case, ...] = (
    ("regressed", 0.1, 0.0, -0.2),
    ("regressed", 0.1, 0.0, -0.1),
    ("regressed", 0.1, 0.01, -0.1),
    ("regressed", 0.1, 0.0, -0.05),
    ("regressed", 0.05, 0.0, -0.05),
    ("regressed", 0.05, 0.0, -0.1),
    ("safe", 0.1, 0.01, 0.0),
    ("safe", 0.1, 0.02, 0.0),
    ("safe", 0.1, 0.05, 0.0),
)


def planned_users(paths: int, seed: int, cases: Sequence[Case] = CASES) -> Iterator[tuple[str, ...]]:
    """Yield one row per case, as text: the case, the users in 50 % and 80 % of the paths, the plan, and the share of wrong verdicts.

    The plan is that of `experiments.planning`: its users, and the share of paths with a verdict in its range from 10 % to 90 %. Wrong are
    paths that ever find a drop without one, or `safe` at a true drop of exactly the margin.
    """
    users = np.unique(np.round(np.geomspace(FIRST_USERS, 2_000_000, 700)).astype(np.int64)).astype(np.float64)
    for number, (word, minimum_lift, margin, lift) in enumerate(cases):
        effect = margin if word == "safe" else max(minimum_lift - margin, minimum_lift / 2)
        sign = 1.0 if word == "safe" else -1.0
        random = np.random.default_rng((seed, number))
        until = _first_users(users, sign * (lift + margin), effect, paths, random)
        wrong = np.isfinite(_first_users(users, 0.0, effect, paths, random)).mean()
        half, most = (float(np.quantile(until, share, method="lower")) for share in (0.5, 0.8))
        assumed = Assumptions(variation=CV, min_users=FIRST_USERS // 2, rules=VerdictRules(margin=margin, minimum_lift=minimum_lift))
        planned = plan(assumed, word, lift)
        inside = np.mean([planned.early <= each <= planned.late for each in until.tolist()])
        yield (
            *(word, f"{minimum_lift:.0%}", f"{margin:.0%}", f"{lift:.0%}", f"{half:,.0f}", f"{most:,.0f}"),
            *(f"{planned.half:,.0f}", f"{planned.most:,.0f}", f"{inside:.0%}", f"{wrong:.1%}"),
        )


def _first_users(users: Floats, drift: float, effect: float, paths: int, random: np.random.Generator) -> Floats:
    """Return for each path the users at which E first reaches 1 / ALPHA; infinite if it never does. `drift` is the true difference."""
    variances = (2 * CV) ** 2 / users
    frozen = Mixtures(float(np.sqrt(variances[0])), effect)
    assert abs(_boundary_evidence(variances[len(users) // 2], frozen) + np.log(ALPHA)) < 1e-9, "another boundary than the package's"
    found = np.full(paths, np.inf)
    steps = np.diff(users, prepend=0.0)
    for start in range(0, paths, 200):
        count = min(200, paths - start)
        noise = 2 * CV * np.sqrt(steps) * random.standard_normal((count, len(users)))
        z = np.cumsum(noise + drift * steps, axis=1) / users / np.sqrt(variances)
        both = np.column_stack([variances, np.zeros_like(variances)])
        certain = np.stack([log_evidence_one_sided(row, both, frozen) >= -np.log(ALPHA) for row in z])
        found[start : start + count] = np.where(certain.any(axis=1), users[certain.argmax(axis=1)], np.inf)
    return found


def _boundary_evidence(variance: float, frozen: Mixtures) -> float:
    """Return numpy's ln E at the package's boundary."""
    z = one_sided(variance, Mixture(frozen.tau, frozen.effect), ALPHA)
    return float(log_evidence_one_sided(np.array([z]), np.array([[variance, 0.0]]), frozen)[0])
