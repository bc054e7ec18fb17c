"""trec_eval, through pytrec_eval, on random and difficult runs gives the same value for every query and every mean.

There are no negative grades, because some made pytrec_eval 0.5 crash or hang.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import pytrec_eval
from hypothesis import assume, given
from hypothesis import strategies as st

from streammetrics.metrics.inputs.judged import from_run
from streammetrics.metrics.inputs.trec import from_trec
from streammetrics.metrics.offline.evaluate import Evaluation, evaluate
from streammetrics.metrics.presets import preset

Run = dict[str, dict[str, float]]
Qrels = dict[str, dict[str, int]]

MEASURES = [
    "ndcg",
    "map",
    "recip_rank",
    "Rprec",
    *(f"{name}_{k}" for name in ("ndcg_cut", "map_cut", "P", "recall", "success") for k in (1, 3, 5, 10, 100)),
]
OURS = dict(zip(evaluate(from_run({}, {}), MEASURES).means, MEASURES, strict=True))
"""Our name of a measure -> the name in trec_eval."""

documents = st.sampled_from([f"d{number}" for number in range(15)] + ["é", "z", "Z", "d01"])
close_scores = st.sampled_from([0.0, 1.0, 1.00000001, 1.0000001, 2.0, -1.0, 1e30, 0.1, 0.1 + 1e-9])
queries = st.sampled_from(["q1", "q2", "q10", "q3"])
runs = st.dictionaries(queries, st.dictionaries(documents, close_scores, min_size=1, max_size=15), min_size=1)
truths = st.dictionaries(queries, st.dictionaries(documents, st.integers(0, 4), min_size=1, max_size=10), min_size=1)


def ours(run: Run, truth: Qrels) -> Evaluation:
    return evaluate(from_run(run, truth, ties="trec_eval", negative="zero"), MEASURES, preset("trec_eval"))


def assert_same(run: Run, truth: Qrels) -> None:
    theirs = pytrec_eval.RelevanceEvaluator(truth, set(MEASURES)).evaluate(run)
    result = ours(run, truth)
    assert set(result.lists) == set(theirs)
    for name, measure in OURS.items():
        values = dict(zip(result.lists, result.values(name).tolist(), strict=True))
        assert values == pytest.approx({query: found[measure] for query, found in theirs.items()}, abs=1e-12)
        if theirs:
            mean = pytrec_eval.compute_aggregated_measure(measure, [found[measure] for found in theirs.values()])
            assert result.means[name] == pytest.approx(mean, abs=1e-12)


@given(runs, truths)
def test_small_runs_with_many_ties_have_the_values_of_trec_eval(run: Run, truth: Qrels) -> None:
    common = run.keys() & truth.keys()
    assume(not run or not truth or any(run[query].keys() & truth[query].keys() for query in common))  # ids that never match may be an error
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


def test_files_have_the_values_of_trec_eval(tmp_path: Path) -> None:
    run_lines = ["q1 Q0 a 1 0.5 t", "q1 Q0 b 2 0.5 t", "q2 Q0 c 1 3 t", "q1 Q0 c 9 0.25 t", "q3 Q0 c 1 3 t"]
    truth_lines = ["q1 0 a 1", "q1 0 x 2", "q2 0 c 0", "q4 0 c 1", "q1 0 c 3"]
    for name, lines in (("run", run_lines), ("qrels", truth_lines)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    with (tmp_path / "run").open() as run, (tmp_path / "qrels").open() as truth:
        theirs = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(truth), set(MEASURES)).evaluate(pytrec_eval.parse_run(run))
    result = evaluate(from_trec(tmp_path / "run", tmp_path / "qrels"), MEASURES, preset("trec_eval"))
    assert result.lists == tuple(theirs) == ("q1", "q2")
    for name, measure in OURS.items():
        assert result.values(name).tolist() == pytest.approx([theirs[query][measure] for query in result.lists], abs=1e-12)
