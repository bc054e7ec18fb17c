"""The boundary: against two other implementations and its own guarantee."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.errors import ExperimentError
from streammetrics.metrics import Scorer
from streammetrics.statistics.estimates import difference, estimate
from streammetrics.statistics.measures import Measures
from streammetrics.statistics.moments import of_users
from streammetrics.statistics.sequence import (
    Mixture,
    log_evidence_one_sided,
    log_evidence_two_sided,
    one_sided,
    p_value,
    two_sided,
)
from tests.statistics import golden
from tests.support.columns import ONE

HITS = Measures(Scorer(["hit_rate@10"]).columns)

ratios = st.floats(-12, 8).map(lambda power: 10.0**power)
alphas = st.floats(1e-6, 0.5)


@given(ratios, ratios, alphas)
@example(1e-4, 0.02, 0.05)
def test_both_boundaries_equal_ville(variance: float, tau: float, alpha: float) -> None:
    from ville._boundaries import normal_mixture  # noqa: PLC0415 (brings scipy: not in every process that collects tests)

    ratio = variance / tau
    for ours, sided in ((two_sided, False), (one_sided, True)):
        # ville bounds D / V in information time 1 / V, with precision 1 / tau**2.
        theirs = float(normal_mixture(1 / variance, alpha, 1 / tau, one_sided=sided)) * math.sqrt(variance)
        if sided or ratio < 1e6:  # ville's logarithm of a number close to 1 loses digits
            assert ours(variance, Mixture(math.sqrt(tau)), alpha) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("case", golden.read("gbstats"), ids=lambda case: f"{len(case['control'])} users")
def test_interval_variance_and_p_value_equal_gbstats(case: dict[str, object]) -> None:
    control, treatment = (
        estimate(HITS, HITS.named("hit_rate@10"), of_users(HITS, [[lists, hits * ONE] for lists, hits in case[arm]]))  # type: ignore[attr-defined]
        for arm in ("control", "treatment")
    )
    assert control is not None
    assert treatment is not None
    variance = control.variance + treatment.variance
    assert variance == pytest.approx(case["variance"], rel=1e-9)
    tau = math.sqrt(variance * (control.users + treatment.users)) * float(case["rho"])  # type: ignore[arg-type]
    log_ratio = difference(treatment, control, Mixture(tau), float(case["alpha"]))  # type: ignore[arg-type]
    assert log_ratio is not None
    assert log_ratio[1:] == pytest.approx(case["interval"], rel=1e-9)
    assert p_value(log_ratio[0] / math.sqrt(variance), variance, Mixture(tau)) == pytest.approx(case["p_value"], rel=1e-9)


def test_the_boundary_is_the_documented_formula() -> None:
    variance, tau, alpha = 0.0004, 0.05, 0.05
    half = math.sqrt(variance * (variance + tau**2) / tau**2 * (-2 * math.log(alpha) + math.log((variance + tau**2) / variance)))
    assert math.sqrt(variance) * two_sided(variance, Mixture(tau), alpha) == pytest.approx(half, rel=1e-13)


@given(ratios, alphas)
@example(1.0, 0.05)
@example(1e-4, 0.05)
def test_one_sided_is_tighter_than_two_sided_and_wider_than_one_look(ratio: float, alpha: float) -> None:
    assert one_sided(ratio, Mixture(1.0), alpha) < two_sided(ratio, Mixture(1.0), alpha)
    # The one-sided boundary q of a single look has alpha = Phi(-q).
    assert math.erfc(one_sided(ratio, Mixture(1.0), alpha) / math.sqrt(2)) / 2 < alpha


@given(ratios, alphas)
@example(1.0, 0.05)
@example(1e-4, 0.05)
def test_the_one_sided_mixture_reaches_one_over_alpha_at_its_boundary(ratio: float, alpha: float) -> None:
    w = one_sided(ratio, Mixture(1.0), alpha) / math.sqrt(1 + ratio)
    log_mixture = math.log(2) - math.log1p(1 / ratio) / 2 + w * w / 2 + math.log1p(-math.erfc(w / math.sqrt(2)) / 2)
    assert log_mixture == pytest.approx(-math.log(alpha), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("effect", [None, 0.1, 1.0])
def test_paths_without_effect_cross_about_as_often_as_alpha_allows(effect: float | None) -> None:
    """Brownian paths in information time, from V = 4 tau**2 to V = tau**2 / 10,000."""
    alpha, paths = 0.2, 4_000
    random = np.random.default_rng(3)
    times = np.concatenate([[0.0], np.geomspace(0.25, 10_000, 800)])
    steps = random.standard_normal((paths, 800)) * np.sqrt(np.diff(times))
    z = np.cumsum(steps, axis=1) / np.sqrt(times[1:])
    error = 3 * math.sqrt(alpha * (1 - alpha) / paths)
    mixture = Mixture(1.0, effect)
    both = np.array([two_sided(1 / time, mixture, alpha) for time in times[1:]])
    upper = np.array([one_sided(1 / time, mixture, alpha) for time in times[1:]])
    for crossed in ((np.abs(z) > both).any(axis=1).mean(), (z > upper).any(axis=1).mean()):
        assert alpha / 2 < crossed < alpha + error


def test_invalid_arguments_are_rejected() -> None:
    for ratio in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ExperimentError, match=r"V: got|V / tau"):
            two_sided(ratio, Mixture(1.0), 0.05)
    for alpha in (0.0, 1.0, math.nan):
        with pytest.raises(ExperimentError, match="alpha"):
            one_sided(0.1, Mixture(1.0), alpha)
    for mixture, name in ((Mixture(0.0), "tau"), (Mixture(1.0, -0.1), "effect"), (Mixture(1e-300), r"V / tau\*\*2")):
        with pytest.raises(ExperimentError, match=name):
            one_sided(0.1, mixture, 0.05)


effects = st.floats(-3, 3).map(lambda power: 10.0**power)


@given(st.floats(-8, 4).map(lambda power: 10.0**power), effects, alphas)
@example(1e-4, 0.04, 0.05)
@example(1.0, 1.0, 0.025)
def test_evidence_at_the_boundary_is_one_over_alpha(variance: float, effect: float, alpha: float) -> None:
    mixture = Mixture(1.0, effect)
    for boundary, log_evidence in ((one_sided, log_evidence_one_sided), (two_sided, log_evidence_two_sided)):
        z = boundary(variance, mixture, alpha)
        assert log_evidence(z, variance, mixture) == pytest.approx(-math.log(alpha), rel=1e-9, abs=1e-9)


@given(ratios, effects, st.floats(-200, 60))
@example(1e-4, 0.04, 3.0)
@example(1.0, 0.1, -30.0)
def test_evidence_is_the_documented_mixture(variance: float, effect: float, z: float) -> None:
    from scipy.special import log_ndtr  # noqa: PLC0415 (takes seconds: not in every process that collects tests)

    step, q = effect / math.sqrt(variance), z / math.sqrt(1 + variance)
    half_normal = math.log(2) - math.log1p(1 / variance) / 2 + float(log_ndtr(q)) + q * q / 2
    expected = np.logaddexp(step * z - step * step / 2, half_normal) - math.log(2)
    assert log_evidence_one_sided(z, variance, Mixture(1.0, effect)) == pytest.approx(float(expected), rel=1e-6, abs=1e-6)


def test_the_point_makes_the_boundary_lower_where_its_effect_is_found() -> None:
    """A wanted effect of 10 % of the mean, tau from 100 users per arm: fewer users until z = effect / sqrt(V) reaches the boundary."""

    def users_until_found(mixture: Mixture) -> int:
        return next(n for n in range(200, 9_000, 10) if 0.1 / math.sqrt(1.7**2 / n) >= one_sided(1.7**2 / n, mixture, 0.05))

    tau = math.sqrt(1.7**2 / 200)
    assert users_until_found(Mixture(tau, 0.1)) < 0.95 * users_until_found(Mixture(tau))
    assert one_sided(1.7**2 / 2_000, Mixture(tau, 0.1), 0.05) != one_sided(1.7**2 / 2_000, Mixture(tau, 0.01), 0.05)
