"""`python -m tests.tools.bench.power`: how many users a verdict takes, on Brownian paths: a difference of two means.

A user's coefficient of variation is 0.85 and both arms have the same size, so the lift has variance (2 * 0.85)**2 / users. Looks grow by a
constant factor from 200 users on. One table compares the plan with the paths. The other compares our boundary with others that are valid at
all looks at the same error, one-sided 5 %: mixtures of other effects, and that of gbstats 0.8 (two-sided at 10 %, tuned to 5,000 users).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from scipy.special import log_ndtr  # type: ignore[import-untyped]  # scipy has no stubs

from streammetrics.statistics.planning import Assumptions, PlannedWord, VerdictRules, plan
from streammetrics.statistics.sequence import Mixture, one_sided

Floats = npt.NDArray[np.float64]

ALPHA = 0.05
PATHS, SEED = 2_000, 20_261_128
LIFTS: Final = (0.02, 0.05, 0.1, 0.2)
Parts: TypeAlias = tuple[tuple[float, str, float], ...]
"""Of a mixture: the weight, the kind and the size of each part. Sizes are shares of the effect to detect; of tau for "half, tau"."""
MIXTURES: Final[Mapping[str, Parts]] = {
    "ours: half a point at 10 %, half a half-normal": ((0.5, "point", 1.0), (0.5, "half, tau", 1.0)),
    "the half-normal alone": ((1.0, "half, tau", 1.0),),
    "a half-normal of 10 %": ((1.0, "half", 1.0),),
    "a half-normal of 5 %": ((1.0, "half", 0.5),),
    "points at 10 and 5 %, and a half-normal": ((0.5, "point", 1.0), (0.25, "point", 0.5), (0.25, "half, tau", 1.0)),
    "a third each": ((1 / 3, "point", 1.0), (1 / 3, "point", 0.5), (1 / 3, "half, tau", 1.0)),
    "points at 10, 5 and 2.5 %, and a half-normal": (
        (0.4, "point", 1.0),
        (0.2, "point", 0.5),
        (0.2, "point", 0.25),
        (0.2, "half, tau", 1.0),
    ),
}

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
        inside = np.mean([planned.early <= day <= planned.late for day in until.tolist()])
        yield (
            *(word, f"{minimum_lift:.0%}", f"{margin:.0%}", f"{lift:.0%}", f"{half:,.0f}", f"{most:,.0f}"),
            *(f"{planned.half:,.0f}", f"{planned.most:,.0f}", f"{inside:.0%}", f"{wrong:.1%}"),
        )


def _first_users(users: Floats, drift: float, effect: float, paths: int, random: np.random.Generator) -> Floats:
    """Return for each path the users at which E first reaches 1 / ALPHA; infinite if it never does. `drift` is the true difference."""
    variances = (2 * CV) ** 2 / users
    mixture = Mixture(float(np.sqrt(variances[0])), effect)
    bounds = np.array([one_sided(variance, mixture, ALPHA) for variance in variances.tolist()])
    return _crossings(users, drift, {"": bounds}, paths, random)[""]


def _crossings(users: Floats, drift: float, bounds: Mapping[str, Floats], paths: int, random: np.random.Generator) -> dict[str, Floats]:
    """Return for each boundary, in standard errors, and each path the users at the first look beyond it; infinite if there is none."""
    crossings: dict[str, list[Floats]] = {name: [] for name in bounds}
    steps = np.diff(users, prepend=0.0)
    for start in range(0, paths, 200):
        noise = 2 * CV * np.sqrt(steps) * random.standard_normal((min(200, paths - start), len(users)))
        z = np.cumsum(noise + drift * steps, axis=1) / np.sqrt(users) / (2 * CV)
        for name, bound in bounds.items():
            beyond = z >= bound
            crossings[name].append(np.where(beyond.any(axis=1), users[beyond.argmax(axis=1)], np.inf))
    return {name: np.concatenate(arrays) for name, arrays in crossings.items()}


def boundary_of(parts: Parts, variances: Floats, minimum_lift: float = 0.1) -> Floats:
    """Return the boundary of a mixture at each variance, in standard errors, by bisection."""
    tau = float(np.sqrt(variances[0]))

    def log_evidence(z: Floats) -> Floats:
        terms = []
        for weight, kind, size in parts:
            if kind == "point":
                step = size * minimum_lift / np.sqrt(variances)
                terms.append(np.log(weight) + step * z - step * step / 2)
            else:
                ratio = variances / ((size * minimum_lift) if kind == "half" else tau) ** 2
                q = z / np.sqrt(1 + ratio)
                terms.append(np.log(2 * weight) - np.log1p(1 / ratio) / 2 + log_ndtr(q) + q * q / 2)
        return np.asarray(np.logaddexp.reduce(terms, axis=0))

    low, high = np.zeros_like(variances), np.full_like(variances, 30.0)
    for _ in range(60):
        middle = (low + high) / 2
        is_beyond = log_evidence(middle) >= -np.log(ALPHA)
        low, high = np.where(is_beyond, low, middle), np.where(is_beyond, middle, high)
    return high


def gbstats_boundary(users: Floats, alpha: float, tuned_to: int = 5_000) -> Floats:
    """Return the boundary of gbstats' sequential test of this two-sided error, in standard errors."""
    rho = (-2 * np.log(alpha) + np.log(-2 * np.log(alpha) + 1)) / tuned_to
    n = users * rho
    return np.asarray(np.sqrt(2 * (n + 1) / n * np.log(np.sqrt(n + 1) / alpha)))


def boundary_rows(paths: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Yield one row per boundary: how often it is ever crossed without an effect, and the users by which 50 and 80 % find each drop."""
    users = np.unique(np.round(np.geomspace(FIRST_USERS, 2_000_000, 900)).astype(np.int64)).astype(np.float64)
    variances = (2 * CV) ** 2 / users
    bounds = {name: boundary_of(parts, variances) for name, parts in MIXTURES.items()}
    ours = [one_sided(variance, Mixture(float(np.sqrt(variances[0])), 0.1), ALPHA) for variance in variances.tolist()]
    assert np.allclose(bounds[next(iter(MIXTURES))], ours, rtol=1e-9), "another boundary than the package's"
    bounds["gbstats, one-sided 5 %"] = gbstats_boundary(users, 2 * ALPHA)
    crossings = {lift: _crossings(users, lift, bounds, paths, np.random.default_rng((seed, round(1_000 * lift)))) for lift in (0.0, *LIFTS)}
    for name in bounds:
        wrong = float(np.isfinite(crossings[0.0][name]).mean())
        quantiles = ([float(np.quantile(crossings[lift][name], share, method="lower")) for share in (0.5, 0.8)] for lift in LIFTS)
        yield name, f"{wrong:.1%}", *(f"{half:,.0f} / {most:,.0f}" for half, most in quantiles)


def main() -> None:
    console = Console(width=160)
    columns = ("verdict", "minimum_lift", "margin", "true lift", "50 %", "80 %", "planned 50 %", "planned 80 %", "in 10 to 90 %", "A/A")
    planned = Table(*columns, title=f"Users of both arms until a verdict ({PATHS:,} paths)", box=MARKDOWN)
    for row in planned_users(PATHS, SEED):
        planned.add_row(*row)
    console.print(planned)
    others = Table("boundary", "A/A", *(f"drop of {lift:.0%}" for lift in LIFTS), title="Users at margin 0, 50 and 80 %", box=MARKDOWN)
    for row in boundary_rows(PATHS, SEED):
        others.add_row(*row)
    console.print(others)


if __name__ == "__main__":
    main()
