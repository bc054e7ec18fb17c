"""The list metrics of LensKit, one list at a time. Judged items are its test items, with the grade in the field `rating`."""

from __future__ import annotations

from collections.abc import Sequence

from lenskit.data import ItemList
from lenskit.metrics import ListMetric
from lenskit.metrics.ranking import DCG, NDCG, RBP, AveragePrecision, Hit, Precision, Recall, RecipRank

from tests.metrics.golden.libraries.asking import JudgedList, Value, Values

AT_CUTOFF = {
    "precision": Precision,
    "recall": Recall,
    "map": AveragePrecision,
    "mrr": RecipRank,
    "hit_rate": Hit,
    "rbp": RBP,
}
GAINED = {"ndcg": NDCG, "dcg": DCG}


def measure(lists: Sequence[JudgedList], cutoffs: Sequence[int]) -> Values:
    metrics = {f"{name}@{k}": metric(k) for name, metric in AT_CUTOFF.items() for k in cutoffs}
    metrics |= {f"{name}@{k}": metric(k) for name, metric in GAINED.items() for k in cutoffs}
    metrics |= {f"{name}@{k} graded": metric(k, gain="rating") for name, metric in GAINED.items() for k in cutoffs}
    values: Values = {name: [] for name in metrics}
    for judged in lists:
        item_list = ItemList(item_ids=list(judged.items), ordered=True)
        test = ItemList(item_ids=list(judged.grades), rating=[float(grade) for grade in judged.grades.values()])
        for name, metric in metrics.items():
            values[name].append(_asked(metric, item_list, test))
    return values


def _asked(metric: ListMetric, item_list: ItemList, test: ItemList) -> Value:
    try:
        return float(metric.measure_list(item_list, test))
    except Exception as error:
        return type(error).__name__
