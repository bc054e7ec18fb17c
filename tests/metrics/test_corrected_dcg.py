"""DCG corrected for position bias: it finds the better of two rankers where plain DCG of clicks counts examination twice."""

from __future__ import annotations

import re

import numpy as np
import pytest

from streammetrics import Scorer, Spec, corrected_dcg, position_bias
from streammetrics.metrics.corrected_dcg import corrected_weights, discount_weights, gains_of_grades
from streammetrics.metrics.examination import examination_curve
from streammetrics.metrics.names import MetricError
from tests.support.click_simulation import simulate

SPECS = [Spec(), Spec(gain="exp2"), Spec(gain="binary", relevance_threshold=2), Spec(gain=(0, 1, 5, 9)), Spec(discount=(1, 2, 4))]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_without_position_bias_it_is_plain_dcg(spec: Spec) -> None:
    flat = examination_curve(np.repeat(np.arange(4), 3), np.tile([1, 2, 3], 4), np.full(12, 100), np.full(12, 50), ranks_max=3)
    lists = [[1, 0, 2], [0, 3], [], [2, 1, 1, 3], [0, 0, 0]]
    scorer = Scorer(["dcg@3"], spec)
    plain = [scorer.values(scorer.score_list(grades))["dcg@3"] for grades in lists]
    assert corrected_dcg(lists, 3, flat, spec) == pytest.approx(plain, abs=1e-8)
    assert [float(gains_of_grades(each[:3], spec) @ discount_weights(3, spec)[: len(each)]) for each in lists] == pytest.approx(
        plain, abs=1e-8
    )


def test_the_mean_is_the_dcg_of_what_attracts_users() -> None:
    known = 1 / np.sqrt(np.arange(1, 11))
    simulated = simulate(11, known)
    curve = examination_curve(*simulated.entries())
    true = float((simulated.attraction @ discount_weights(10)).mean())
    plain = float((simulated.clicks @ discount_weights(10)).mean())
    corrected = float(corrected_dcg(simulated.clicks.astype(float), 10, curve).mean())
    assert corrected == pytest.approx(true, rel=0.03)
    assert plain < 0.75 * true


def test_an_item_that_moves_from_the_first_to_the_last_rank_loses_what_the_discount_says() -> None:
    """Users click half of what they see at rank 1, and a tenth as often at rank 2. Its value there is 0.63, not 0.063."""
    curve = examination_curve([1, 1], [1, 2], [10_000, 10_000], [5_000, 500], ranks_max=2)
    at_first, at_second = ([[1.0, 0.0]] * 5 + [[0.0, 0.0]] * 5), ([[0.0, 1.0]] * 1 + [[0.0, 0.0]] * 19)
    values = [corrected_dcg(lists, 2, curve).mean() for lists in (at_first, at_second)]
    assert values == pytest.approx([0.5, 0.5 / np.log2(3)])


def test_a_cut_off_beyond_the_curve_has_a_message() -> None:
    curve = position_bias([["a", "b"]] * 100 + [["b", "a"]] * 100, [["a"]] * 200, ranks_max=3)
    message = "cut-off: got 3; allowed are whole numbers 1..2; rank 3 has no estimate: nothing was shown at this rank"
    with pytest.raises(MetricError, match=re.escape(message)):
        corrected_weights(curve, 3)


def test_without_a_curve_there_is_no_corrected_dcg() -> None:
    curve = position_bias([["a", "b"]] * 100, [["a"]] * 100, ranks_max=2)
    message = "cut-off: got 1; allowed are none; rank 1 has no estimate: no item shown at several ranks links this rank to rank 1"
    with pytest.raises(MetricError, match=re.escape(message)):
        corrected_dcg([[1]], 1, curve)
