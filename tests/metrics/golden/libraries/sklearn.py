"""ndcg_score and dcg_score of scikit-learn. Every label needs a score, so unseen items cannot be passed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sklearn.metrics import dcg_score, ndcg_score

from tests.metrics.golden.libraries.asking import JudgedList, Values, each


def measure(lists: Sequence[JudgedList], cutoffs: Sequence[int]) -> Values:
    values = {}
    for k in cutoffs:
        values[f"ndcg@{k}"] = each(lists, partial(_ask, ndcg_score, k=k))
        values[f"ndcg@{k} ignore_ties"] = each(lists, partial(_ask, ndcg_score, k=k, ignore_ties=True))
        values[f"dcg@{k}"] = each(lists, partial(_ask, dcg_score, k=k))
    return values


def _ask(score: Callable[..., float], judged: JudgedList, **options: Any) -> float:
    return score([judged.grades_shown], [judged.scores], **options)
