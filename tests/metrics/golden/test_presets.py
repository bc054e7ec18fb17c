"""Each preset gives the values of its library, on every list, to 1e-12. Known differences have a test each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from streammetrics.metrics import Spec
from streammetrics.metrics.presets import ANY_GRADE, PRESETS, preset
from streammetrics.offline.evaluation.evaluate import Evaluation, evaluate
from streammetrics.offline.evaluation.item_ids import from_run
from streammetrics.offline.evaluation.ranking import TieRule
from tests.metrics.golden.answers import answers, ask, asked
from tests.metrics.golden.cases import CUTOFFS, Case, graded

EQUAL = 1e-12
HELD = 2.0**-33
"""The rounding error of a dcg: half a unit of 2**-32. The unit of other values, 2**-40, is smaller than EQUAL."""

Silence = Callable[[Case], str | None]
"""The expected result of a library that gives no number for a list: NaN or the name of an exception. None: a number."""


def _always_answers(_: Case) -> str | None:
    return None


def _nan_without_judgments(case: Case) -> str | None:
    return None if case.grades else "nan"


def _nan_without_relevant(case: Case) -> str | None:
    return None if any(case.grades.values()) else "nan"


def _nan_if_empty(case: Case) -> str | None:
    return None if case.items else "nan"


def _refuses_if_empty(case: Case) -> str | None:
    return None if case.items else "ValueError"


def _refuses_below_two_labels(case: Case) -> str | None:
    return None if len(case.items) > 1 else "ValueError"


def _lenskit_average_precision(case: Case) -> str | None:
    return _nan_if_empty(case) or (None if any(case.grades.values()) else "ZeroDivisionError")


@dataclass(frozen=True, slots=True)
class Claim:
    """With a preset, our `metric` equals their `measure` on every list for which `silent` returns None."""

    library: str
    preset: str
    measure: str
    metric: str
    silent: Silence = _always_answers

    def __str__(self) -> str:
        return f"{self.preset}: {self.measure}"


def _claims(library: str, name: str, pairs: Mapping[str, str], silent: Silence = _always_answers) -> list[Claim]:
    return [Claim(library, name, measure, metric, silent) for measure, metric in pairs.items()]


def _at(*names: str, suffix: str = "") -> dict[str, str]:
    return {f"{name}@{k}{suffix}": f"{name}@{k}" for name in names for k in CUTOFFS}


CLAIMS = [
    *_claims("trec_eval", "trec_eval", _at("ndcg", "map", "precision", "recall", "hit_rate"), _nan_without_judgments),
    *_claims("trec_eval", "trec_eval", {name: name for name in ("ndcg", "map", "mrr", "r_precision")}, _nan_without_judgments),
    *_claims("sklearn", "sklearn", _at("ndcg", "dcg") | _at("ndcg", suffix=" ignore_ties"), _refuses_below_two_labels),
    *_claims("ranx", "ranx", _at("ndcg", "dcg", "map", "mrr", "precision", "recall", "hit_rate", "f1") | {"r_precision": "r_precision"}),
    *_claims("ranx", "ranx_burges", {f"{name}_burges@{k}": f"{name}@{k}" for name in ("ndcg", "dcg") for k in CUTOFFS}),
    *_claims("lenskit", "lenskit", _at("ndcg", "mrr", "recall", "hit_rate", "rbp"), _nan_without_relevant),
    *_claims("lenskit", "lenskit", _at("dcg")),
    *_claims("lenskit", "lenskit", _at("precision"), _nan_if_empty),
    *_claims("lenskit", "lenskit", _at("map"), _lenskit_average_precision),
    *_claims("lenskit", "lenskit_graded", _at("ndcg", suffix=" graded"), _nan_without_relevant),
    *_claims("lenskit", "lenskit_graded", _at("dcg", suffix=" graded")),
    *_claims(
        "torchmetrics",
        "torchmetrics",
        _at("ndcg", "map", "mrr", "precision", "recall", "hit_rate", suffix=" in doubles") | {"r_precision in doubles": "r_precision"},
        _refuses_if_empty,
    ),
    *_claims("rectools", "rectools", _at("ndcg", "map", "mrr", "precision", "recall", "hit_rate", "f1"), _nan_without_relevant),
    *_claims("rectools", "rectools_achievable", _at("ndcg", suffix=" achievable"), _nan_without_relevant),
]


def evaluated(cases: Sequence[Case], spec: Spec, metrics: Sequence[str], ties: TieRule = "error") -> Evaluation:
    """Evaluate the lists through the public functions, from scores and judgments."""
    run = {at: dict(zip(case.items, case.scores, strict=True)) for at, case in enumerate(cases)}
    return evaluate(from_run(run, {at: case.grades for at, case in enumerate(cases)}, ties=ties), metrics, spec)


@cache
def ours(library: str, name: str) -> Evaluation:
    metrics = dict.fromkeys(claim.metric for claim in CLAIMS if (claim.library, claim.preset) == (library, name))
    return evaluated(asked(library), preset(name), list(metrics))


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_a_preset_gives_the_values_of_its_library(claim: Claim) -> None:
    mine = _raw(ours(claim.library, claim.preset), claim.metric)
    theirs = answers(claim.library)[claim.measure]
    silences = [claim.silent(case) for case in asked(claim.library)]
    assert [_silence(value) for value in theirs] == silences
    spoken = np.array([outcome is None for outcome in silences])
    numbers = np.array([value for value in theirs if _silence(value) is None])
    held = HELD if claim.metric.startswith("dcg") else 0
    assert np.abs(mine[spoken] - numbers).max() <= EQUAL + held
    assert numbers.max() > numbers.min()


def _raw(evaluation: Evaluation, metric: str) -> np.ndarray:
    """Values per list, also of lists that do not count."""
    above, below = evaluation.parts(metric)
    return above / below


def _silence(value: float | str) -> str | None:
    if isinstance(value, str):
        return value
    return "nan" if math.isnan(value) else None


def test_every_preset_is_compared() -> None:
    assert {claim.preset for claim in CLAIMS} == set(PRESETS)


@pytest.mark.parametrize("library", ["trec_eval", "ranx", "lenskit", "rectools"])
def test_libraries_that_accept_unseen_items_get_them(library: str) -> None:
    assert sum(bool(case.unseen) for case in asked(library)) > 500


SKIPPING = [claim for claim in CLAIMS if claim.silent is _nan_without_relevant]


@pytest.mark.parametrize("claim", SKIPPING, ids=str)
def test_lists_left_out_of_means_by_a_library_are_left_out_here(claim: Claim) -> None:
    left_out = np.isnan(np.array(answers(claim.library)[claim.measure]))
    assert left_out.any()
    assert np.array_equal(np.isnan(ours(claim.library, claim.preset).values(claim.metric)), left_out)


FRACTIONS = [
    ("sklearn", "sklearn", {"ndcg": "", "dcg": ""}),
    ("lenskit", "lenskit", {"ndcg": "", "precision": "", "recall": ""}),
    ("lenskit", "lenskit_graded", {"ndcg": " graded", "dcg": " graded"}),
    ("rectools", "rectools", {"ndcg": "", "precision": "", "recall": ""}),
]


@pytest.mark.parametrize(("library", "name", "suffixes"), FRACTIONS)
def test_fractional_grades_give_the_values_of_the_library(library: str, name: str, suffixes: Mapping[str, str]) -> None:
    draw = np.random.default_rng(7)
    cases = [graded([1.1, *draw.choice([None, 0.25, 0.5, 1.1, 3.7], size=size)]) for size in range(1, 40)]
    values = ask(library, cases)
    result = evaluated(cases, preset(name), [f"{metric}@{k}" for metric in suffixes for k in CUTOFFS])
    for metric, suffix in suffixes.items():
        held = HELD if metric == "dcg" else 0
        for k in CUTOFFS:
            theirs = np.array(values[f"{metric}@{k}{suffix}"])
            assert np.abs(_raw(result, f"{metric}@{k}") - theirs).max() <= EQUAL + held


# Remaining differences. A test fails if the library changes, or if a preset could cover the difference.


def test_trec_eval_f1_covers_the_whole_list() -> None:
    values = answers("trec_eval")["f1"]
    for length in (3, 10):
        chosen = [at for at, case in enumerate(asked("trec_eval")) if len(case.items) == length and case.grades]
        cases = [asked("trec_eval")[at] for at in chosen]
        mine = _raw(evaluated(cases, preset("trec_eval"), [f"f1@{length}"]), f"f1@{length}")
        assert np.abs(mine - np.array([values[at] for at in chosen])).max() <= EQUAL


def test_trec_eval_skips_lists_without_judgments_and_we_count_them_as_0() -> None:
    values = ask("trec_eval", [graded([None, None]), graded([None], [1])], [1])["ndcg@1"]
    assert _silence(values[0]) == "nan"
    assert values[1] == 0
    assert evaluated([graded([None, None])], preset("trec_eval"), ["ndcg@1"]).means == {"ndcg@1": 0}


def test_ranx_weighs_rbp_by_grades_and_we_count_relevant_items() -> None:
    binary, weighed = graded([1, 0, 1]), graded([2, 0, 1])
    values = ask("ranx", [binary, weighed])["rbp"]
    mine = _raw(evaluated([binary, weighed], preset("ranx"), ["rbp"]), "rbp")
    assert mine[0] == mine[1] == pytest.approx(values[0], abs=EQUAL)
    assert values[1] == pytest.approx(0.2 * (2 + 0.8**2), abs=EQUAL)


def test_the_persistence_of_trec_eval_is_that_of_rbp_90_in_ranx() -> None:
    cases = [graded([draw, 0, 1, 0, draw], [1]) for draw in (0, 1)]
    values = ask("ranx", cases)["rbp 90"]
    mine = _raw(evaluated(cases, preset("trec_eval"), ["rbp"]), "rbp")
    assert np.abs(mine - np.array(values)).max() <= EQUAL
    assert mine[1] == pytest.approx(0.1 * (1 + 0.9**2 + 0.9**4), abs=EQUAL)


def test_ranx_gives_no_gain_to_grades_below_the_level_and_we_do() -> None:
    cases = [graded([1, 2, 0, 3])]
    values = ask("ranx", cases)
    spec = Spec(relevance_threshold=2, ap_denominator="R")
    mine = evaluated(cases, spec, ["ndcg@5", "map@5", "precision@5"])
    below = evaluated([graded([0, 2, 0, 3])], spec, ["ndcg@5"])
    assert mine.means["map@5"] == pytest.approx(values["map@5 level 2"][0], abs=EQUAL)
    assert mine.means["precision@5"] == pytest.approx(values["precision@5 level 2"][0], abs=EQUAL)
    assert below.means["ndcg@5"] == pytest.approx(values["ndcg@5 level 2"][0], abs=EQUAL)
    assert mine.means["ndcg@5"] > values["ndcg@5 level 2"][0] + 0.01


def test_lenskit_counts_test_items_of_rating_0_as_relevant() -> None:
    cases = [graded([0, 1])]
    values = ask("lenskit", cases, [5])
    assert (values["ndcg@5"][0], values["recall@5"][0], values["ndcg@5 graded"][0]) == (1, 1, 1)
    mine = evaluated(cases, preset("lenskit"), ["ndcg@5", "precision@5"])
    assert mine.means == {"ndcg@5": 1, "precision@5": 0.5}
    assert values["precision@5"][0] == 1


def test_lenskit_gives_0_for_precision_without_test_items_and_we_leave_the_list_out() -> None:
    cases = [graded([None, None]), graded([1, None])]
    assert ask("lenskit", cases, [5])["precision@5"] == [0, 0.5]
    assert evaluated(cases, preset("lenskit"), ["precision@5"]).counts == {"precision@5": 1}


def test_lenskit_leaves_empty_lists_out_of_precision_and_ap_only_and_we_count_them_as_0() -> None:
    cases = [graded([], [1])]
    values = ask("lenskit", cases, [5])
    outcomes = {name: _silence(values[f"{name}@5"][0]) for name in ("precision", "map", "ndcg", "mrr", "recall", "hit_rate", "rbp")}
    assert [name for name, outcome in outcomes.items() if outcome == "nan"] == ["precision", "map"]
    names = [f"{name}@5" for name in outcomes]
    assert evaluated(cases, preset("lenskit"), names).means == dict.fromkeys(names, 0)


def test_lenskit_fails_on_ap_of_a_list_without_test_items_and_we_leave_the_list_out() -> None:
    cases = [graded([None, None])]
    assert ask("lenskit", cases, [5])["map@5"] == ["ZeroDivisionError"]
    assert evaluated(cases, preset("lenskit"), ["map@5"]).counts == {"map@5": 0}


SINGLES = _at("ndcg", "map", "mrr", "precision", "recall", "hit_rate") | {"r_precision": "r_precision"}


@pytest.mark.parametrize("measure", SINGLES)
def test_unmodified_torchmetrics_differs_only_by_single_precision(measure: str) -> None:
    answer = answers("torchmetrics")[measure]
    doubles = answers("torchmetrics")[f"{measure} in doubles"][: len(answer)]
    pairs = np.array([(single, double) for single, double in zip(answer, doubles, strict=True) if not isinstance(single, str)])
    assert np.abs(pairs[:, 0] - pairs[:, 1]).max() <= 8 * 2.0**-24
    inexact = not measure.startswith("hit_rate") and measure not in ("map@1", "mrr@1", "precision@1")
    assert (np.abs(pairs[:, 0] - pairs[:, 1]).max() > EQUAL) == inexact


def test_torchmetrics_adaptive_k_is_the_other_denominator_of_precision() -> None:
    spec = Spec(ap_denominator="hits", precision_denominator="min(n,k)")
    mine = evaluated(asked("torchmetrics"), spec, [f"precision@{k}" for k in CUTOFFS])
    for k in CUTOFFS:
        answer = answers("torchmetrics")[f"precision@{k} adaptive_k in doubles"]
        numbers = np.array([np.nan if isinstance(value, str) else value for value in answer])
        assert np.nanmax(np.abs(_raw(mine, f"precision@{k}") - numbers)) <= EQUAL


def test_rectools_divide_by_k_is_the_other_denominator_of_ap() -> None:
    spec = Spec(gain="binary", relevance_threshold=ANY_GRADE, ap_denominator="k", no_relevant="skip")
    mine = evaluated(asked("rectools"), spec, [f"map@{k}" for k in CUTOFFS])
    for k in CUTOFFS:
        values = np.array(answers("rectools")[f"map@{k} divide_by_k"])
        assert np.nanmax(np.abs(mine.values(f"map@{k}") - values)) <= EQUAL
        assert np.array_equal(np.isnan(mine.values(f"map@{k}")), np.isnan(values))


def test_rectools_r_precision_has_a_divisor_that_no_spec_has() -> None:
    cases = [graded([1, 0, 0], [1])]
    values = ask("rectools", cases, [5])
    assert values["precision@5 r_precision"] == [0.5]
    assert [_raw(evaluated(cases, Spec(precision_denominator=way), ["precision@5"]), "precision@5")[0] for way in ("k", "min(n,k)")] == [
        pytest.approx(1 / 5, abs=EQUAL),
        pytest.approx(1 / 3, abs=EQUAL),
    ]
