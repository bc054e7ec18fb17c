"""Invalid input is rejected with a message that names the rule, the place and the value."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable

import numpy as np
import pytest

from streammetrics.errors import StreammetricsError
from streammetrics.metrics import ALL_METRIC_NAMES, Metric, MetricError, Scorer, Spec, parse_metric
from streammetrics.metrics.names import WHOLE_LIST_NAMES
from streammetrics.offline.evaluation.frames import from_wide_frame
from tests.support.tables import for_each

SCORER = Scorer(["ndcg@10", "map@5"], items_max=50, grade_max=7)
TABLE = Scorer(["ndcg@10"], Spec(gain=(0, 1, 3)))


@for_each(ALL_METRIC_NAMES)
def test_printing_a_parsed_metric_gives_its_name(name: str) -> None:
    if name in WHOLE_LIST_NAMES:
        assert str(parse_metric(name)) == name
    for k in (1, 10, 1_000_000) if name != "r_precision" else ():
        assert str(parse_metric(f"{name}@{k}")) == f"{name}@{k}"
        assert parse_metric(f"{name}@{k}") == Metric(name, k)


@for_each(["", "ndcg@", "@10", "ndcg@0", "ndcg@-1", "ndcg@05", "ndcg@1.5", "ndcg@10 ", "ndcg @10", "ndcg@10@5", "ndcg@\u0661"])
def test_invalid_metric_names_are_rejected(text: str) -> None:
    with pytest.raises(MetricError, match=re.escape(f"metric: got {text!r}; allowed is <name> or <name>@<k>")):
        parse_metric(text)


@for_each([("nDCG@5", "ndcg"), ("HitRate@5", "hit_rate"), ("recal@5", "recall"), ("r-precision", "r_precision"), ("ndgc@5", "ndcg")])
def test_a_name_that_is_nearly_one_is_rejected_with_it(case: tuple[str, str]) -> None:
    text, meant = case
    with pytest.raises(MetricError, match=re.escape(f"got {text.partition('@')[0]!r}, perhaps for {meant!r}; allowed are ndcg, ")):
        parse_metric(text)


@for_each(["map_cut_100", "P_10", "recall_at_5", "AP@10", "success@1"])
def test_names_of_other_tools_are_rejected_because_their_definitions_differ(text: str) -> None:
    with pytest.raises(MetricError, match="metric name: got "):
        parse_metric(text)


@pytest.mark.parametrize("name", ["precision", "recall", "f1", "hit_rate", "item_hit_rate"])
def test_a_missing_cutoff_is_rejected(name: str) -> None:
    with pytest.raises(MetricError, match=re.escape(f"cut-off of {name}: got none; allowed are whole numbers 1..1000000, as in {name}@10")):
        parse_metric(name)


def test_a_scorer_rejects_what_needs_more_than_grades() -> None:
    with pytest.raises(MetricError, match=re.escape("metric: got satisfied_rate, which needs more than grades; allowed are ndcg")):
        Scorer(["satisfied_rate"])


def test_a_superfluous_cutoff_is_rejected() -> None:
    with pytest.raises(MetricError, match="cut-off of r_precision: got 10; allowed is none"):
        parse_metric("r_precision@10")


def test_a_cutoff_that_is_too_large_is_rejected() -> None:
    with pytest.raises(MetricError, match=re.escape("cut-off of ndcg: got 1000001; allowed are whole numbers 1..1000000")):
        parse_metric("ndcg@1000001")


@pytest.mark.parametrize(("name", "k"), [("ndcg", True), ("ndcg", 1.0), ("ndcg", -1), ("ndcg", None), ("gain", 1)])
def test_a_metric_is_checked_when_constructed(name: str, k: int) -> None:
    with pytest.raises(MetricError):
        Metric(name, k)


@for_each(
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
        (lambda s: s.score_list([0, -1]), "grade: got -1"),
        (lambda s: s.score_list([0, math.nan]), "grade: got nan"),
        (lambda s: s.score_list([None]), "grade: got None"),
        (lambda s: s.score_list([0] * 51), "length: got 51"),
        (lambda s: s.score_ragged([1], [0, 1], unseen=[1]), "unseen: got list; allowed is a tuple of two arrays"),
        (lambda s: s.score_ragged([1], [0, 1], unseen=([0], [1, 2])), "unseen: got 1 rows, 2 grades"),
        (lambda s: s.score_ragged([1], [0, 1], unseen=([0, 1], [1, 2])), "unseen row: got 1 at index 1; allowed are 0..0"),
        (lambda s: s.score_hits([5], [0], [0], [1], unseen=([0], [math.nan])), "grade: got nan at list 0, never shown"),
        (lambda s: s.score_ragged([1], [0, 1], unseen=([0] * 50, [1] * 50)), "unseen: got 51 graded items at list 0, with those shown"),
        (lambda s: s.score_list([1], [math.inf]), "grade: got inf"),
        (lambda s: s.score_list([0], [8]), "grade: got 8"),
        (lambda s: s.score_list([1], [1] * 50), "unseen: got 51 graded items"),
        (lambda s: s.score_list([1], {1}), "unseen: got set; allowed is a sequence"),
        (lambda s: s.score_list({1, 2}), "grades: got set; allowed is a sequence"),
        (lambda s: s.score_list({0: 1}), "grades: got dict; allowed is a sequence"),
        (lambda s: s.score_list(np.float64(1)), "grades: got float64; allowed is a sequence"),
        (lambda s: s.score_ragged([0] * 51, [0, 51]), "length: got 51 at list 0"),
        (lambda s: s.score_ragged(np.array([1, 200], dtype=np.uint8), [0, 1, 2]), "grade: got 200 at list 1, position 0"),
        (lambda s: s.score_ragged([1, 2.5, -0.5], [0, 0, 3, 3]), "grade: got -0.5 at list 1, position 2"),
        (
            lambda s: TABLE.score_ragged([1, 0.5], [0, 1, 2]),
            "grade: got 0.5 at list 1, position 0; allowed are whole numbers 0..2, because",
        ),
        (lambda s: TABLE.score_ragged([3], [0, 1]), "grade: got 3 at list 0, position 0; allowed are finite numbers 0..2"),
        (lambda s: TABLE.score_list([0, 1.5]), "grade: got 1.5; allowed are whole numbers 0..2, because gains are a table"),
        (lambda s: s.score_list([[1]]), "grade: got [1]; allowed are finite numbers 0..7"),
        (lambda s: s.score_list("12"), "grade: got '1'"),
        (lambda s: s.score_ragged(np.ma.array([1, 2], mask=[0, 1]), [0, 2]), "grades: got a masked array"),
        (lambda s: s.score_ragged([1], np.array([0, 1 << 63], dtype=np.uint64)), "offsets: got 9223372036854775808 at index 1"),
        (lambda s: s.score_ragged(np.array([1j]), [0, 1]), "grades: got dtype complex128; allowed are real numbers"),
        (lambda s: s.score_ragged([None], [0, 1]), "grades: got dtype object; allowed are real numbers"),
        (lambda s: s.values([1]), "row: got 1 columns; allowed are 2"),
    ]
)
def test_invalid_input_is_rejected_with_its_place(case: tuple[Callable[[Scorer], object], str]) -> None:
    call, message = case
    with pytest.raises(MetricError, match=re.escape(message)):
        call(SCORER)


@for_each(
    [
        (lambda: Scorer([]), "metrics: got none"),
        (lambda: Scorer("ndcg@5"), "metrics: got 'ndcg@5'; allowed is a sequence"),
        (lambda: Scorer(["ndcg@5", Metric("ndcg", 5)]), "metrics: got ndcg@5 twice"),
        (lambda: Scorer(["ndcg@5"], items_max=0), "items_max: got 0"),
        (lambda: Scorer(["ndcg@5"], items_max=5_000_000), "items_max: got 5000000; allowed are whole numbers 1..4194304"),
        (lambda: Scorer(["ndcg@5"], grade_max=0), "grade_max: got 0;"),
        (lambda: Scorer(["ndcg@5"], grade_max=math.nan), "grade_max: got nan"),
        (lambda: Scorer(["ndcg_exp@10"], grade_max=16), "allowed at cut-off 10 are 0 < grade_max <= 15"),
        (lambda: Scorer(["err@5"], grade_max=5), "allowed at cut-off 5 are 0 < grade_max <= 4.0"),
        (lambda: Scorer(["map"], Spec(ap_denominator="k")), "metric: got map with spec field ap_denominator 'k'"),
        (lambda: Scorer(["ndcg@5"], Spec(ideal="full", gain=(0, 2))), "spec field gain: got (0.0, 2.0) with ideal 'full'"),
        (lambda: Scorer(["ndcg"], Spec(ideal="full")), "metric: got ndcg with spec field ideal 'full'"),
        (lambda: Scorer(["dcg@5"], Spec(gain=(0, 2e6), discount=(0.001,))), "cut-off: got 5; at this depth not even grade 1"),
        (lambda: Scorer(["map@5"], items_max=1 << 21).score_list([0] * (1 << 21 | 1)), "length: got 2097153"),
        (lambda: Spec(gain="cubic"), "spec field gain: got 'cubic'; allowed are linear, exp2, binary, or a table"),  # type: ignore[arg-type]
        (lambda: Spec(gain=3), "spec field gain: got 3;"),  # type: ignore[arg-type]
        (lambda: Spec(gain=()), "spec field gain: got a table of 0 numbers; allowed are 1..65536"),
        (lambda: Spec(gain=(1, 2)), "spec field gain: got 1.0 at index 0 of the table; allowed are 0 at its start"),
        (lambda: Spec(gain=(0, math.nan)), "spec field gain: got nan at index 1 of the table"),
        (lambda: Spec(gain=(0, -1)), "spec field gain: got -1 at index 1 of the table; allowed are finite numbers >= 0"),
        (lambda: Spec(gain=(0, 1e300)), "spec field gain: got 1e+300 at index 1 of the table; allowed are gains up to 2.09715e+06"),
        (lambda: Spec(discount=(0, 1)), "spec field discount: got 0.0 at index 0 of the table; allowed are divisors >= 1.52588e-05"),
        (lambda: Spec(discount=(1, 2, 1)), "spec field discount: got 1.0 at index 2 of the table; allowed are divisors that never fall"),
        (lambda: Spec(ideal="best"), "spec field ideal: got 'best'; allowed are all, shown, first_k, full"),  # type: ignore[arg-type]
        (lambda: Spec(no_relevant=0), "spec field no_relevant: got 0; allowed are zero, skip, one"),  # type: ignore[arg-type]
        (lambda: Spec(ap_denominator="n"), "spec field ap_denominator: got 'n'; allowed are min(R,k), R, k, hits"),  # type: ignore[arg-type]
        (lambda: Spec(rbp_persistence=1), "spec field rbp_persistence: got 1; allowed are 0 < p < 1"),
        (lambda: Spec(err_grade_max=21), "spec field err_grade_max: got 21; allowed are 0 < grade <= 20"),
        (lambda: Spec(discount="none"), "spec field discount: got 'none'"),  # type: ignore[arg-type]
        (lambda: Spec(relevance_threshold=0), "spec field relevance_threshold: got 0; allowed are finite numbers > 0"),
        (lambda: Spec(relevance_threshold=math.nan), "spec field relevance_threshold: got nan"),
    ]
)
def test_invalid_requests_are_rejected(case: tuple[Callable[[], object], str]) -> None:
    make, message = case
    with pytest.raises(MetricError, match=re.escape(message)):
        make()


def test_an_error_separates_its_subject_from_the_rule() -> None:
    with pytest.raises(MetricError) as caught:
        from_wide_frame({"first: best": ["x"]}, ["first: best"])
    assert caught.value.subject == "column 'first: best'"
    assert str(caught.value) == f"column 'first: best': {caught.value.rule}"


def test_an_error_survives_pickling() -> None:
    with pytest.raises(MetricError) as caught:
        Spec(relevance_threshold=0)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.subject, again.rule) == (str(caught.value), caught.value.subject, caught.value.rule)
    assert again.subject == "spec field relevance_threshold"


def test_errors_are_value_errors_and_streammetrics_errors() -> None:
    assert issubclass(MetricError, ValueError)
    assert issubclass(MetricError, StreammetricsError)


def test_an_invalid_grade_is_rejected_every_time() -> None:
    for _ in range(2):
        with pytest.raises(MetricError, match="grade: got 8"):
            SCORER.score_list([8])
