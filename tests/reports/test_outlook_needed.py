"""What undecided variants still need, from reports of simulated experiments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammetrics.experiments import Policy, build_report, choose_scales
from streammetrics.experiments.experiment_report import ExperimentReport, VariantReport
from streammetrics.experiments.gate import GateDecision
from streammetrics.reports.outlook import gate_needed_of, needed_of, needed_sentences, needed_words, with_needed
from tests.support.columns import MEASURES
from tests.support.experiment_samples import experiment, stored


def treatment(report: ExperimentReport) -> VariantReport:
    return next(variant for variant in report.variants if variant.role == "treatment")


def test_an_undecided_variant_needs_users_for_each_verdict_that_its_interval_allows() -> None:
    report = with_needed(experiment({"control": 0.3, "treatment": 0.3}, users=400), users_per_hour=100.0)
    variant = treatment(report)
    assert variant.verdict is not None
    assert variant.verdict.word == "inconclusive"
    by_word = {needed_users.verdict: needed_users for needed_users in variant.needed}
    assert set(by_word) == {"regressed", "improved", "safe"}
    assert [by_word[word].lift for word in ("regressed", "improved", "safe")] == [-0.1, 0.1, 0.0]
    assert by_word["safe"].users > 20 * by_word["regressed"].users
    for needed_users in variant.needed:
        assert needed_users.users_low <= needed_users.users
        assert needed_users.hours == needed_users.users / 100
        assert (needed_users.metric, needed_users.k) == ("ndcg", 10)


def test_the_likely_verdict_comes_first() -> None:
    falling, rising = (experiment({"control": 0.3, "treatment": chance}, users=300) for chance in (0.27, 0.32))
    for report, word in ((falling, "regressed"), (rising, "improved")):
        measure = treatment(report).measures[0]
        assert measure.lift is not None
        assert (measure.lift < 0) == (word == "regressed")
        assert needed_of(report, treatment(report))[0].verdict == word


def test_an_excluded_lift_is_not_planned_for() -> None:
    report = experiment({"control": 0.3, "treatment": 0.301}, users=20_000)
    measure = treatment(report).measures[0]
    assert measure.lift_lower is not None
    assert measure.lift_lower > -0.1
    assert [needed_users.verdict for needed_users in needed_of(report, treatment(report))] == ["safe"]


def test_only_inconclusive_variants_of_sound_experiments_need_something() -> None:
    regressed = with_needed(experiment({"control": 0.3, "treatment": 0.15}))
    assert treatment(regressed).needed == ()
    few = with_needed(experiment({"control": 0.3, "treatment": 0.3}, users=60))
    assert all(variant.needed == () for variant in few.variants)
    uneven = with_needed(experiment({"control": 0.3, "treatment": 0.3}, users={"control": 2_000, "treatment": 400}))
    assert uneven.verdict.word == "invalid"
    assert all(variant.needed == () for variant in uneven.variants)


def test_hours_are_unknown_without_a_rate() -> None:
    variant = treatment(with_needed(experiment({"control": 0.3, "treatment": 0.3}, users=400)))
    assert {(needed_users.hours, needed_users.hours_low, needed_users.hours_high) for needed_users in variant.needed} == {
        (None, None, None)
    }


def test_a_gate_with_a_wider_margin_is_safe_sooner() -> None:
    report = experiment({"control": 0.3, "treatment": 0.3}, users=1_000)
    safe, gate = (
        next(needed_users for needed_users in needed_of(report, treatment(report), margin=margin) if needed_users.verdict == "safe")
        for margin in (None, 0.05)
    )
    assert gate.users < safe.users / 10


def test_a_waiting_gate_says_what_it_needs() -> None:
    report = with_needed(experiment({"control": 0.3, "treatment": 0.3}, users=1_000), users_per_hour=100.0)
    variant = treatment(report)
    assert variant.gate is not None
    assert variant.gate.word == "wait"
    assert variant.gate_needed is not None
    safe = next(needed_users for needed_users in variant.needed if needed_users.verdict == "safe")
    assert 0 < variant.gate_needed.users < safe.users / 10
    assert needed_words(variant.gate_needed, "to pass the gate").endswith(" more days, to pass the gate")
    passed = with_needed(experiment({"control": 0.3, "treatment": 0.3}, users=20_000))
    assert treatment(passed).gate_needed is None


def test_a_gate_that_waits_though_all_is_within_its_margin_plans_no_users() -> None:
    report = experiment({"control": 0.5, "treatment": 0.5}, users=9_000)
    variant = treatment(report)
    assert (variant.gate and variant.gate.word, variant.verdict and variant.verdict.word) == ("pass", "inconclusive")
    waits = replace(variant, gate=GateDecision("wait", "80 more users of control are needed since the last step"))
    assert gate_needed_of(report, waits) is None


def test_several_treatments_share_the_error_and_need_more() -> None:
    report = experiment({"control": 0.3, "treatment": 0.3}, users=400)
    one, four = (
        next(
            needed_users.users
            for needed_users in needed_of(replace(report, treatments=count), treatment(report))
            if needed_users.verdict == "safe"
        )
        for count in (1, 4)
    )
    assert four > one


def test_safe_needs_every_deciding_measure_and_a_drop_only_one() -> None:
    kept = stored({"control": 0.3, "treatment": 0.3}, users=400)
    alone, both = (
        build_report(MEASURES, policy, kept, choose_scales(MEASURES, policy, kept, {}))
        for policy in (Policy(paging=("ndcg@10",)), Policy(paging=("ndcg@10", "hit_rate@5")))
    )
    of_one, of_both = (
        {needed_users.verdict: needed_users.users for needed_users in needed_of(report, treatment(report))} for report in (alone, both)
    )
    assert of_both["safe"] >= of_one["safe"]
    assert of_both["regressed"] <= of_one["regressed"]


def test_no_number_is_told_for_a_drop_that_waits_for_the_other_measures_which_share_the_error() -> None:
    report = experiment({"control": 0.3, "treatment": 0.26}, users=1_500)
    (ndcg,) = (measure for measure in treatment(report).measures if measure.paging)
    assert ndcg.verdict is not None
    assert ndcg.verdict.word == "regressed"
    opened = replace(ndcg, verdict=replace(ndcg.verdict, word="inconclusive"))  # as a second deciding measure leaves it
    waits = replace(treatment(report), verdict=replace(ndcg.verdict, word="inconclusive"), measures=(opened,))
    assert [needed_users for needed_users in needed_of(report, waits) if needed_users.users == 0] == []


@pytest.mark.parametrize("chance", [0.3, 0.28])
def test_the_words_name_the_variant(chance: float) -> None:
    report = with_needed(experiment({"control": 0.3, "treatment": chance}, users=300), users_per_hour=50.0)
    (words,) = needed_sentences(report)
    assert words.startswith("treatment needs about ")
    assert " more hours, to find a " in words or " more days, to find a " in words
