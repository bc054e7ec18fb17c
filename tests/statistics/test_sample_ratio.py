"""The split test: against another implementation, as a martingale, and in typical cases."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.errors import ExperimentError
from streammetrics.experiments.policy import Policy
from streammetrics.statistics.sample_ratio import sample_ratio_p_value
from tests.statistics import golden
from tests.support.tables import for_each

EQUAL = {"control": 1.0, "treatment": 1.0}


@pytest.mark.parametrize("case", golden.read("ssrm_test"), ids=lambda case: f"shares {case['shares']}")
def test_every_step_equals_ssrm_test(case: dict[str, list[float] | list[list[int]]]) -> None:
    names = "abcd"[: len(case["shares"])]
    shares = dict(zip(names, case["shares"], strict=True))
    counts = dict.fromkeys(names, 0)
    for step, factor in zip(case["steps"], case["bayes_factors"], strict=True):
        for name, count in zip(names, step, strict=True):  # type: ignore[arg-type]
            counts[name] += count
        p_value = sample_ratio_p_value(counts, shares, case["concentration"])  # type: ignore[arg-type]
        assert p_value == pytest.approx(min(1.0, 1 / factor), rel=1e-9)  # type: ignore[operator]


def test_the_reference_cases_include_broken_splits() -> None:
    assert max(max(case["bayes_factors"]) for case in golden.read("ssrm_test")) > 10


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=4), st.lists(st.floats(0.05, 5), min_size=4, max_size=4), st.floats(1, 1e5))
@example([4_500, 5_500], [1.0, 1.0, 1.0, 1.0], 10_000.0)
@example([300, 0, 310], [1.0, 1.0, 1.0, 1.0], 1_000.0)
def test_the_bayes_factor_is_a_martingale(counts: list[int], parts: list[float], concentration: float) -> None:
    """The expected factor after the next user equals the current factor.

    The p-value is capped at 1, so this is checked only where the current and next factors are above 1.
    """
    names = "abcd"[: len(counts)]
    shares = dict(zip(names, parts, strict=False))
    now = dict(zip(names, counts, strict=True))
    following = [sample_ratio_p_value({**now, name: now[name] + 1}, shares, concentration) for name in names]
    present = sample_ratio_p_value(now, shares, concentration)
    if all(1e-200 < p < 1 for p in [present, *following]):
        expected = math.fsum(share / p for share, p in zip(shares.values(), following, strict=True)) / math.fsum(shares.values())
        assert expected == pytest.approx(1 / present, rel=1e-6)


def test_an_even_split_rarely_fires_at_any_look() -> None:
    source = random.Random(4)
    broken = 0
    for _ in range(150):
        counts = {"control": 0, "treatment": 0}
        alarmed = False
        for _ in range(60):
            treated = source.binomialvariate(40, 0.5) if hasattr(source, "binomialvariate") else source.getrandbits(40).bit_count()
            counts["treatment"] += treated
            counts["control"] += 40 - treated
            alarmed |= sample_ratio_p_value(counts, EQUAL) < 0.1
        broken += alarmed
    assert broken <= 150 * 0.1 + 3 * math.sqrt(150 * 0.1 * 0.9)


def test_forty_five_to_fifty_five_fires() -> None:
    assert sample_ratio_p_value({"control": 900, "treatment": 1_100}, EQUAL) < 0.01
    assert sample_ratio_p_value({"control": 100, "treatment": 110}, EQUAL) == 1


def test_an_arm_without_users_fires_once_the_others_have_users() -> None:
    three = {"control": 1.0, "one": 1.0, "two": 1.0}
    assert sample_ratio_p_value({"control": 5, "one": 4}, three) > 0.1
    assert sample_ratio_p_value({"control": 300, "one": 300}, three) < 0.001
    assert sample_ratio_p_value({"control": 300, "one": 300, "two": 0}, three) < 0.001


def test_a_variant_that_is_not_configured_fires_at_once() -> None:
    assert sample_ratio_p_value({"control": 5, "typo": 1}, EQUAL) == 0
    assert sample_ratio_p_value({"control": 5, "typo": 0}, EQUAL) == sample_ratio_p_value({"control": 5}, EQUAL) > 0.9


def test_without_users_the_p_value_is_1() -> None:
    assert sample_ratio_p_value({}, EQUAL) == sample_ratio_p_value({"control": 0}, EQUAL) == 1


def test_the_unit_of_shares_does_not_matter() -> None:
    counts = {"control": 950, "treatment": 90}
    assert sample_ratio_p_value(counts, {"control": 9, "treatment": 1}) == pytest.approx(
        sample_ratio_p_value(counts, {"control": 90.0, "treatment": 10.0}), rel=1e-9
    )


@for_each([0, -1, 9e-7, 1_000_001, 1e308, math.inf, math.nan])
def test_shares_out_of_bounds_are_rejected(share: float) -> None:
    with pytest.raises(ExperimentError, match=r"share of 'b': got .*; must be from 0\.000001 to 1,000,000"):
        sample_ratio_p_value({"a": 1}, {"a": 1, "b": share})
    with pytest.raises(ExperimentError, match=r"share of 'b': got .*; must be from 0\.000001 to 1,000,000"):
        Policy(shares={"a": 1, "b": share})


def test_the_smallest_share_works_beside_the_largest() -> None:
    shares = dict(Policy(shares={"a": 1e-6, "b": 1_000_000}).shares or {})
    assert sample_ratio_p_value({"b": 10**9}, shares) > 0.99
    assert sample_ratio_p_value({"a": 10**9}, shares) == 0
    assert sample_ratio_p_value({"a": 2, "b": 10**6}, shares) < 0.01


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ExperimentError, match="users of 'control': got -1"):
        sample_ratio_p_value({"control": -1}, EQUAL)
    with pytest.raises(ExperimentError, match="share of 'b': got 0"):
        sample_ratio_p_value({}, {"a": 1, "b": 0})
    with pytest.raises(ExperimentError, match="shares: got none"):
        sample_ratio_p_value({}, {})
    with pytest.raises(ExperimentError, match="concentration"):
        sample_ratio_p_value({}, EQUAL, 0)
