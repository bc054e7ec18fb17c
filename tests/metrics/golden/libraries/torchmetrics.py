"""The retrieval functions of torchmetrics, unmodified (single precision) and run on doubles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torchmetrics.functional import retrieval

from tests.metrics.golden.libraries.asking import JudgedList, Values, each

AT_CUTOFF = {
    "ndcg": retrieval.retrieval_normalized_dcg,
    "map": retrieval.retrieval_average_precision,
    "mrr": retrieval.retrieval_reciprocal_rank,
    "precision": retrieval.retrieval_precision,
    "recall": retrieval.retrieval_recall,
    "hit_rate": retrieval.retrieval_hit_rate,
}

SINGLES_MAX = 600
"""This many lists are also measured with unmodified torchmetrics, in single precision."""


def measure(lists: Sequence[JudgedList], cutoffs: Sequence[int]) -> Values:
    torch.set_num_threads(1)
    values = _measured(lists[:SINGLES_MAX], cutoffs)
    with _doubles():
        return values | {f"{name} in doubles": column for name, column in _measured(lists, cutoffs).items()}


@contextmanager
def _doubles() -> Iterator[None]:
    """Replace single by double precision in the code of torchmetrics: its own formulas without its rounding."""
    single, to_single = torch.float32, torch.Tensor.float
    torch.set_default_dtype(torch.float64)
    torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double
    yield
    torch.float32, torch.Tensor.float = single, to_single
    torch.set_default_dtype(single)


def _measured(lists: Sequence[JudgedList], cutoffs: Sequence[int]) -> Values:
    values: Values = {"r_precision": each(lists, partial(_ask, retrieval.retrieval_r_precision, graded=False))}
    for name, metric in AT_CUTOFF.items():
        for k in cutoffs:
            values[f"{name}@{k}"] = each(lists, partial(_ask, metric, graded=name == "ndcg", top_k=k))
    for k in cutoffs:
        values[f"precision@{k} adaptive_k"] = each(lists, partial(_ask, AT_CUTOFF["precision"], graded=False, top_k=k, adaptive_k=True))
    return values


def _ask(metric: Callable[..., torch.Tensor], judged: JudgedList, graded: bool, **options: Any) -> float:
    target = torch.tensor([int(grade) if graded else int(grade >= 1) for grade in judged.grades_shown], dtype=torch.long)
    return metric(torch.tensor(judged.scores).float(), target, **options).item()
