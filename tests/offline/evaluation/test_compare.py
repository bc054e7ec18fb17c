"""Paired comparisons against scipy, statsmodels and brute force."""

from __future__ import annotations

import math
import random
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import MetricError, Spec
from streammetrics.offline.evaluation.compare import Comparison, compare, holm
from streammetrics.offline.evaluation.evaluate import Evaluation, evaluate
from streammetrics.offline.inputs.grades import from_grades, from_padded
from tests.support.tables import for_each

NAMES = ["ndcg@5", "mrr@5", "dcg@5", "item_hit_rate@3"]
LISTS = 300


def pair(users: bool, seed: int = 5, better: float = 0.06) -> tuple[Evaluation, Evaluation]:
    chance = np.random.default_rng(seed)
    owners = chance.integers(0, 40, LISTS)
    liking = chance.random((LISTS, 8))
    sides = [(chance.random((LISTS, 8)) * 0.7 + liking * 0.3 < share).astype(float) for share in (0.3, 0.3 + better)]
    shown = [chance.integers(1, 9, LISTS) for _ in sides]
    made = [from_padded(graded, lengths=lengths, users=owners if users else None) for graded, lengths in zip(sides, shown, strict=True)]
    return evaluate(made[0], NAMES), evaluate(made[1], NAMES)


@pytest.mark.parametrize("name", ["ndcg@5", "mrr@5", "dcg@5"])
def test_without_users_the_result_is_the_paired_t_test(name: str) -> None:
    from scipy import stats  # noqa: PLC0415 (takes seconds: not in every process that collects tests)

    a, b = pair(users=False)
    found = compare(a, b, level=0.9)[name]
    theirs = stats.ttest_rel(b.values(name), a.values(name))
    interval = theirs.confidence_interval(0.9)
    assert found.difference == pytest.approx(b.means[name] - a.means[name], abs=1e-15)
    assert (found.t, found.t_p_value) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-9)
    assert (found.lower, found.upper) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert (found.lists, found.clusters) == (LISTS, LISTS)


@pytest.mark.parametrize("name", ["ndcg@5", "mrr@5", "dcg@5"])
def test_with_users_the_result_is_a_regression_with_clustered_errors(name: str) -> None:
    from statsmodels.regression.linear_model import OLS  # noqa: PLC0415 (takes seconds: not in every process that collects tests)

    a, b = pair(users=True)
    found = compare(a, b)[name]
    fitted = OLS(b.values(name) - a.values(name), np.ones(LISTS)).fit(
        cov_type="cluster", cov_kwds={"groups": np.array(a.users)}, use_t=True
    )
    low, high = fitted.conf_int()[0]
    assert (found.standard_error, found.t, found.t_p_value) == pytest.approx(
        (fitted.bse[0], fitted.tvalues[0], fitted.pvalues[0]), rel=1e-9
    )
    assert (found.lower, found.upper) == pytest.approx((low, high), rel=1e-9)
    assert found.clusters == len(set(a.users or ()))


def test_a_ratio_of_sums_has_the_standard_error_of_stacked_equations() -> None:
    """The difference of two weighted means is a coefficient of one regression over both sides, clustered across them."""
    from statsmodels.regression.linear_model import WLS  # noqa: PLC0415 (takes seconds: not in every process that collects tests)

    a, b = pair(users=True)
    found = compare(a, b)["item_hit_rate@3"]
    (above_a, below_a), (above_b, below_b) = ([part.astype(float) for part in side.parts("item_hit_rate@3")] for side in (a, b))
    y = np.concatenate([above_a / below_a, above_b / below_b])
    x = np.stack([np.ones(2 * LISTS), np.repeat([0.0, 1.0], LISTS)], axis=1)
    fitted = WLS(y, x, weights=np.concatenate([below_a, below_b])).fit(
        cov_type="cluster", cov_kwds={"groups": np.tile(np.array(a.users), 2), "use_correction": False}
    )
    factor = math.sqrt(found.clusters / (found.clusters - 1))
    assert found.difference == pytest.approx(float(fitted.params[1]), rel=1e-12)
    assert found.standard_error == pytest.approx(float(fitted.bse[1]) * factor, rel=1e-9)


@for_each(product(NAMES, [False, True]))
def test_both_tests_agree_on_large_samples(case: tuple[str, bool]) -> None:
    name, users = case
    found = compare(*pair(users, better=0.04), samples=20_000)[name]
    assert found.randomisation_p_value == pytest.approx(found.t_p_value, abs=0.02)


