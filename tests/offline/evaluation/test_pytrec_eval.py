"""trec_eval, through pytrec_eval, on random and difficult runs gives the same value for every query and every mean.

pytrec_eval has the code of version 9, which compares scores in single precision and has another rule for recall levels. There are no
negative grades, because some made pytrec_eval 0.5 crash or hang.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest
import pytrec_eval
from hypothesis import assume, given
from hypothesis import strategies as st

from streammetrics.metrics.names import parse_metric
from streammetrics.metrics.presets import preset
from streammetrics.offline.evaluation.evaluate import Evaluation, evaluate
from streammetrics.offline.evaluation.trec_names import asked_for
from streammetrics.offline.inputs.item_ids import from_run
from streammetrics.offline.inputs.trec import from_trec

Run = dict[str, dict[str, float]]
Qrels = dict[str, dict[str, int]]

LEVELS = [level / 10 for level in range(11)]
MEASURES = [
    "ndcg",
    "map",
    "recip_rank",
    "Rprec",
    "bpref",
    "set_P",
    "set_recall",
    "set_map",
    "set_F",
    *("num_ret", "num_rel", "num_rel_ret"),
    *(f"{name}_{k}" for name in ("ndcg_cut", "map_cut", "P", "recall", "success") for k in (1, 3, 5, 10, 100)),
]
OURS = dict(zip(map(str, map(parse_metric, MEASURES)), MEASURES, strict=True))
"""Our name of a measure -> the name in trec_eval."""

documents = st.sampled_from([f"d{number}" for number in range(15)] + ["é", "z", "Z", "d01"])
close_scores = st.sampled_from([0.0, 1.0, 1.00000001, 1.0000001, 2.0, -1.0, 1e30, 0.1, 0.1 + 1e-9])
queries = st.sampled_from(["q1", "q2", "q10", "q3"])
runs = st.dictionaries(queries, st.dictionaries(documents, close_scores, min_size=1, max_size=15), min_size=1)
truths = st.dictionaries(queries, st.dictionaries(documents, st.integers(0, 4), min_size=1, max_size=10), min_size=1)


def ours(run: Run, truth: Qrels, *, judged_only: bool = False, level: int = 1) -> Evaluation:
    judged = from_run(run, truth, ties="trec_eval_9", negative="zero", judged_only=judged_only)
    return evaluate(judged, MEASURES, replace(preset("trec_eval"), relevance_threshold=level))


def assert_same(run: Run, truth: Qrels, *, judged_only: bool = False, level: int = 1) -> None:
    asked = pytrec_eval.RelevanceEvaluator(truth, set(MEASURES), level, judged_only).evaluate(run)
    # Where -J leaves nothing of a list, trec_eval divides 0 by 0 and prints nan.
    theirs = {
        query: {name: 0.0 if math.isnan(value) and not found["num_ret"] else value for name, value in found.items()}
        for query, found in asked.items()
    }
    result = ours(run, truth, judged_only=judged_only, level=level)
    assert set(result.lists) == set(theirs)
    for name, measure in OURS.items():
        values = dict(zip(result.lists, result.values(name).tolist(), strict=True))
        assert values == pytest.approx({query: found[measure] for query, found in theirs.items()}, abs=1e-12)
        if theirs:  # a mean, or a sum for counts
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
    assert_same(run, truth, level=2)
    assert_same(run, truth, judged_only=True)


def fewest(level: float, relevant: int, *, rounded: bool) -> int:
    """How many relevant items a recall level needs: the product in double precision, rounded; or exactly so many that they reach it."""
    if rounded:
        return int(Decimal(level * relevant).to_integral_value(ROUND_HALF_UP))
    return int((Decimal(repr(level)) * relevant).to_integral_value(ROUND_CEILING))


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_interpolated_precision_is_that_of_trec_eval_at_the_number_of_relevant_items(seed: int, rounded: bool) -> None:
    """Version 9 needs level * R + 0.9 relevant items, cut to a whole number. At the level n / R these are n."""
    chance = random.Random(seed)
    run: Run = {}
    truth: Qrels = {}
    for relevant in (1, 2, 3, 4, 5, 7, 10, 15, 45, 57, 77, 83):
        run[f"q{relevant}"] = {f"d{at:03}": float(-at) for at in range(120)}
        truth[f"q{relevant}"] = dict.fromkeys(chance.sample([f"d{at:03}" for at in range(150)], relevant), 1)
    one, mean = ("iprec_at_recall_{}", "11pt_avg") if rounded else ("iprec@{}", "iprec_mean")
    result = evaluate(from_run(run, truth), [*(one.format(level) for level in LEVELS), mean])
    means = result.values(mean).tolist()
    for query, judged in truth.items():
        levels = [fewest(level, len(judged), rounded=rounded) / len(judged) for level in LEVELS]
        asked = [pytrec_eval.RelevanceEvaluator({query: judged}, {f"iprec_at_recall.{level!r}"}).evaluate(run) for level in levels]
        theirs = [value for found in asked for value in found[query].values()]
        at = result.lists.index(query)
        assert [result.values(one.format(level))[at] for level in LEVELS] == pytest.approx(theirs, abs=1e-12)
        assert means[at] == pytest.approx(sum(theirs) / len(LEVELS), abs=1e-12)


@pytest.mark.parametrize("square", [0.25, 1.0, 4.0])
def test_f_of_the_whole_list_has_the_values_of_trec_eval(square: float) -> None:
    run: Run = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"a": 1.0}}
    truth: Qrels = {"q1": {"a": 1, "d": 2, "e": 0}, "q2": {"a": 0, "b": 1}}
    theirs = pytrec_eval.RelevanceEvaluator(truth, {f"set_F.{square}"}).evaluate(run)
    (_, request), *_ = asked_for(f"set_F.{square}", None)
    assert request is not None
    values = evaluate(from_run(run, truth), [request.metric]).values(request.metric)
    assert values.tolist() == pytest.approx([found["set_F"] for found in theirs.values()], abs=1e-12)


def test_f_beta_with_all_shown_is_f_of_the_whole_list() -> None:
    judged = from_run({"q1": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"q1": {"a": 1, "d": 2}})
    means = evaluate(judged, ["set_f0.5", "f0.5@3", "f2@3", "f1@3", "set_f1", "f2@2"]).means
    assert means["f0.5@3"] == means["set_f0.5"] == pytest.approx(1.25 / (0.25 * 2 + 3), abs=1e-12)
    assert means["set_f1"] == means["f1@3"]
    assert means["f2@2"] == pytest.approx(5 / (4 * 2 + 2), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_shares_of_judged_items_are_precisions_with_every_judged_item_relevant(seed: int) -> None:
    """trec_eval 9 has no `unj`. If all grades are one higher, its precision is the share of judged items."""
    chance = random.Random(seed)
    run = {f"q{number}": {f"d{at}": chance.random() for at in range(chance.randrange(1, 30))} for number in range(20)}
    truth = {query: {name: chance.choice([0, 0, 1]) for name in found if chance.random() < 0.6} | {"x": 1} for query, found in run.items()}
    raised = {query: {name: grade + 1 for name, grade in found.items()} for query, found in truth.items()}
    theirs = pytrec_eval.RelevanceEvaluator(raised, {"P.5,10"}).evaluate(run)
    result = evaluate(from_run(run, truth), ["judged@5", "judged@10", "unj_5"])
    for k in (5, 10):
        assert result.values(f"judged@{k}").tolist() == pytest.approx([theirs[query][f"P_{k}"] for query in result.lists], abs=1e-12)
    shown = [min(len(run[query]), 5) / 5 for query in result.lists]
    assert (result.values("judged@5") + result.values("unjudged@5")).tolist() == pytest.approx(shown, abs=1e-12)


def test_the_geometric_mean_of_ap_is_that_of_trec_eval() -> None:
    run = {f"q{number}": {name: float(-at) for at, name in enumerate("abcdefgh"[number:])} for number in range(6)}
    truth = {query: {"f": 1, "a": 1, "z": 1} if query != "q3" else {"z": 1} for query in run}
    theirs = pytrec_eval.RelevanceEvaluator(truth, {"gm_map"}).evaluate(run)
    result = evaluate(from_run(run, truth), ["gm_map", "map"])
    assert result.means["gm_map"] == pytest.approx(math.exp(sum(found["gm_map"] for found in theirs.values()) / len(theirs)), rel=1e-10)
    assert result.values("gm_map").tolist() == result.values("map").tolist()
    errors = result.standard_errors
    assert 0 < errors["gm_map"] < errors["map"] * 10


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
