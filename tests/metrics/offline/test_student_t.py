"""Student's t against scipy, and against properties of any distribution."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import MetricError
from streammetrics.metrics.offline.student_t import critical_value, two_sided_p_value

DEGREES = [1, 2, 3, 5, 10, 29, 99, 100, 101, 1_000, 12_345, 1_000_000, 100_000_000]


@pytest.mark.parametrize("df", DEGREES)
def test_tail_probabilities_match_scipy_to_twelve_digits(df: int) -> None:
    from scipy import stats  # noqa: PLC0415 (takes seconds: not in every process that collects tests)

    for t in (1e-3, 0.1, 0.5, 1, 1.5, 1.9, 2, 2.5, 3, 5, 8, 10, 20, 30, 100, 1e4):
        expected = 2 * float(stats.t.sf(t, df))
        if expected > 1e-290:
            assert two_sided_p_value(t, df) == pytest.approx(expected, rel=1e-12, abs=0)
            assert two_sided_p_value(-t, df) == two_sided_p_value(t, df)


@pytest.mark.parametrize("df", DEGREES)
def test_critical_values_match_scipy_to_twelve_digits(df: int) -> None:
    from scipy import stats  # noqa: PLC0415 (takes seconds: not in every process that collects tests)

    for level in (0.01, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.999999, 1 - 1e-12, math.nextafter(1, 0)):
        assert critical_value(level, df) == pytest.approx(float(stats.t.isf((1 - level) / 2, df)), rel=1e-12, abs=0)


@given(st.floats(0, 0.9999, exclude_min=True), st.floats(0.5, 1e9))
def test_the_tail_beyond_a_critical_value_is_one_minus_the_level(level: float, df: float) -> None:
    assert two_sided_p_value(critical_value(level, df), df) == pytest.approx(1 - level, rel=1e-9)


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0.5, 1e9))
def test_tail_probabilities_never_rise(one: float, other: float, df: float) -> None:
    near, far = sorted([one, other])
    assert 0 <= two_sided_p_value(far, df) <= two_sided_p_value(near, df) * (1 + 1e-12) <= 1 + 1e-12


def test_zero_and_infinity_have_probability_one_and_zero() -> None:
    assert two_sided_p_value(0, 5) == 1
    assert two_sided_p_value(math.inf, 5) == 0
    assert math.isnan(two_sided_p_value(math.nan, 5))


@pytest.mark.parametrize("df", [0, -1, math.nan])
def test_degrees_of_freedom_must_be_positive(df: float) -> None:
    with pytest.raises(MetricError, match="degrees of freedom: got"):
        two_sided_p_value(1, df)


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, math.nan])
def test_a_level_must_be_between_zero_and_one(level: float) -> None:
    with pytest.raises(MetricError, match="confidence level: got"):
        critical_value(level, 5)
