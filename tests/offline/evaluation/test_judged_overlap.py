"""Ids that cannot match are an error with one id of each side; a ranking that finds nothing is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streammetrics.metrics import MetricError
from streammetrics.offline.evaluation.evaluate import evaluate
from streammetrics.offline.evaluation.frames import from_frames
from streammetrics.offline.evaluation.item_ids import from_lists, from_run
from streammetrics.offline.evaluation.judged import JudgedLists
from tests.support.tables import for_each


def frames(lists: Any, items: Any, judged_lists: Any, judged_items: Any) -> JudgedLists:
    run = pd.DataFrame({"list_id": lists, "item": items, "score": [2.0, 1.0]})
    return from_frames(run, pd.DataFrame({"list_id": judged_lists, "item": judged_items, "grade": [1.0]}), score="score")


@for_each(
    [
        (lambda: from_run({"q": {"10": 3.0, "11": 2.0}}, {"q": {11: 1}}), "'11' (str)", "11 (int)"),
        (lambda: from_run({"q": {10: 3.0}}, {"q": {"7": 1, "10": 1}}), "10 (int)", "'10' (str)"),
        (lambda: from_lists([[1, 2]], [{"2"}]), "2 (int)", "'2' (str)"),
        (lambda: from_lists([np.array([1, 2])], [np.array(["2"])]), "2 (int)", "'2' (str)"),
        (lambda: from_lists([[b"a"]], [{"a"}]), "b'a' (bytes)", "'a' (str)"),
        (lambda: from_lists([[(1, "a")]], [{"b"}]), "(1, 'a') (tuple)", "'b' (str)"),
        (lambda: frames([1, 1], ["10", "11"], [1], [11]), "'11' (str)", "11 (int)"),
        (lambda: from_run({"q": {"item_07": 3.0}}, {"q": {"7": 1}}), "'item_07' (str)", "'7' (str)"),
        (lambda: from_run({"q": {"7": 3.0}}, {"q": {"item:7": 1}}), "'7' (str)", "'item:7' (str)"),
        (lambda: from_run({"q": {"D1 ": 3.0}}, {"q": {"d1": 1}}), "'D1 ' (str)", "'d1' (str)"),
        (lambda: from_run({"q": {"7.0": 3.0}}, {"q": {"7": 1}}), "'7.0' (str)", "'7' (str)"),
    ]
)
def test_items_that_are_written_differently_are_an_error(case: tuple[Callable[[], JudgedLists], str, str]) -> None:
    read, one, other = case
    with pytest.raises(MetricError) as caught:
        read()
    assert f"item ids: got {one} in the ranking and {other} in the judgments; allowed are ids of one" in str(caught.value)


@pytest.mark.parametrize(
    ("read", "one", "other"),
    [
        (lambda: from_run({1: {"a": 1.0}}, {"1": {"a": 1}}), "1 (int)", "'1' (str)"),
        (lambda: from_run({"q1": {"a": 1.0}}, {"q2": {"a": 1}}), "'q1' (str)", "'q2' (str)"),
        (lambda: from_run({"q1": {"a": 1.0}}, {"q2": {"a": 1}}, complete=True), "'q1' (str)", "'q2' (str)"),
        (lambda: from_lists({"u1": ["a"]}, {"u2": ["a"]}), "'u1' (str)", "'u2' (str)"),
        (lambda: frames(["1", "1"], ["a", "b"], [1], ["a"]), "'1' (str)", "1 (int)"),
    ],
)
def test_rankings_and_judgments_of_different_lists_are_an_error(read: Callable[[], JudgedLists], one: str, other: str) -> None:
    with pytest.raises(MetricError) as caught:
        read()
    assert f"list ids: got {one} in the ranking and {other} in the judgments; allowed are ids" in str(caught.value)


@pytest.mark.parametrize(
    ("run", "qrels"),
    [
        ({"q": {"a": 1.0}}, {"q": {"b": 1}}),
        ({"q": {"d1": 1.0}}, {"q": {"d2": 1}}),
        ({"q": {"a": 1.0, 1: 0.5}}, {"q": {"2": 1}}),
        ({"q": {1: 1.0}}, {"q": {np.int64(2): 1}}),
        ({"q": {1: 1.0}}, {"q": {2.0: 1}}),
        ({"q": {"a": 1.0}, "r": {"a": 1.0}}, {"q": {"b": 1}, "r": {"c": 0}}),
    ],
)
def test_items_that_never_meet_are_an_error(run: Any, qrels: Any) -> None:
    with pytest.raises(MetricError, match=r"item ids: got .* in the ranking and .* in the judgments; allowed are ids that both have"):
        evaluate(from_run(run, qrels), ["mrr@10"])


@pytest.mark.parametrize(
    ("run", "qrels"),
    [
        ({"q": {"a": 1.0, "b": 0.5}}, {"q": {"b": 0, "c": 1}}),
        ({"q": {"1": 1.0}}, {"q": {"1": 0}}),
        ({"q": {}}, {"q": {1: 1}}),
        ({"q": {"a": 1.0}}, {"q": {}}),
        ({"q": {"a": 1.0}, "r": {"x": 1.0, "y": 0.5}}, {"q": {"b": 1}, "r": {"y": 0}}),
    ],
)
def test_a_ranking_that_finds_nothing_has_the_value_0(run: Any, qrels: Any) -> None:
    assert evaluate(from_run(run, qrels), ["mrr@10"]).means == {"mrr@10": 0.0}


def test_empty_sides_are_allowed() -> None:
    assert len(from_run({}, {"q": {"a": 1}})) == len(from_run({"q": {"a": 1.0}}, {})) == 0
    assert len(from_run({}, {"q": {"a": 1}}, complete=True)) == 1
