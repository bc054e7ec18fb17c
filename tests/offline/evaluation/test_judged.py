"""Every reader gives the same judged lists, and errors name the place."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streammetrics.metrics import MetricError
from streammetrics.offline.evaluation.evaluate import evaluate
from streammetrics.offline.evaluation.grades import from_grades, from_padded, from_ragged
from streammetrics.offline.evaluation.item_ids import from_lists, from_run
from streammetrics.offline.evaluation.judged import JudgedLists
from streammetrics.offline.evaluation.ranking import TieRule
from tests.support.judged_facts import facts
from tests.support.tables import for_each

ITEMS = [f"d{number}" for number in range(12)]

scores = st.sampled_from([-1.5, 0.0, 0.25, 0.5, 1.0, 2.0, math.inf, -math.inf])
rankings = st.dictionaries(st.sampled_from(ITEMS), scores, max_size=12)
judgments = st.dictionaries(st.sampled_from(ITEMS), st.sampled_from([0, 1, 2, 0.5]), max_size=8)
queries = st.sampled_from(["q1", "q2", "q3", "q4"])
runs = st.dictionaries(queries, rankings)
qrels = st.dictionaries(queries, judgments)


def assume_common_ids(run: dict[str, dict[str, float]], truth: dict[str, dict[str, float]]) -> None:
    """Leave out inputs whose ids never match: they are an error."""
    assume(not run or not truth or any(run[query].keys() & truth[query].keys() for query in run.keys() & truth.keys()))


def ordered(ranking: dict[str, float]) -> list[str]:
    """Items by falling score; ties keep their order."""
    return sorted(ranking, key=lambda item: -ranking[item])


def expected_facts(run: dict[str, list[str]], truth: dict[str, dict[str, float]]) -> dict[str, Any]:
    return {
        query: (
            len(items),
            {rank: float(truth[query][item]) for rank, item in enumerate(items) if truth[query].get(item)},
            sorted(float(grade) for item, grade in truth[query].items() if grade and item not in items),
        )
        for query, items in run.items()
        if query in truth
    }


@given(runs, qrels)
def test_a_run_and_judgments_give_the_positions_of_graded_items(
    run: dict[str, dict[str, float]], truth: dict[str, dict[str, float]]
) -> None:
    assume_common_ids(run, truth)
    judged = from_run(run, truth)
    assert facts(judged) == expected_facts({query: ordered(ranking) for query, ranking in run.items()}, truth)
    assert set(judged.only_ranked) == run.keys() - truth.keys()
    assert set(judged.only_judged) == truth.keys() - run.keys()


@given(runs, qrels)
def test_ranked_lists_equal_falling_scores(run: dict[str, dict[str, float]], truth: dict[str, dict[str, float]]) -> None:
    assume_common_ids(run, truth)
    ranked = {query: ordered(ranking) for query, ranking in run.items()}
    assert facts(from_lists(ranked, truth)) == facts(from_run(run, truth))


@given(runs, qrels)
def test_complete_counts_unranked_lists_as_empty(run: dict[str, dict[str, float]], truth: dict[str, dict[str, float]]) -> None:
    assume_common_ids(run, truth)
    judged = from_run(run, truth, complete=True)
    everything = {query: ordered(run.get(query, {})) for query in truth}
    assert facts(judged) == expected_facts(everything, truth)
    assert judged.only_judged == ()


@given(runs, qrels, st.randoms(use_true_random=False))
def test_a_list_does_not_depend_on_the_other_lists(
    run: dict[str, dict[str, float]], truth: dict[str, dict[str, float]], chance: random.Random
) -> None:
    assume_common_ids(run, truth)
    shuffled = list(run.items())
    chance.shuffle(shuffled)
    assert facts(from_run(dict(shuffled), truth)) == facts(from_run(run, truth))


@given(st.lists(st.lists(st.tuples(st.sampled_from([0, 1, 2.5]), scores), max_size=8), max_size=5))
def test_grades_with_scores_are_ranked_by_score(lists: list[list[tuple[float, float]]]) -> None:
    grades = [[grade for grade, _ in one] for one in lists]
    beside = [[score for _, score in one] for one in lists]
    in_order = [[grade for grade, _ in sorted(one, key=lambda pair: -pair[1])] for one in lists]
    assert facts(from_grades(grades, scores=beside)) == facts(from_grades(in_order))
    width = max(map(len, lists), default=0)
    cells = np.array([one + [math.nan] * (width - len(one)) for one in grades]).reshape(len(lists), width)
    padded = np.array([one + [math.nan] * (width - len(one)) for one in beside]).reshape(len(lists), width)
    assert facts(from_padded(cells, scores=padded, lengths=np.array([len(one) for one in lists], dtype=int))) == facts(
        from_grades(in_order)
    )


def test_relevant_items_may_be_a_set_or_a_sequence_or_have_grades() -> None:
    ways = [{"b", "z"}, ["b", "z"], {"b": 1, "z": 1}, np.array(["b", "z"])]
    facts_of_ways = [facts(from_lists({"q": ["a", "b"]}, {"q": way})) for way in ways]
    assert facts_of_ways == [{"q": (2, {1: 1.0}, [1.0])}] * len(ways)


def test_items_may_be_numbers() -> None:
    assert facts(from_lists([np.array([7, 8])], [{8}])) == {0: (2, {1: 1.0}, [])}
    assert facts(from_run({1: {7: 0.1, 8: 0.2}}, {1: {8: 1}})) == {1: (2, {0: 1.0}, [])}


def test_users_are_given_by_list_id_or_in_order() -> None:
    run, truth = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}}, {"q1": {}, "q3": {}}
    assert from_run(run, truth, users={"q3": "u1", "q1": "u2", "other": "u3"}).users == ("u2", "u1")
    assert from_run(run, truth, users=["u2", "u1"]).users == ("u2", "u1")
    assert from_ragged([1, 0], [0, 1, 2], users=np.array([5, 6])).users == (5, 6)


def test_trec_eval_ranks_equal_scores_by_the_greater_id() -> None:
    run = {"q": {"d10": 1.0, "d9": 1.0, "e": 0.5, "d1": 1.0}}
    positions = {item: facts(from_run(run, {"q": {item: 1}}, ties="trec_eval"))["q"][1] for item in run["q"]}
    assert positions == {"d9": {0: 1.0}, "d10": {1: 1.0}, "d1": {2: 1.0}, "e": {3: 1.0}}


def test_trec_eval_compares_scores_in_double_precision() -> None:
    run = {"q": {"a": 1.00000001, "b": 1.0}}
    for ties in ("order", "trec_eval"):
        assert facts(from_run(run, {"q": {"a": 1}}, ties=ties))["q"][1] == {0: 1.0}


def test_integers_beyond_a_double_are_ties_for_trec_eval() -> None:
    run = {"q": {"a": 2**53 + 1, "b": 2**53}}
    assert facts(from_run(run, {"q": {"a": 1}}))["q"][1] == {0: 1.0}
    assert facts(from_run(run, {"q": {"a": 1}}, ties="trec_eval"))["q"][1] == {1: 1.0}


def test_ties_are_rejected_with_their_place() -> None:
    run = {"p": {"x": 1.0, "y": 2.0}, "q": {"a": 0.5, "b": 0.25, "c": 0.5}}
    with pytest.raises(MetricError, match=re.escape("score: got 0.5 for item 'a' of list 'q' and for item 'c' of list 'q'")):
        from_run(run, {"p": {}, "q": {}}, ties="error")
    assert len(from_run(run, {"p": {}}, ties="error")) == 1


LARGE = 10**18
"""A range in which neighbouring doubles differ by 128."""


@for_each(product([[LARGE, LARGE + 1], [-LARGE - 1, -LARGE], [-(2**63), 2**63 - 1], [2**53, 2**53 + 1]], ["order", "error"]))
def test_integer_scores_are_compared_exactly(case: tuple[list[int], TieRule]) -> None:
    scores, ties = case
    expected = {"q": (2, {0: 1.0}, [])}
    judged = from_run({"q": dict(zip("ab", scores, strict=True))}, {"q": {"b": 1}}, ties=ties)
    assert facts(judged) == expected
    assert evaluate(judged, ["ndcg@10"]).means == {"ndcg@10": 1.0}
    assert facts(from_grades({"q": [0, 1]}, scores={"q": scores}, ties=ties)) == expected
    for kind in (list, lambda numbers: np.array(numbers, dtype=np.int64)):
        assert facts(from_ragged([0, 1], [0, 2], scores=kind(scores), ties=ties, lists=["q"])) == expected
        assert facts(from_padded([[0, 1]], scores=kind([scores]), ties=ties, lists=["q"])) == expected


def test_unsigned_scores_are_compared_up_to_their_maximum() -> None:
    scores = np.array([0, 2**64 - 2, 2**64 - 1], dtype=np.uint64)
    assert facts(from_ragged([0, 1, 2], [0, 3], scores=scores))[0][1] == {0: 2.0, 1: 1.0}
    assert facts(from_run({"q": dict(zip("abc", scores, strict=True))}, {"q": {"c": 1}}))["q"][1] == {0: 1.0}


def test_tied_integer_scores_are_shown_with_all_digits() -> None:
    with pytest.raises(MetricError, match=f"score: got {LARGE + 1} for item 'a'"):
        from_run({"q": {"a": LARGE + 1, "b": LARGE + 1}}, {"q": {}}, ties="error")


@pytest.mark.parametrize("beside", [0.5, 2**64, -math.inf])
def test_an_integer_score_that_a_double_would_round_is_rejected(beside: float) -> None:
    message = rf"score: got {LARGE + 1} at (item 'b' of list 'q'|position 1 of list 'q'|index 1), which a double does not hold; allowed bey"
    calls: list[Callable[[], JudgedLists]] = [
        lambda: from_run({"q": {"a": beside, "b": LARGE + 1}}, {"q": {}}),
        lambda: from_grades({"q": [0, 1]}, scores={"q": [beside, LARGE + 1]}),
        lambda: from_ragged([0, 1], [0, 2], scores=[float(beside), LARGE + 1]),
        lambda: from_padded([[0, 1]], scores=[[float(beside), LARGE + 1]]),
    ]
    for call in calls:
        with pytest.raises(MetricError, match=message):
            call()
    held = from_run({"q": {"a": beside, "b": LARGE, "c": 2**60, "d": float(LARGE + 1)}}, {"q": {"b": 1, "d": 2}})
    assert held.positions[0] < held.positions[1]


def test_negative_grades_are_rejected_or_count_as_zero() -> None:
    run, truth = {"q": {"a": 1}}, {"q": {"a": -2, "b": -1}}
    assert facts(from_run(run, truth, negative="zero")) == {"q": (1, {}, [])}
    assert facts(from_run(run, {"q": {"a": -1e20, "b": -(10**400)}}, negative="zero")) == {"q": (1, {}, [])}
    with pytest.raises(MetricError, match=re.escape("grade: got -2 for item 'a' of list 'q'; allowed are numbers 0 <= grade < 2**53")):
        from_run(run, truth)


@for_each(
    [
        (lambda: from_run({"q": {"a": math.nan}}, {"q": {}}), "score: got nan for item 'a' of list 'q'; allowed are numbers"),
        (lambda: from_run({"q": {"a": "1"}}, {"q": {}}), "score: got '1' at item 'a' of list 'q'"),
        (lambda: from_run({"q": {"a": None}}, {"q": {}}), "score: got None at item 'a' of list 'q'"),
        (lambda: from_run({"q": {"a": 10**400}}, {"q": {}}), "at item 'a' of list 'q'; allowed are numbers"),
        (lambda: from_run({"q": ["a"]}, {"q": {}}), "run: got list for list 'q'; allowed is a mapping of item id to score"),
        (lambda: from_run({"q": {"a": 1}}, {"q": ["a"]}), "qrels: got list for list 'q'"),
        (lambda: from_run({"q": {"a": 1}}, {"q": {"a": math.nan}}), "grade: got nan for item 'a' of list 'q'"),
        (lambda: from_run({"q": {"a": 1}}, {"q": {"a": math.inf}}), "grade: got inf for item 'a' of list 'q'"),
        (lambda: from_run({"q": {"a": 1}}, {"q": {"z": "2"}}), "grade: got '2' for item 'z' of list 'q'"),
        (lambda: from_run({"q": {"a": 1}}, {"q": {"z": 10**400}}), "for item 'z' of list 'q'; allowed are numbers 0 <= grade < 2**53"),
        (lambda: from_run({"q": {"a": 1}}, {"q": {"a": 1e20}}), "item 'a' of list 'q'; allowed are numbers 0 <= grade < 2**53"),
        (lambda: from_run({"q": {"a": 1}}, {"q": {"a": 1e20}}, negative="zero"), "list 'q'; allowed are finite numbers < 2**53"),
        (lambda: from_run({"q": {"a": 1}}, {"q": {"a": -math.inf}}, negative="zero"), "grade: got -inf"),
        (
            lambda: from_run({"q": {"a": 1}}, {"q": {}}, ties="random"),
            "ties: got 'random'; allowed are order, trec_eval, error",
        ),
        (lambda: from_run({"q": {"a": 1}}, {"q": {}}, negative="skip"), "negative: got 'skip'; allowed are error, zero"),
        (lambda: from_run({"q": {"a": 1}}, {"q": {}}, users={}), "users: got none for list 'q'"),
        (lambda: from_run({"q": {"a": 1}}, {"q": {}}, users=[]), "users: got 0; allowed are 1"),
        (lambda: from_ragged([1], [0, 1], users=[None]), "users: got none for list 0; allowed is a hashable id for every list"),
        (lambda: from_ragged([1, 1], [0, 1, 2], users=["u", math.nan]), "users: got none for list 1; allowed is a hashable id for every"),
        (lambda: from_ragged([1], [0, 1], users=pd.Series([pd.NA])), "users: got none for list 0; allowed is a hashable id for every list"),
        (lambda: from_ragged([1], [0, 1], users=[pd.NaT]), "users: got none for list 0; allowed is a hashable id for every list"),
        (lambda: from_ragged([1], [0, 1], users=[["u"]]), "users: got ['u'] for list 0"),
        (lambda: from_ragged([1], [0, 1], lists=[["q"]]), "lists: got id ['q']; allowed are hashable ids"),
        (lambda: from_lists([["a", ["b"]]], [{"b"}]), "in list 0; allowed are hashable ids"),
        (lambda: from_lists([["a"]], [[["b"]]]), "in list 0; allowed are hashable ids"),
        (lambda: from_lists([["a", "b", "a"]], [{"b"}]), "item: got 'a' twice in list 0; allowed is once"),
        (lambda: from_lists([["a"]], []), "lists: got 1 rankings and 0 sets of relevant items"),
        (lambda: from_lists([["a"]], {0: {"a"}}), "lists: got a mapping and a sequence"),
        (lambda: from_lists({"q": {"a", "b"}}, {"q": {"a"}}), "items: got a set for list 'q'; allowed is a sequence in rank order"),
        (lambda: from_lists({"q": "abc"}, {"q": {"a"}}), "items: got 'abc' for list 'q'"),
        (lambda: from_lists({"q": ["a"]}, {"q": "a"}), "relevant items: got 'a' for list 'q'"),
        (lambda: from_lists("ab", "ab"), "lists: got 'ab'; allowed is a mapping by list id, or a sequence of lists"),
        (lambda: from_grades([[1, None]]), "grade: got None at position 1 of list 0"),
        (lambda: from_grades([[1], [0, math.nan]]), "grade: got nan at position 1 of list 1; allowed are numbers 0 <= grade < 2**53"),
        (lambda: from_grades([[1e20]]), "grade: got 1e+20 at position 0 of list 0; allowed are numbers 0 <= grade < 2**53"),
        (lambda: from_grades([[10**400]]), "at position 0 of list 0; allowed are numbers, whole ones below 2**1023"),
        (lambda: from_grades([[1, -1]]), "grade: got -1 at position 1 of list 0"),
        (lambda: from_grades([[1, 2]], scores=[[1]]), "scores: got 1 numbers for list 0; allowed are 2"),
        (lambda: from_grades({"q": [1]}, scores={}), "scores: got no numbers for list 'q'"),
        (lambda: from_grades([[1, 2]], scores=[[1, math.nan]]), "score: got nan for position 1 of list 0"),
        (
            lambda: from_grades([[1]], scores=[[1]], ties="trec_eval"),
            "ties: got 'trec_eval' for items without ids; allowed are order, error",
        ),
        (lambda: from_grades([1, 2]), "grades: got 1 for list 0; allowed is a sequence"),
        (lambda: from_ragged([1], [0, 1], lists=["a", "b"]), "lists: got 2 ids; allowed are 1"),
        (lambda: from_ragged([1, 1], [0, 1, 2], lists=["a", "a"]), "lists: got id 'a' twice"),
        (lambda: from_ragged([1, 1], [0, 1]), "offsets: got 0..1"),
        (lambda: from_ragged([1, 1], [0, 2], scores=[1]), "scores: got 1; allowed are 2, one per grade"),
        (lambda: from_ragged([1], [0, 1], unseen=([1], [1])), "unseen: got row 1, grade 1 at index 0; allowed are rows 0..0"),
        (
            lambda: from_ragged([1], [0, 1], unseen=([0], [-1])),
            "unseen: got row 0, grade -1 at index 0; allowed are rows 0..0, grades 0 <= grade < 2**53",
        ),
        (lambda: from_ragged([1], [0, 1], unseen=([0], [])), "unseen: got 1 rows and 0 grades"),
        (lambda: from_padded([[1, 2]], scores=[[1]]), "scores: got shape (1, 1); allowed is (1, 2)"),
        (lambda: from_padded([[1, 2]], lengths=[3]), "length: got 3 at list 0"),
        (lambda: from_padded([[1, 2]], lengths=[1, 1]), "lengths: got 2; allowed are 1"),
    ]
)
def test_invalid_lists_are_rejected_with_their_place(case: tuple[Callable[[], JudgedLists], str]) -> None:
    call, message = case
    with pytest.raises(MetricError, match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    "judged",
    [from_run({}, {}), from_lists([], []), from_lists({}, {}), from_grades([]), from_ragged([], [0]), from_padded(np.zeros((0, 3)))],
    ids=["run", "lists", "mappings", "grades", "ragged", "padded"],
)
def test_no_lists_give_an_empty_result(judged: JudgedLists) -> None:
    assert len(judged) == 0
    assert judged.lengths.shape == (0,)
    assert judged.lengths.dtype == judged.rows.dtype == judged.positions.dtype == np.int64
