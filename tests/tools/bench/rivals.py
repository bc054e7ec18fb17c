"""The same lists in the shapes other libraries take, and a call of each that gives their means. Imported only if installed.

A rival's inputs are built before the clock runs: what is timed is its evaluation alone.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Means = dict[str, float]


@dataclass(frozen=True)
class Lists:
    """Ranked lists of grades 0..3, one after the other."""

    flat: np.ndarray
    offsets: np.ndarray

    @property
    def count(self) -> int:
        return self.offsets.size - 1

    def first(self, count: int) -> Lists:
        return Lists(self.flat[: self.offsets[count]], self.offsets[: count + 1])

    def graded_only(self) -> Lists:
        """Those lists that have a grade > 0."""
        rows = [row for row in self.rows() if row.any()]
        return Lists(np.concatenate(rows), np.cumsum([0, *map(len, rows)]))

    def rows(self) -> list[np.ndarray]:
        return np.split(self.flat, self.offsets[1:-1])


def made(count: int, seed: int = 1) -> Lists:
    """Lists of 10 to 50 items, of which about a fifth have a grade."""
    chance = np.random.default_rng(seed)
    offsets = np.cumsum([0, *chance.integers(10, 51, count)])
    return Lists(chance.choice(np.arange(4, dtype=np.uint8), offsets[-1], p=[0.8, 0.12, 0.05, 0.03]), offsets)


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def ranx_kernels(lists: Lists) -> Callable[[], Means]:
    """ranx's compiled kernels on numba's threads, as its `evaluate` calls them, without its conversions."""
    from numba.typed import List  # noqa: PLC0415
    from ranx.metrics import hit_rate, ndcg, reciprocal_rank  # noqa: PLC0415

    qrels, runs = List(), List()
    for row in lists.rows():
        ids = np.arange(row.size, dtype=np.float64)
        order = np.argsort(-row.astype(np.int64), kind="stable")[: np.count_nonzero(row)]
        qrels.append(np.stack([ids[order], row[order].astype(np.float64)], axis=1))
        runs.append(np.stack([ids, -ids], axis=1))

    def evaluate() -> Means:
        values = ndcg(qrels, runs, 10, 1), reciprocal_rank(qrels, runs, 10, 1), hit_rate(qrels, runs, 10, 1)
        return {name: float(np.mean(scores)) for name, scores in zip(("ndcg@10", "mrr@10", "hit_rate@10"), values, strict=True)}

    return evaluate


def dicts(lists: Lists) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """A run and judgments as dicts, with the items of a list in no order."""
    chance = np.random.default_rng(3)
    runs, qrels = {}, {}
    for at, row in enumerate(lists.rows()):
        runs[str(at)] = {str(item): float(row.size - item) for item in chance.permutation(row.size).tolist()}
        qrels[str(at)] = {str(item): int(grade) for item, grade in enumerate(row)}
    return runs, qrels


def pytrec_eval_from_dicts(lists: Lists) -> Callable[[], Means]:
    """pytrec_eval with the reading of its judgments. Its reciprocal rank has no cut-off, so the mean is not compared."""
    import pytrec_eval as library  # noqa: PLC0415

    runs, qrels = dicts(lists)

    def evaluate() -> Means:
        queries = library.RelevanceEvaluator(qrels, {"ndcg_cut.10", "success.10", "recip_rank"}).evaluate(runs).values()
        names = {"ndcg_cut_10": "ndcg@10", "success_10": "hit_rate@10"}
        return {ours: float(np.mean([values[name] for values in queries])) for name, ours in names.items()}

    return evaluate


def pytrec_eval(lists: Lists, many: bool) -> Callable[[], Means]:
    """pytrec_eval on dicts that are there already; many: all of its measures that have our 24 values, and no others."""
    import pytrec_eval as library  # noqa: PLC0415

    runs, qrels = dicts(lists)
    names = (
        {"ndcg_cut": "ndcg", "map_cut": "map", "P": "precision", "recall": "recall", "success": "hit_rate"}
        if many
        else {
            "ndcg_cut": "ndcg",
            "success": "hit_rate",
        }
    )
    ks = (5, 10, 20) if many else (10,)
    measures = {f"{name}.{','.join(map(str, ks))}" for name in names} | {"recip_rank"}
    evaluator = library.RelevanceEvaluator(qrels, measures)
    labels = {f"{name}_{k}": f"{ours}@{k}" for name, ours in names.items() if name != "map_cut" for k in ks} | {"recip_rank": "mrr"}

    def evaluate() -> Means:
        values_by_query = evaluator.evaluate(runs)
        return {ours: float(np.mean([values[name] for values in values_by_query.values()])) for name, ours in labels.items()}

    return evaluate


def sklearn_ndcg(lists: Lists) -> Callable[[], Means]:
    """scikit-learn's ndcg_score on padded matrices, ties ignored."""
    from sklearn.metrics import ndcg_score  # noqa: PLC0415

    rows = lists.rows()
    width = max(map(len, rows))
    truth = np.zeros((len(rows), width))
    for at, row in enumerate(rows):
        truth[at, : row.size] = row
    scores = np.tile(np.arange(width, 0, -1, dtype=np.float64), (len(rows), 1))
    return lambda: {"ndcg@10": float(ndcg_score(truth, scores, k=10, ignore_ties=True))}


def rectools(lists: Lists) -> Callable[[], Means]:
    """RecTools' calc_metrics on frames that are there already; relevance is yes or no."""
    import pandas  # noqa: PLC0415
    from rectools.metrics import MRR, NDCG, HitRate, calc_metrics  # noqa: PLC0415

    users = np.repeat(np.arange(lists.count), np.diff(lists.offsets))
    items = np.arange(lists.flat.size) - lists.offsets[users]
    frame = pandas.DataFrame({"user_id": users, "item_id": items, "rank": items + 1})
    liked = frame[lists.flat > 0][["user_id", "item_id"]]
    metrics = {"ndcg@10": NDCG(k=10), "mrr@10": MRR(k=10), "hit_rate@10": HitRate(k=10)}

    def evaluate() -> Means:
        return {name: float(value) for name, value in calc_metrics(metrics, reco=frame, interactions=liked).items()}

    return evaluate
