"""Conventions that are options of the readers instead of the Spec: ties, missing lists, negative grades."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from streammetrics.metrics.presets import preset
from streammetrics.offline.evaluation.evaluate import evaluate
from streammetrics.offline.evaluation.grades import from_padded
from streammetrics.offline.evaluation.item_ids import from_run
from tests.metrics.golden.answers import ask
from tests.metrics.golden.cases import CUTOFFS, Case, graded

EQUAL = 1e-12


def _tied(count: int, score: Any) -> list[Case]:
    """Random lists of 2..20 items with shuffled ids and scores drawn by `score`."""
    draw = random.Random(2008)
    cases = []
    for _ in range(count):
        length = draw.randint(2, 20)
        case = graded([draw.choice((0, 0, 1, 2, 3)) for _ in range(length)], names=draw)
        cases.append(Case(case.items, case.grades, tuple(sorted((score(draw) for _ in range(length)), reverse=True))))
    return cases


def _run(cases: Sequence[Case]) -> tuple[dict[int, dict[str, float]], dict[int, Any]]:
    run = {at: dict(zip(case.items, case.scores, strict=True)) for at, case in enumerate(cases)}
    return run, {at: case.grades for at, case in enumerate(cases)}


def test_ties_are_ordered_as_in_trec_eval() -> None:
    cases = _tied(300, lambda draw: draw.randint(1, 4))
    values = ask("trec_eval", cases)
    names = [*(f"{name}@{k}" for name in ("ndcg", "map", "precision") for k in CUTOFFS), "mrr"]
    by_order, by_rule = (evaluate(from_run(*_run(cases), ties=ties), names, preset("trec_eval")) for ties in ("order", "trec_eval"))
    for name in names:
        assert np.abs(by_rule.values(name) - np.array(values[name])).max() <= EQUAL
    assert np.abs(by_order.values("mrr") - np.array(values["mrr"])).max() > 0.01


def test_ranx_keeps_the_order_of_ties_in_short_lists_only() -> None:
    cases = _tied(300, lambda draw: draw.randint(1, 4))
    values = ask("ranx", cases)
    result = evaluate(from_run(*_run(cases), ties="order"), ["mrr@10", "ndcg@5"], preset("ranx"))
    short = np.array([len(case.items) <= 15 for case in cases])
    for name in ("mrr@10", "ndcg@5"):
        assert np.abs(result.values(name) - np.array(values[name]))[short].max() <= EQUAL
    assert np.abs(result.values("ndcg@5") - np.array(values["ndcg@5"]))[~short].max() > 0.01


def test_padded_matrices_with_scores_give_the_values_of_scikit_learn() -> None:
    draw = np.random.default_rng(11)
    grades, scores = draw.integers(0, 4, (40, 12)), draw.random((40, 12))
    cases = []
    for row, column in zip(grades, scores, strict=True):
        order = np.argsort(-column)
        case = graded(row[order].tolist())
        cases.append(Case(case.items, case.grades, tuple(column[order].tolist())))
    result = evaluate(from_padded(grades, scores=scores), ["ndcg@10"], preset("sklearn"))
    assert np.abs(result.values("ndcg@10") - np.array(ask("sklearn", cases)["ndcg@10"])).max() <= EQUAL


def test_negative_grades_are_treated_as_in_each_library() -> None:
    cases = [graded([1, -1, 2]), graded([-3, 0, 1])]
    zero = evaluate(from_run(*_run(cases), negative="zero"), ["ndcg@5", "map@5"], preset("trec_eval"))
    for library in ("trec_eval", "ranx"):
        values = ask(library, cases)
        for name in ("ndcg@5", "map@5"):
            assert np.abs(zero.values(name) - np.array(values[name])).max() <= EQUAL
    assert ask("sklearn", cases)["ndcg@5"] == ["ValueError", "ValueError"]
    for library, measure in (("lenskit", "ndcg@5 graded"), ("torchmetrics", "ndcg@5 in doubles")):
        first, second = ask(library, cases)[measure]
        assert first < zero.values("ndcg@5")[0] - 0.05
        assert second > 1
