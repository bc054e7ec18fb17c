"""Evaluations against brute force and statsmodels, and lists that define no metric."""

from __future__ import annotations

import math
import re
import statistics
import sys
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import MetricError, Scorer, Spec
from streammetrics.offline.evaluation.evaluate import Evaluation, evaluate
from streammetrics.offline.evaluation.grades import from_grades, from_padded, from_ragged
from streammetrics.offline.evaluation.item_ids import from_lists, from_run
from tests.support.tables import for_each

NAMES = ["ndcg@5", "mrr@5", "map@5", "dcg@5", "precision@3", "recall@3", "item_hit_rate@3", "hit_rate@1"]

grades = st.lists(st.lists(st.sampled_from([0, 0, 1, 2, 0.5]), max_size=6), max_size=8)


@given(grades)
def test_values_equal_those_of_the_scorer(lists: list[list[float]]) -> None:
    result = evaluate(from_grades(lists), NAMES)
    scorer = Scorer(NAMES)
    by_list = [scorer.values(scorer.score_list(one)) for one in lists]
    for name in NAMES:
        expected = [values.get(name, math.nan) for values in by_list]
        assert result.values(name).tolist() == pytest.approx(expected, abs=0, nan_ok=True)
        if name != "item_hit_rate@3":
            mean = statistics.fmean(expected) if expected else math.nan
            assert result.means[name] == pytest.approx(mean, rel=1e-15, nan_ok=True)


@given(grades)
def test_item_hit_rate_is_a_ratio_of_sums(lists: list[list[float]]) -> None:
    places = sum(len(one[:3]) for one in lists)
    hits = sum(grade >= 1 for one in lists for grade in one[:3])
    assert evaluate(from_grades(lists), NAMES).means["item_hit_rate@3"] == pytest.approx(hits / places if places else math.nan, nan_ok=True)


def test_unseen_items_count_as_missed() -> None:
    seen = evaluate(from_lists([["a", "b"]], [{"b": 2}]), ["recall@5", "ndcg@5", "map", "ndcg"])
    missed = evaluate(from_lists([["a", "b"]], [{"b": 2, "c": 1, "d": 3}]), ["recall@5", "ndcg@5", "map", "ndcg"])
    assert seen.means["recall@5"] == 1
    assert missed.means["recall@5"] == pytest.approx(1 / 3)
    ideal = 3 + 2 / math.log2(3) + 1 / 2
    assert missed.means["ndcg@5"] == missed.means["ndcg"] == pytest.approx(2 / math.log2(3) / ideal)
    assert missed.means["map"] == pytest.approx(1 / 2 / 3)


@pytest.mark.parametrize(
    ("policy", "mean", "counted"),
    [("zero", (1 + 1 / 2 + 0 + 0) / 4, 4), ("one", (1 + 1 / 2 + 1 + 1) / 4, 4), ("skip", (1 + 1 / 2) / 2, 2)],
)
def test_a_list_without_relevant_items_counts_as_configured(policy: Any, mean: float, counted: int) -> None:
    result = evaluate(from_grades([[1], [0, 1], [0, 0.5], []]), ["mrr@5", "dcg@5"], Spec(no_relevant=policy))
    assert result.means["mrr@5"] == mean
    assert result.counts == {"mrr@5": counted, "dcg@5": 4}
    assert result.lists_without_relevant == 2
    assert np.isnan(result.values("mrr@5")).sum() == 4 - counted


def test_lists_without_relevant_items_have_no_mean() -> None:
    result = evaluate(from_grades([[0], []]), ["mrr@5"], Spec(no_relevant="skip"))
    assert math.isnan(result.means["mrr@5"])
    assert math.isnan(result.standard_errors["mrr@5"])
    assert result.counts == {"mrr@5": 0}


def test_no_lists_have_no_mean() -> None:
    result = evaluate(from_grades([]), NAMES)
    assert all(math.isnan(value) for value in [*result.means.values(), *result.standard_errors.values()])


def sample(seed: int, users: int | None) -> Evaluation:
    chance = np.random.default_rng(seed)
    lists = 400
    liking = chance.random(50)
    owners = chance.integers(0, 50, lists)
    items = chance.integers(0, 8, lists)
    graded = (chance.random((lists, 8)) < liking[owners, None] * 0.6) * chance.integers(1, 4, (lists, 8))
    judged = from_padded(graded, lengths=items, users=owners.tolist() if users else None)
    return evaluate(judged, NAMES, Spec(no_relevant="skip"))


