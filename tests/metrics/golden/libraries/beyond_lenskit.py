"""LensKit's Gini coefficient of the number of lists that show each item."""

from __future__ import annotations

from collections.abc import Sequence

from lenskit.data import ItemList
from lenskit.metrics.ranking import ListGini

from tests.metrics.golden.libraries.asking import JudgedList, Values


def measure(lists: Sequence[JudgedList], cutoffs: Sequence[int]) -> Values:
    items = {item for judged in lists for item in (*judged.items, *(item for item, grade in judged.grades.items() if grade > 0))}
    values: Values = {}
    for k in cutoffs:
        metric = ListGini(k, items=len(items))
        data = [metric.compute_list_data(ItemList(item_ids=list(judged.items), ordered=True), None) for judged in lists]
        values[f"gini@{k}"] = [float(metric.global_aggregate(data))]
    return values
