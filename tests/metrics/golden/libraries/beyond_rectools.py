"""RecTools' metrics beside accuracy. Earlier interactions are the graded items of all lists, with the list as user."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from rectools import Columns
from rectools.metrics import AvgRecPopularity, IntraListDiversity, MeanInvUserFreq, PairwiseHammingDistanceCalculator

from tests.metrics.golden.libraries.asking import JudgedList, Values


def attributes_of(item: str) -> tuple[int, int, int]:
    """Three attributes of an item, made from its id."""
    number = int(item[1:])
    return number % 2, number % 3, number % 5


def measure(lists: Sequence[JudgedList], cutoffs: Sequence[int]) -> Values:
    rows = [(at, item, rank) for at, judged in enumerate(lists) for rank, item in enumerate(judged.items, 1)]
    used = [(at, item) for at, judged in enumerate(lists) for item, grade in judged.grades.items() if grade > 0]
    items = sorted({item for _, item, _ in rows} | {item for _, item in used})
    reco = pd.DataFrame(rows, columns=[Columns.User, Columns.Item, Columns.Rank])
    earlier = pd.DataFrame(used, columns=[Columns.User, Columns.Item])
    distances = PairwiseHammingDistanceCalculator(pd.DataFrame([attributes_of(item) for item in items], index=items))
    values: Values = {}
    for k in cutoffs:
        metric_by_name = {
            f"diversity@{k}": IntraListDiversity(k, distances).calc_per_user(reco),
            f"novelty@{k}": MeanInvUserFreq(k).calc_per_user(reco, earlier),
            f"popularity_share@{k}": AvgRecPopularity(k, normalize=True).calc_per_user(reco, earlier),
        }
        for name, series in metric_by_name.items():
            by_list = series.to_dict()
            values[name] = [float(by_list.get(at, math.nan)) for at in range(len(lists))]
    return values
