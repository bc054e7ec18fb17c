"""The ranking metrics of RecTools. Every item with a grade above 0 is an interaction; RecTools has no grades."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from rectools import Columns
from rectools.metrics import MAP, MRR, NDCG, HitRate, Precision, Recall
from rectools.metrics.classification import F1Beta

from tests.metrics.golden.libraries.asking import JudgedList, Values


def measure(lists: Sequence[JudgedList], cutoffs: Sequence[int]) -> Values:
    rows = [(at, item, rank) for at, judged in enumerate(lists) for rank, item in enumerate(judged.items, 1)]
    liked = [(at, item) for at, judged in enumerate(lists) for item, grade in judged.grades.items() if grade > 0]
    reco = pd.DataFrame(rows, columns=[Columns.User, Columns.Item, Columns.Rank])
    interactions = pd.DataFrame(liked, columns=[Columns.User, Columns.Item])
    metrics = {}
    for k in cutoffs:
        metrics[f"ndcg@{k}"] = NDCG(k)
        metrics[f"ndcg@{k} achievable"] = NDCG(k, divide_by_achievable=True)
        metrics[f"map@{k}"] = MAP(k)
        metrics[f"map@{k} divide_by_k"] = MAP(k, divide_by_k=True)
        metrics[f"mrr@{k}"] = MRR(k)
        metrics[f"precision@{k}"] = Precision(k)
        metrics[f"precision@{k} r_precision"] = Precision(k, r_precision=True)
        metrics[f"recall@{k}"] = Recall(k)
        metrics[f"hit_rate@{k}"] = HitRate(k)
        metrics[f"f1@{k}"] = F1Beta(k)
    values: Values = {}
    for name, metric in metrics.items():
        value_by_user = metric.calc_per_user(reco, interactions).to_dict()
        values[name] = [value_by_user.get(at, math.nan) for at in range(len(lists))]
    return values