@for_each(product([None, 50], NAMES))
def test_standard_errors_equal_those_of_statsmodels(case: tuple[int | None, str]) -> None:
    """A regression on a constant with clustered errors, weighted by places if the metric is a ratio of sums."""
    users, name = case
    from statsmodels.regression.linear_model import WLS  # noqa: PLC0415 (takes seconds: not in every process that collects tests)

    result = sample(7, users)
    counted = result.counted(name)
    above, below = (part[counted].astype(float) for part in result.parts(name))
    groups = np.array(result.users if users else range(len(result)))[counted]
    fitted = WLS(above / below, np.ones(above.size), weights=below).fit(cov_type="cluster", cov_kwds={"groups": groups})
    assert result.means[name] == pytest.approx(float(fitted.params[0]), rel=1e-12)
    assert result.standard_errors[name] == pytest.approx(float(fitted.bse[0]), rel=1e-9)


def test_correlated_lists_of_users_increase_the_standard_error() -> None:
    lists = [[1]] * 10 + [[0]] * 10
    alike = evaluate(
        from_ragged([grade for one in lists for grade in one], range(21), users=[number // 5 for number in range(20)]), ["mrr@1"]
    )
    apart = evaluate(from_grades(lists), ["mrr@1"])
    assert alike.standard_errors["mrr@1"] > 2 * apart.standard_errors["mrr@1"]


def test_one_cluster_has_no_standard_error() -> None:
    assert math.isnan(evaluate(from_grades([[1], [0]], users=["u", "u"]), ["mrr@1"]).standard_errors["mrr@1"])
    assert math.isnan(evaluate(from_grades([[1]]), ["mrr@1"]).standard_errors["mrr@1"])


def test_the_frame_works_with_pandas_and_polars() -> None:
    frame = evaluate(from_run({"q1": {"a": 1}, "q2": {"a": 1}}, {"q1": {"a": 1}, "q2": {}}, users=["u", "v"]), ["mrr@5", "dcg@5"]).frame()
    for made in (pd.DataFrame(frame), pl.DataFrame(frame)):
        assert list(made.columns) == ["list_id", "user", "mrr@5", "dcg@5"]
        assert made["list_id"].to_list() == ["q1", "q2"]
        assert made["mrr@5"].to_list() == [1.0, 0.0]


@pytest.mark.parametrize("where", ["shown", "unseen"])
def test_the_error_for_a_grade_that_is_too_large_names_the_list(where: str) -> None:
    judged = from_run({"p": {"a": 1}, "q": {"a": 1}}, {"p": {"a": 1}, "q": {"a" if where == "shown" else "z": 500}})
    with pytest.raises(MetricError, match=re.escape("grade: got 500 in list 'q'; allowed for these metrics are 0..")):
        evaluate(judged, ["ndcg_exp@10"])


def test_a_metric_that_was_not_evaluated_is_rejected() -> None:
    with pytest.raises(MetricError, match=re.escape("metric: got ndcg@7; allowed are those evaluated: mrr@5")):
        evaluate(from_grades([[1]]), ["mrr@5"]).values("ndcg@7")


def test_the_error_for_unjudged_lists_names_the_functions_to_use() -> None:
    run: Any = {"q": {"d": 1.0}}
    with pytest.raises(MetricError, match=re.escape("judged: got dict; allowed is what from_run, from_lists, from_grades")):
        evaluate(run, ["ndcg@10"])


def test_results_show_themselves_shortly_and_become_frames() -> None:
    result = evaluate(from_grades([[0, 1], [0, 0]], users=["a", "a"]), ["ndcg@5", "cg"])
    assert repr(result) == (
        "2 lists of 1 user, 1 without a relevant item\n"
        "metric  mean    standard_error  lists\n"
        "ndcg@5  0.3155  -               2\n"
        "cg      0.5000  -               2"
    )
    assert "<td>0.3155</td>" in result._repr_html_()
    for frame in (result.to_pandas(), result.to_polars(), result.to_arrow().to_pandas(), pl.DataFrame(result)):
        assert list(frame["ndcg@5"]) == result.values("ndcg@5").tolist()
        assert list(frame["user"]) == ["a", "a"]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MetricError, match="to_polars: got no polars; allowed is an environment with it: pip install polars"):
        evaluate(from_grades([[1]]), ["mrr@1"]).to_polars()


def test_a_run_in_the_place_of_judged_lists_is_named() -> None:
    with pytest.raises(MetricError, match="judged: got dict; allowed is what from_run"):
        evaluate({"q1": {"d1": 2.5}}, {"q1": {"d1": 1}})  # type: ignore[arg-type]
    with pytest.raises(MetricError, match="run: got list; allowed is a mapping"):
        from_run([1], {"q1": {"d1": 1}})  # type: ignore[arg-type]