def test_swapping_the_sides_changes_the_sign() -> None:
    a, b = pair(users=True)
    for one, other in zip(compare(a, b).differences, compare(b, a).differences, strict=True):
        assert (one.difference, one.t, one.lower) == pytest.approx((-other.difference, -other.t, -other.upper), rel=1e-12)
        assert one.t_p_value == pytest.approx(other.t_p_value, rel=1e-12)


def test_identical_runs_have_no_difference() -> None:
    a, _ = pair(users=True)
    for found in compare(a, a).differences:
        assert (found.difference, found.standard_error, found.t, found.t_p_value, found.randomisation_p_value) == (0, 0, 0, 1, 1)


def test_a_constant_difference_has_p_value_zero() -> None:
    found = compare(evaluate(from_grades([[0, 1]] * 5), ["mrr@5"]), evaluate(from_grades([[1, 0]] * 5), ["mrr@5"]))["mrr@5"]
    assert (found.difference, found.lower, found.upper, found.t, found.t_p_value) == (0.5, 0.5, 0.5, math.inf, 0)
    assert (found.randomisation_p_value, found.exact) == (2 / 32, True)


def test_one_user_gives_no_standard_error() -> None:
    a, b = (evaluate(from_grades(lists, users=["u", "u"]), ["mrr@5"]) for lists in ([[0, 1], [0, 1]], [[1, 0], [1, 0]]))
    found = compare(a, b)["mrr@5"]
    assert found.difference == 0.5
    assert all(math.isnan(value) for value in (found.standard_error, found.lower, found.upper, found.t, found.t_p_value))
    assert found.randomisation_p_value == 1


def test_lists_are_paired_by_id_in_any_order() -> None:
    lists = {f"q{number}": [0.0] * (number % 4) + [1.0] for number in range(20)}
    other = {name: list(reversed(graded)) for name, graded in lists.items()}
    shuffled = list(other.items())
    random.Random(1).shuffle(shuffled)
    a = evaluate(from_grades(lists), ["mrr@5"])
    assert compare(a, evaluate(from_grades(dict(shuffled)), ["mrr@5"])) == compare(a, evaluate(from_grades(other), ["mrr@5"]))


def test_unpaired_lists_are_an_error_or_dropped_and_named() -> None:
    a, b = (evaluate(from_grades(lists), ["mrr@5"]) for lists in ({"p": [1], "q": [0, 1], "x": [1]}, {"q": [1], "r": [1], "p": [1]}))
    with pytest.raises(MetricError, match=re.escape("lists: got 'x' in a only (1 in a only, 1 in b only)")):
        compare(a, b)
    found = compare(a, b, unpaired="drop")
    assert (found.only_a, found.only_b) == (("x",), ("r",))
    assert (found["mrr@5"].lists, found["mrr@5"].mean_a, found["mrr@5"].mean_b) == (2, 0.75, 1)


def test_runs_without_common_lists_give_nan() -> None:
    a, b = (evaluate(from_grades({name: [1]}), ["mrr@5", "item_hit_rate@5"]) for name in "ab")
    for found in compare(a, b, unpaired="drop").differences:
        assert (found.lists, found.clusters) == (0, 0)
        assert math.isnan(found.difference)
        assert math.isnan(found.randomisation_p_value)


def test_outcomes_equal_up_to_rounding_count_as_equal() -> None:
    nothing, first, third, fifth = [0], [1], [0, 0, 1], [0, 0, 0, 0, 1]
    lists = [(nothing, first), (third, nothing), (third, nothing), (third, nothing), (nothing, fifth)]
    a, b = (evaluate(from_grades([pair[side] for pair in lists]), ["mrr@5"]) for side in (0, 1))
    gains = [Fraction(1), *[Fraction(-1, 3)] * 3, Fraction(1, 5)]
    outcomes = [abs(sum(sign * gain for sign, gain in zip(signs, gains, strict=True))) for signs in product((1, -1), repeat=5)]
    assert compare(a, b)["mrr@5"].randomisation_p_value == sum(outcome >= sum(gains) for outcome in outcomes) / len(outcomes)


def test_an_undefined_metric_does_not_count_as_a_test() -> None:
    grades = [[[0, 1]] * 8, [[1, 0]] * 8]
    a, b = (evaluate(from_grades(lists), ["ndcg@5", "mrr@5"], Spec(no_relevant="skip", relevance_threshold=2)) for lists in grades)
    found = compare(a, b, correction="holm")
    assert (found["mrr@5"].lists, found["ndcg@5"].lists) == (0, 8)
    assert math.isnan(found["mrr@5"].randomisation_p_value)
    assert found["ndcg@5"] == compare(a, b)["ndcg@5"]


