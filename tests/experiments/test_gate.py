"""The gate of a rollout: its decisions on single measures, treatments and whole experiments, and its error over all looks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.errors import ExperimentError
from streammetrics.experiments.building import build_report, choose_scales
from streammetrics.experiments.experiment_report import ExperimentReport
from streammetrics.experiments.gate import GATE_CODES, DecidingMeasure, GateDecision, gate_of, whole_gate, within_gate_margin
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import FeedbackCounts, StoredSums
from streammetrics.experiments.verdict import VERDICT_CODES, MeasureComparison, Verdict, judge
from streammetrics.exporters.prometheus.experiments import measure_rows
from streammetrics.statistics.estimates import Estimate
from streammetrics.statistics.measures import Measure
from streammetrics.statistics.sequence import MeasureScale
from tests.support.columns import MEASURES
from tests.support.experiment_samples import arm, at_most, credits, in_one_hour

NDCG = Measure("ndcg", 10, "mean", 2, 1, 40)
SCALE = MeasureScale(0.04, 0.4)
ONE = Policy(paging=("hit_rate@5",))


def compared(lift: float, error: float, scale: MeasureScale = SCALE) -> MeasureComparison:
    control, treatment = (Estimate(0.4 * (1 + change), error**2, 5_000) for change in (0.0, lift))
    return MeasureComparison(NDCG, treatment, control, scale)


def decision(lift: float, error: float, policy: Policy) -> GateDecision:
    policy = replace(policy, paging=("ndcg@10",))
    comparison = compared(lift, error)
    verdict = judge(policy, [comparison])["ndcg@10"]
    return gate_of(policy, verdict, [DecidingMeasure("ndcg@10", verdict, bool(within_gate_margin(policy, [comparison])))], "control")


@pytest.mark.parametrize(
    ("lift", "error", "word"),
    [
        (0.0, 0.003, "pass"),
        (0.0, 0.02, "wait"),
        (0.2, 0.003, "pass"),
        (-0.2, 0.003, "fail"),
        (-0.2, 0.1, "wait"),
        (-0.05, 0.01, "wait"),
    ],
)
def test_each_lift_gets_its_word(lift: float, error: float, word: str) -> None:
    assert decision(lift, error, Policy()).word == word


def test_the_verdict_may_be_undecided_while_the_gate_passes() -> None:
    policy = Policy(paging=("ndcg@10",))
    assert judge(policy, [compared(0.0, 0.003)])["ndcg@10"].word == "inconclusive"
    assert decision(0.0, 0.003, policy).reason == "at most 5 % worse than control in ndcg@10; 95 % confidence, safe to check at any time"


def test_a_certain_drop_fails_even_if_it_is_within_the_margin_of_the_gate() -> None:
    policy = Policy(margin=0.01, gate_margin=0.10, paging=("ndcg@10",))
    assert within_gate_margin(policy, [compared(-0.05, 0.001)]) == {"ndcg@10"}
    assert decision(-0.05, 0.001, policy).word == "fail"


def test_a_wait_says_what_is_not_certain_yet() -> None:
    decision_now = decision(-0.02, 0.01, Policy())
    assert decision_now.word == "wait"
    assert decision_now.reason.startswith("2 % lower ndcg@10 than control so far; ")
    assert decision_now.reason.endswith("; not yet certain that it is at most 5 % worse")


@pytest.mark.parametrize("word", ["invalid", "mixed"])
def test_numbers_that_must_not_be_used_never_pass(word: str) -> None:
    policy = Policy(paging=("ndcg@10",))
    broken = Verdict(word, "because")  # type: ignore[arg-type]
    assert gate_of(policy, broken, [DecidingMeasure("ndcg@10", broken, True)], "control") == GateDecision("wait", "because")


def test_a_deciding_measure_that_is_not_compared_never_passes() -> None:
    policy = Policy(paging=("ndcg@10", "item_hit_rate@10"))
    fine = DecidingMeasure("ndcg@10", Verdict("improved", "more"), True)
    assert gate_of(policy, fine.verdict, [fine], "control") == GateDecision("wait", "item_hit_rate@10 cannot be compared yet")


@pytest.mark.parametrize(
    ("within", "word"), [((True, True), "pass"), ((True, False), "wait"), ((False, True), "wait"), ((False, False), "wait")]
)
def test_every_deciding_measure_must_be_within_the_margin(within: tuple[bool, bool], word: str) -> None:
    policy = Policy(paging=("ndcg@10", "item_hit_rate@10"))
    undecided = Verdict("inconclusive", "no difference so far")
    deciding = [DecidingMeasure(name, undecided, within_margin) for name, within_margin in zip(policy.paging, within, strict=True)]
    assert gate_of(policy, undecided, deciding, "control").word == word


@pytest.mark.parametrize(("margin", "word"), [(0.01, "pass"), (0.05, "pass"), (0.06, "wait")])
def test_a_safe_verdict_passes_if_its_margin_is_no_larger(margin: float, word: str) -> None:
    policy = Policy(margin=margin, paging=("ndcg@10",))
    safe = Verdict("safe", "nearly the same")
    assert gate_of(policy, safe, [DecidingMeasure("ndcg@10", safe, False)], "control").word == word


words = st.sampled_from(["pass", "wait", "fail"])


@given(st.dictionaries(st.sampled_from("abcd"), words))
@example({})
@example({"a": "pass", "b": "fail", "c": "wait"})
@example({"a": "pass", "b": "pass"})
@example({"a": "pass", "b": "wait"})
def test_all_treatments_must_pass_and_any_failure_fails(given_words: Mapping[str, str]) -> None:
    decisions = {name: GateDecision(word, name.upper()) for name, word in given_words.items()}  # type: ignore[arg-type]
    decision = whole_gate(decisions)
    values = set(given_words.values())
    assert decision.word == ("fail" if "fail" in values else "pass" if values == {"pass"} else "wait")
    if not given_words:
        return
    first, *others = [name for name, word in given_words.items() if word == decision.word]
    assert decision.reason.startswith(f"{first}: {first.upper()}")
    assert f"{len(others)} more" in decision.reason or not others


def report_of(policy: Policy, chances: Mapping[str, tuple[int, float]], **others: object) -> ExperimentReport:
    """The report of arms, each with its users and its chance of a hit."""
    moments = {name: arm(users, chance, seed) for seed, (name, (users, chance)) in enumerate(chances.items())}
    exposures = {name: users for name, (users, _) in chances.items()}
    kept: dict[str, Any] = {"experiment": "ranker", "scope": "start", "first_list_users": exposures, **others}
    stored = StoredSums(**in_one_hour(MEASURES, moments), **kept)
    return build_report(MEASURES, policy, stored, choose_scales(MEASURES, policy, stored, {}))


def gates(report: ExperimentReport) -> dict[str, str]:
    assert report.gate is not None
    return {"": report.gate.word, **{variant.variant: variant.gate.word for variant in report.variants if variant.gate is not None}}


def test_the_report_has_the_gate_of_each_treatment_and_of_all() -> None:
    policy = replace(ONE, shares={"control": 1, "same": 1, "worse": 1})
    report = report_of(policy, {"control": (9_000, 0.5), "same": (9_000, 0.5), "worse": (9_000, 0.4)})
    assert gates(report) == {"": "fail", "same": "pass", "worse": "fail"}
    assert report.gate is not None
    assert report.gate.reason.startswith("worse: ")
    assert report.gate_margin == 0.05
    rows = {row.variant: row.value for row in measure_rows(report) if row.series == "gate"}
    assert rows == {name: GATE_CODES[word] for name, word in gates(report).items()}  # type: ignore[index]


def test_without_fixed_shares_a_pass_needs_the_begin_of_the_step() -> None:
    chances = {"control": (9_000, 0.5), "treatment": (9_000, 0.5)}
    report = report_of(ONE, chances)
    assert gates(report) == {"": "wait", "treatment": "wait"}
    assert report.gate is not None
    assert report.gate.reason.startswith("treatment: at most 5 % worse than control in hit_rate@5; ")
    assert report.gate.reason.endswith("; a pass needs the time at which the running step of the rollout began: give it as since")
    assert gates(report_of(replace(ONE, shares={"control": 1, "treatment": 1}), chances)) == {"": "pass", "treatment": "pass"}


def test_a_treatment_with_too_few_users_waits_and_says_so() -> None:
    report = report_of(ONE, {"control": (4_000, 0.5), "treatment": (60, 0.5)})
    assert gates(report) == {"": "wait", "treatment": "wait"}
    assert report.gate is not None
    assert report.gate.reason == "treatment: each arm needs at least 100 users: treatment has 60"


def test_a_configured_treatment_without_users_waits() -> None:
    policy = replace(ONE, shares={"control": 1, "a": 1, "b": 1})
    report = report_of(policy, {"control": (150, 0.5), "a": (150, 0.5)})
    assert gates(report) == {"": "wait", "a": "wait", "b": "wait"}


def test_a_broken_experiment_waits_and_says_why() -> None:
    report = report_of(ONE, {"control": (9_000, 0.5), "treatment": (9_000, 0.5)}, joined=FeedbackCounts(10, 190))
    assert gates(report) == {"": "wait", "treatment": "wait"}
    assert report.gate is not None
    assert "of all feedback matches no list" in report.gate.reason


def test_an_experiment_without_a_control_waits() -> None:
    report = report_of(ONE, {"a": (4_000, 0.5), "b": (4_000, 0.5)})
    assert gates(report) == {"": "wait"}
    assert report.gate is not None
    assert "no variant is the control" in report.gate.reason


@pytest.mark.parametrize(("credit", "word"), [(0.2, "pass"), (-0.2, "fail"), (0.0, "wait")])
def test_of_interleaved_rankers_only_a_preferred_one_passes(credit: float, word: str) -> None:
    report = report_of(Policy(), {"interleaved": (2_000, 0.5)}, credits=credits(2_000, credit))
    assert gates(report) == {"": word}


def test_a_margin_that_is_no_share_is_rejected() -> None:
    with pytest.raises(ExperimentError, match=r"gate_margin: got 0.0; must be between 0 and 1"):
        Policy(gate_margin=0.0)


def ever(lift: float, experiments: int, seed: int) -> dict[str, int]:
    """Count the paths with this true lift that ever pass or ever fail, over 150 looks from 200 to 200,000 users.

    A path is the difference of two means as a Brownian motion in information time, so the boundary is exact.
    """
    random, policy = np.random.default_rng(seed), Policy(paging=("ndcg@10",))
    users = np.geomspace(200, 200_000, 150)
    information = users / (4 * (0.85 * 0.4) ** 2)  # equal arms, coefficient of variation 0.85
    steps = np.diff(information, prepend=0.0)
    counts = {"pass": 0, "fail": 0}
    for _ in range(experiments):
        score = np.cumsum(random.normal(lift * 0.4 * steps, np.sqrt(steps)))
        words = set()
        for at, share in enumerate(information):
            variance = 1 / share / 2
            comparison = MeasureComparison(
                NDCG,
                Estimate(0.4 + score[at] / share, variance, int(users[at] / 2)),
                Estimate(0.4, variance, int(users[at] / 2)),
                MeasureScale(math.sqrt(1 / information[0]), 0.4),
            )
            verdict = judge(policy, [comparison])["ndcg@10"]
            word = gate_of(
                policy, verdict, [DecidingMeasure("ndcg@10", verdict, bool(within_gate_margin(policy, [comparison])))], "control"
            ).word
            words.add(word)
        for word in counts:
            counts[word] += word in words
    return counts


def test_a_drop_of_the_margin_rarely_ever_passes() -> None:
    assert ever(-0.05, 150, seed=3)["pass"] <= at_most(0.05, 150)


def test_without_a_difference_it_rarely_ever_fails_and_usually_passes() -> None:
    moments = ever(0.0, 60, seed=4)
    assert moments["fail"] <= at_most(0.05, 60)
    assert moments["pass"] >= 50


def test_the_codes_of_gate_and_verdict_agree_in_sign() -> None:
    assert GATE_CODES["pass"] > 0 > GATE_CODES["fail"]
    assert VERDICT_CODES["safe"] > 0 > VERDICT_CODES["regressed"]
