"""Runs with judgments have the values of pytrec_eval, with the preset `trec_eval` and its order of ties."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import pytrec_eval
from hypothesis import assume, given
from hypothesis import strategies as st

from streammetrics.metrics.presets import preset
from streammetrics.offline.evaluation.evaluate import evaluate
from streammetrics.offline.evaluation.item_ids import from_run

Run = dict[str, dict[str, float]]
Qrels = dict[str, dict[str, int]]

AT_CUTOFF = {"ndcg": "ndcg_cut", "map": "map_cut", "precision": "P", "recall": "recall", "hit_rate": "success"}
MEASURES = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank", "r_precision": "Rprec"} | {
    f"{name}@{k}": f"{measure}_{k}" for name, measure in AT_CUTOFF.items() for k in (1, 3, 5, 10, 100)
}
"""Our name of a measure -> the name in trec_eval."""

documents = st.sampled_from([f"d{number}" for number in range(15)] + ["é", "z", "Z", "d01"])
scores = st.sampled_from([0.0, 1.0, 1.0000001, 2.0, -1.0, 1e30, 0.1, 0.1 + 1e-7])
"""pytrec_eval has version 9, which compares in single precision. No two of these are one number there."""
queries = st.sampled_from(["q1", "q2", "q10", "q3"])
runs = st.dictionaries(queries, st.dictionaries(documents, scores, min_size=1, max_size=15), min_size=1)
truths = st.dictionaries(queries, st.dictionaries(documents, st.integers(0, 4), min_size=1, max_size=10), min_size=1)


def assert_same(run: Run, truth: Qrels, *, level: int = 1) -> None:
    theirs = pytrec_eval.RelevanceEvaluator(truth, set(MEASURES.values()), level).evaluate(run)
    judged = from_run(run, truth, ties="trec_eval", negative="zero")
    result = evaluate(judged, MEASURES, replace(preset("trec_eval"), relevance_threshold=level))
    assert set(result.lists) == set(theirs)
    for name, measure in MEASURES.items():
        values = dict(zip(result.lists, result.values(name).tolist(), strict=True))
        assert values == pytest.approx({query: measured[measure] for query, measured in theirs.items()}, abs=1e-12)
        if theirs:
            mean = pytrec_eval.compute_aggregated_measure(measure, [measured[measure] for measured in theirs.values()])
            assert result.means[name] == pytest.approx(mean, abs=1e-12)


@given(runs, truths)
def test_small_runs_with_many_ties_have_the_values_of_trec_eval(run: Run, truth: Qrels) -> None:
    common = run.keys() & truth.keys()
    assume(any(run[query].keys() & truth[query].keys() for query in common))  # ids that never match may be an error
    assert_same(run, truth)


@pytest.mark.parametrize("seed", range(3))
def test_long_runs_have_the_values_of_trec_eval(seed: int) -> None:
    chance = random.Random(seed)
    run: Run = {}
    truth: Qrels = {}
    for number in range(60):
        pool = [f"doc{chance.randrange(10**6)}" for _ in range(400)]
        run[f"q{number}"] = {name: chance.choice([chance.random() * 20, chance.randrange(20)]) for name in chance.sample(pool, 250)}
        truth[f"q{number}"] = {name: chance.choice([0, 0, 1, 1, 2, 3]) for name in chance.sample(pool, chance.randrange(1, 120))}
    assert_same(run, truth)
    assert_same(run, truth, level=2)
