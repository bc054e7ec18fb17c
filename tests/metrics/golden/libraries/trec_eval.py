"""trec_eval through pytrec_eval-terrier, in one call for all lists. Lists without a value are missing from its result."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytrec_eval

from tests.metrics.golden.libraries.asking import JudgedList, Values

AT_CUTOFF = {"ndcg": "ndcg_cut", "map": "map_cut", "precision": "P", "recall": "recall", "hit_rate": "success"}
WHOLE = {"r_precision": "Rprec", "mrr": "recip_rank", "map": "map", "ndcg": "ndcg", "f1": "set_F"}


def measure(lists: Sequence[JudgedList], cutoffs: Sequence[int]) -> Values:
    qrels = {str(at): {item: int(grade) for item, grade in judged.grades.items()} for at, judged in enumerate(lists)}
    run = {str(at): judged.scored for at, judged in enumerate(lists)}
    measures = {f"{theirs}.{k}" for theirs in AT_CUTOFF.values() for k in cutoffs} | set(WHOLE.values())
    values = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    names = {f"{ours}@{k}": f"{theirs}_{k}" for ours, theirs in AT_CUTOFF.items() for k in cutoffs} | WHOLE
    return {ours: [values.get(str(at), {}).get(theirs, math.nan) for at in range(len(lists))] for ours, theirs in names.items()}
