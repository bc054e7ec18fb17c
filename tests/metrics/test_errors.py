"""Whatever breaks a rule is refused by a message that names the rule, the place and the value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from streammetrics.errors import StreammetricsError
from streammetrics.metrics import METRIC_NAMES, Metric, MetricError, Scorer, Spec, parse_metric

SCORER = Scorer(["ndcg@10", "map@5"], items_max=50, grade_max=7)


@pytest.mark.parametrize("name", METRIC_NAMES)
def test_a_metric_prints_as_it_is_read(name: str) -> None:
    for k in (1, 10, 1_000_000):
        assert str(parse_metric(f"{name}@{k}")) == f"{name}@{k}"
        assert parse_metric(f"{name}@{k}") == Metric(name, k)


@pytest.mark.parametrize(
    "text", ["", "ndcg", "ndcg@", "@10", "ndcg@0", "ndcg@-1", "ndcg@05", "ndcg@1.5", "ndcg@10 ", "NDCG@10", "ndcg@\u0661"]
)
def test_what_is_no_metric_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(MetricError, match=re.escape(f"metric: got {text!r}; allowed is <name>@<k>")):
        parse_metric(text)


def test_a_cutoff_that_is_too_large_is_refused_with_its_bounds() -> None:
    with pytest.raises(MetricError, match=re.escape("cut-off of ndcg: got 1000001; allowed are whole numbers 1..1000000")):
        parse_metric("ndcg@1000001")


@pytest.mark.parametrize(("name", "k"), [("ndcg", True), ("ndcg", 1.0), ("gain", 1)])
def test_a_metric_is_checked_however_it_is_made(name: str, k: int) -> None:
    with pytest.raises(MetricError):
        Metric(name, k)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.score_hits([3, 3], [0, 1], [0, 2], [1, -2]), "grade: got -2 at list 1, position 2; allowed are finite numbers 0..7"),
        (lambda s: s.score_hits([3], [0], [0], [math.nan]), "grade: got nan at list 0, position 0"),
        (lambda s: s.score_hits([3], [0], [1], [math.inf]), "grade: got inf at list 0, position 1"),
        (lambda s: s.score_hits([3], [0], [1], [7.5]), "grade: got 7.5 at list 0, position 1; allowed are finite numbers 0..7 (grade_max)"),
        (lambda s: s.score_hits([3], [1], [0], [1]), "row: got 1 at hit 0; allowed are 0..0"),
        (lambda s: s.score_hits([3], [-1], [0], [1]), "row: got -1 at hit 0"),
        (lambda s: s.score_hits([3, 9], [1, 0], [8, 3], [1, 1]), "position: got 3 at hit 1 of list 0; allowed are 0 <= position < 3"),
        (lambda s: s.score_hits([3], [0], [-1], [1]), "position: got -1 at hit 0 of list 0"),
        (lambda s: s.score_hits([9, 9], [1, 0, 1], [4, 4, 4], [1, 1, 2]), "position: got 4 twice in list 1"),
        (lambda s: s.score_hits([9], [0, 0], [1], [1, 1]), "hits: got 2 rows, 1 positions, 2 grades"),
        (lambda s: s.score_hits([51], [], [], []), "length: got 51 at list 0; allowed are whole numbers 0..50 (items_max)"),
        (lambda s: s.score_hits([1, -1], [], [], []), "length: got -1 at list 1"),
        (lambda s: s.score_hits([1.5], [], [], []), "lengths: got dtype float64; allowed are whole numbers"),
        (lambda s: s.score_hits([[1]], [], [], []), "lengths: got 2 dimensions; allowed is 1"),
        (lambda s: s.score_hits([3], [0], [0], ["a"]), "grades: got dtype <U1; allowed are real numbers"),
        (lambda s: s.score_ragged([1, 2, math.nan], [0, 1, 3]), "grade: got nan at list 1, position 1"),
        (lambda s: s.score_ragged([1, 2], [0, 1]), "offsets: got 0..1; allowed is a start of 0 and an end of 2"),
        (lambda s: s.score_ragged([1, 2], [0, 2, 1, 2]), "offsets: got 1 after 2 at index 2"),
        (lambda s: s.score_ragged([], []), "offsets: got none"),
        (lambda s: s.score_ragged([[1]], [0, 1]), "grades: got 2 dimensions"),
        (lambda s: s.score_padded([1, 2]), "grades: got 1 dimensions; allowed are 2"),
        (lambda s: s.score_padded([[1, 2], [3]]), "grades: got list that is no array"),
        (lambda s: s.score_padded([[1, -1]]), "grade: got -1 at list 0, position 1"),
        (lambda s: s.score_padded([[1, 1]], lengths=[3]), "length: got 3 at list 0; allowed are whole numbers 0..2"),
        (lambda s: s.score_padded([[1, 1]], lengths=[1, 1]), "lengths: got 2; allowed are 1"),
        (lambda s: s.score_list([0, -1]), "grade: got -1"),
        (lambda s: s.score_list([0, math.nan]), "grade: got nan"),
        (lambda s: s.score_list([None]), "grade: got None"),
        (lambda s: s.score_list([0] * 51), "length: got 51"),
        (lambda s: s.score_list_hits(3, {3: 1}), "position: got 3; allowed are whole numbers 0 <= position < 3"),
        (lambda s: s.score_list_hits(3, {-1: 1}), "position: got -1"),
        (lambda s: s.score_list_hits(3, {0.5: 1}), "position: got 0.5"),
        (lambda s: s.score_list_hits(3, [(1, 1), (1, 2)]), "position: got 1 twice"),
        (lambda s: s.score_list_hits(3, {1: math.inf}), "grade: got inf"),
        (lambda s: s.score_list_hits(3, [(1, 1), (1, None)]), "hits: got [(1, 1), (1, None)]"),
        (lambda s: s.score_list_hits(3, [1]), "hits: got [1]"),
        (lambda s: s.score_list_hits(-1, {}), "length: got -1"),
        (lambda s: s.score_list_hits(51, {}), "length: got 51"),
        (lambda s: s.values([1]), "row: got 1 columns; allowed are 2"),
    ],
)
def test_input_that_breaks_a_rule_is_named(call: Callable[[Scorer], object], message: str) -> None:
    with pytest.raises(MetricError, match=re.escape(message)):
        call(SCORER)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scorer([]), "metrics: got none"),
        (lambda: Scorer("ndcg@5"), "metrics: got 'ndcg@5'; allowed is a sequence"),
        (lambda: Scorer(["ndcg@5", Metric("ndcg", 5)]), "metrics: got ndcg@5 twice"),
        (lambda: Scorer(["ndcg@5"], items_max=0), "items_max: got 0"),
        (lambda: Scorer(["ndcg@5"], items_max=5_000_000), "items_max: got 5000000; allowed are whole numbers 1..4194304"),
        (lambda: Scorer(["ndcg@5"], grade_max=0), "grade_max: got 0;"),
        (lambda: Scorer(["ndcg@5"], grade_max=math.nan), "grade_max: got nan"),
        (lambda: Scorer(["ndcg_exp@10"], grade_max=16), "allowed at cut-off 10 are 0 < grade_max <= 15"),
        (lambda: Spec(gain="cubic"), "spec field gain: got 'cubic'; allowed are linear, exp2"),  # type: ignore[arg-type]
        (lambda: Spec(discount="none"), "spec field discount: got 'none'"),  # type: ignore[arg-type]
        (lambda: Spec(relevance_threshold=0), "spec field relevance_threshold: got 0; allowed are finite numbers > 0"),
        (lambda: Spec(relevance_threshold=math.nan), "spec field relevance_threshold: got nan"),
    ],
)
def test_a_request_that_cannot_be_met_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(MetricError, match=re.escape(message)):
        make()


def test_errors_are_both_value_errors_and_ours() -> None:
    assert issubclass(MetricError, ValueError)
    assert issubclass(MetricError, StreammetricsError)


def test_a_refused_grade_is_refused_again() -> None:
    for _ in range(2):
        with pytest.raises(MetricError, match="grade: got 8"):
            SCORER.score_list([8])


def test_a_padding_that_would_be_refused_is_never_read() -> None:
    assert SCORER.score_padded(np.array([[1.0, math.nan], [math.inf, -1]]), lengths=[1, 0]).tolist() == [[1 << 40, 1 << 40], [0, 0]]