def test_sums_that_would_overflow_are_rejected() -> None:
    lists = 1_100
    a, b = (
        evaluate(from_grades([[grade]] * lists + [[0.0]], users=["bob"] * lists + ["ann"]), ["cg@1"]) for grade in (0.0, float(1 << 22))
    )
    with pytest.raises(MetricError, match=r"values: got a cluster with absolute values that sum beyond 2\*\*62"):
        compare(a, b)


def test_lists_that_do_not_count_on_one_side_are_left_out() -> None:
    a, b = (evaluate(from_grades(lists), ["mrr@5"], Spec(no_relevant="skip")) for lists in ([[1], [0], [1]], [[1], [1], [0, 1]]))
    found = compare(a, b)["mrr@5"]
    assert (found.lists, found.mean_a, found.mean_b) == (2, 1, 0.75)


def test_users_may_be_given_on_one_side_only() -> None:
    a, b = pair(users=True)
    bare = pair(users=False)
    assert compare(a, bare[1]) == compare(bare[0], b) == compare(a, b)


def test_holm_controls_the_probability_of_any_false_alarm() -> None:
    from statsmodels.stats.multitest import multipletests  # noqa: PLC0415 (takes seconds: not in every process that collects tests)

    a, b = pair(users=True)
    raw, adjusted = compare(a, b), compare(a, b, correction="holm")
    for field in ("t_p_value", "randomisation_p_value"):
        theirs = multipletests([getattr(one, field) for one in raw.differences], method="holm")[1]
        assert [getattr(one, field) for one in adjusted.differences] == pytest.approx(theirs.tolist(), rel=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_adjusted_p_values_match_the_definition_of_holm(p_values: list[float]) -> None:
    """The lowest alpha at which each test is rejected, when rejecting smallest first while p <= alpha / (tests left)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for place, at in enumerate(order):
        needed = max(p_values[other] * (len(order) - before) for before, other in enumerate(order[: place + 1]))
        assert holm(p_values)[at] == min(1, needed)


def test_nan_does_not_count_as_a_test() -> None:
    adjusted = holm([0.02, math.nan, 0.04])
    assert adjusted[::2] == [0.04, 0.04]
    assert math.isnan(adjusted[1])


def test_the_frame_has_one_row_per_metric() -> None:
    frame = compare(*pair(users=False)).frame()
    assert frame["metric"] == NAMES
    assert {len(column) for column in frame.values()} == {len(NAMES)}


ONE = evaluate(from_grades([[1], [0]]), ["mrr@5"])


@for_each(
    [
        (
            lambda: compare(ONE, evaluate(from_grades([[1], [0]]), ["mrr@6"])),
            "metrics: got mrr@6 and mrr@5; allowed are the same metrics",
        ),
        (
            lambda: compare(ONE, evaluate(from_grades([[1], [0]]), ["mrr@5"], Spec(gain="exp2"))),
            "spec field gain: got 'exp2' and 'linear'",
        ),
        (lambda: compare(ONE, ONE, level=1), "confidence level: got 1"),
        (lambda: compare(ONE, ONE, unpaired="keep"), "unpaired: got 'keep'; allowed are error, drop"),
        (lambda: compare(ONE, ONE, correction="bonferroni"), "correction: got 'bonferroni'; allowed are none, holm"),
        (lambda: compare(ONE, ONE, samples=0), "samples: got 0"),
        (lambda: compare(ONE, ONE)["ndcg@5"], "metric: got 'ndcg@5'; allowed are those compared: mrr@5"),
        (
            lambda: compare(*(evaluate(from_grades([[1]], users=[user]), ["mrr@5"]) for user in "uv")),
            "users: got 'v' and 'u' for list 0; allowed is the same user in both",
        ),
    ]
)
def test_different_evaluations_are_rejected(case: tuple[Callable[[], Comparison | Any], str]) -> None:
    call, message = case
    with pytest.raises(MetricError, match=re.escape(message)):
        call()


def test_arguments_that_are_not_evaluations_are_rejected() -> None:
    judged: Any = from_grades([[0, 1], [1, 0]])
    evaluated = evaluate(judged, ["mrr@5"])
    for sides, message in (((judged, evaluated), "a: got Judged"), ((evaluated, judged), "b: got Judged")):
        with pytest.raises(MetricError, match=f"{message}; allowed is what evaluate returns"):
            compare(*sides)


def test_a_comparison_needs_scipy_and_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    one = evaluate(from_grades([[1], [0, 1]]), ["mrr@5"])
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(
        MetricError, match=r"compare: got no scipy; allowed is an environment with it: pip install 'streammetrics\[compare\]'"
    ):
        compare(one, one)
