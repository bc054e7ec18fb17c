"""ranx, through `evaluate` on Qrels and Run, with its compiled kernels."""

from __future__ import annotations

from collections.abc import Sequence

from ranx import Qrels, Run, evaluate

from tests.metrics.golden.libraries.asking import JudgedList, Values

AT_CUTOFF = {
    "ndcg": "ndcg",
    "ndcg_burges": "ndcg_burges",
    "dcg": "dcg",
    "dcg_burges": "dcg_burges",
    "map": "map",
    "mrr": "mrr",
    "precision": "precision",
    "recall": "recall",
    "hit_rate": "hit_rate",
    "f1": "f1",
}
WHOLE = {"r_precision": "r-precision", "rbp": "rbp.80", "rbp 90": "rbp.90"}
LEVEL_TWO = {"ndcg": "ndcg", "precision": "precision", "map": "map"}


def measure(lists: Sequence[JudgedList], cutoffs: Sequence[int]) -> Values:
    names = {f"{ours}@{k}": f"{theirs}@{k}" for ours, theirs in AT_CUTOFF.items() for k in cutoffs} | WHOLE
    names |= {f"{ours}@{k} level 2": f"{theirs}@{k}-l2" for ours, theirs in LEVEL_TWO.items() for k in cutoffs}
    ids = [f"{at:06d}" for at in range(len(lists))]  # ranx sorts its results by id as text
    qrels = Qrels({at: {item: int(grade) for item, grade in judged.grades.items()} for at, judged in zip(ids, lists, strict=True)})
    run = Run({at: judged.scored for at, judged in zip(ids, lists, strict=True)})
    values = evaluate(qrels, run, list(names.values()), return_mean=False)
    return {ours: [float(value) for value in values[theirs]] for ours, theirs in names.items()}
