"""The report of stored integers: what it shows, what it hides, and that JSON and series agree."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streammetrics.config.experiments import settings_text
from streammetrics.errors import ExperimentError
from streammetrics.experiments import Hours, add_credits
from streammetrics.experiments.building import build_report, choose_scales
from streammetrics.experiments.experiment_report import ExperimentReport
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import FeedbackCounts, StoredSums
from streammetrics.exporters.prometheus.experiments import measure_rows, preference_rows
from streammetrics.metrics import Scorer
from streammetrics.reports.published import encoded
from streammetrics.statistics.estimates import difference, estimate, largest_user_share_max
from streammetrics.statistics.measures import Measures
from streammetrics.statistics.moments import add, of_users
from streammetrics.statistics.sequence import Mixture
from tests.support.columns import MEASURES, ONE, WITH_COVARIATES
from tests.support.experiment_samples import ONE_DAY, in_one_hour


def arm(users: int, chance: float, seed: int, ndcg: float = 1.0) -> list[int]:
    """Moments of users with hits at random. Every metric follows the hits; each hit adds `ndcg`."""
    random = np.random.default_rng(seed)
    lists = random.integers(1, 8, users)
    hits = random.binomial(lists, np.clip(random.normal(chance, 0.1, users), 0, 1))
    return of_users(
        MEASURES,
        [[int(n), int(y * ndcg * ONE), int(y) * ONE, int(y), 5 * int(n), int(y) << 33] for n, y in zip(lists, hits, strict=True)],
    )


def stored(moments: Mapping[str, list[int]], measures: Measures | None = None, **others: object) -> StoredSums:
    exposures = {variant: sums[0] for variant, sums in moments.items()}
    given: dict[str, Any] = {"experiment": "ranker", "scope": "start", "first_list_users": exposures, **others}
    layouts = {layout.moments_width: layout for layout in (MEASURES, WITH_COVARIATES, measures or MEASURES)}
    return StoredSums(**in_one_hour(layouts[len(next(iter(moments.values())))], moments), **given)


def report_of(policy: Policy, kept: StoredSums) -> ExperimentReport:
    return build_report(MEASURES, replace(policy, settings_text=settings_text), kept, choose_scales(MEASURES, policy, kept, {}))


def test_a_drop_is_reported_as_a_regression_with_its_numbers() -> None:
    moments = {"control": arm(2_000, 0.5, 1), "treatment": arm(2_000, 0.4, 2)}
    report = report_of(Policy(paging=("ndcg@10",)), stored(moments))
    assert (report.control, [variant.role for variant in report.variants]) == ("control", ["control", "treatment"])
    control, treatment = report.variants
    ndcg = treatment.measures[0]
    assert (ndcg.metric, ndcg.k, ndcg.paging) == ("ndcg", 10, True)
    assert ndcg.verdict is not None
    assert ndcg.verdict.word == report.verdict.word == "regressed"
    assert report.verdict.reason == f"treatment: {ndcg.verdict.reason}"
    treatment_estimate, against = (estimate(MEASURES, MEASURES.all[0], moments[name]) for name in ("treatment", "control"))
    assert treatment_estimate is not None
    assert against is not None
    assert (ndcg.mean, ndcg.error, ndcg.lift) == pytest.approx(
        (treatment_estimate.mean, math.sqrt(treatment_estimate.variance), treatment_estimate.mean / against.mean - 1)
    )
    assert (ndcg.tau, ndcg.minimum_difference) == pytest.approx(
        (math.sqrt(treatment_estimate.variance + against.variance), 0.1 * against.mean)
    )
    assert ndcg.tau is not None
    mixture = Mixture(ndcg.tau, ndcg.minimum_difference)
    assert (ndcg.difference, ndcg.difference_lower, ndcg.difference_upper) == pytest.approx(
        difference(treatment_estimate, against, mixture, 0.05)
    )
    assert ndcg.p_value is not None
    assert ndcg.p_value < 1e-6
    assert ndcg.lift_lower is not None
    assert ndcg.lift_upper is not None
    assert ndcg.lift_lower < ndcg.lift < ndcg.lift_upper < 0  # type: ignore[operator]
    assert all(measure.verdict is None and measure.lift is None for measure in control.measures)
    assert [f"{measure.metric}@{measure.k}" for measure in treatment.measures] == list(MEASURES.names)


def test_scales_are_chosen_once_and_used_at_every_later_look() -> None:
    first = {"control": arm(150, 0.3, 1), "treatment": arm(150, 0.3, 2)}
    frozen = choose_scales(MEASURES, Policy(), stored(first), {})
    assert sorted(frozen) == sorted([*MEASURES.names, *(f"{name} control" for name in MEASURES.names)])
    later = {"control": arm(5_000, 0.3, 3), "treatment": arm(5_000, 0.3, 4)}
    assert choose_scales(MEASURES, Policy(), stored(later), frozen) == {}
    measures = build_report(MEASURES, Policy(), stored(later), frozen).variants[1].measures
    assert {f"{measure.metric}@{measure.k}": measure.tau for measure in measures} == {name: frozen[name] for name in MEASURES.names}
    assert all(measure.minimum_difference == 0.1 * frozen[f"{measure.metric}@{measure.k} control"] for measure in measures)


def test_min_users_are_enough_for_scales_and_numbers() -> None:
    moments = {"control": arm(100, 0.3, 1), "treatment": arm(100, 0.3, 2)}
    assert {*MEASURES.names} <= choose_scales(MEASURES, Policy(), stored(moments), {}).keys()
    report = report_of(Policy(), stored(moments, credits={("control", "treatment"): credit(100, 0.5)}))
    assert [len(variant.measures) for variant in report.variants] == [len(MEASURES), len(MEASURES)]
    assert report.preferences[0].credit_lower is not None
    assert "needs at least" not in report.preferences[0].verdict.reason


def test_no_scale_is_chosen_without_two_arms_to_compare() -> None:
    enough, few, empty = arm(150, 0.5, 1), arm(99, 0.5, 2), arm(150, 0.0, 3)
    assert choose_scales(MEASURES, Policy(), stored({"control": enough, "treatment": few}), {}) == {}
    assert choose_scales(MEASURES, Policy(), stored({"one": enough, "two": enough}), {}) == {}
    hits_without_any = of_users(MEASURES, [[1, 0, 0, 0, 5, 0]] * 150)
    assert choose_scales(MEASURES, Policy(), stored({"control": hits_without_any, "treatment": hits_without_any}), {}) == {}
    report = report_of(Policy(), stored({"control": hits_without_any, "treatment": hits_without_any}))
    verdict = report.variants[1].measures[0].verdict
    assert verdict is not None
    assert verdict.reason == "ndcg@10 is 0 in every variant so far"
    assert empty[0] == 150


def test_a_report_without_frozen_scales_says_so() -> None:
    report = build_report(MEASURES, Policy(), stored({"control": arm(150, 0.5, 1), "treatment": arm(150, 0.4, 2)}), {})
    verdict = report.variants[1].measures[0].verdict
    assert verdict is not None
    wanted = "the scale of ndcg@10 is not frozen: an exporter freezes it once control and another variant have 100 users since the start"
    assert verdict.reason == wanted


def test_arms_without_variance_have_no_verdict_and_teams_have_one() -> None:
    all_hit, half = ([[1, hit * ONE, hit * ONE, hit, 5, dcg]] * 500 for hit, dcg in ((1, 1 << 40), (1, 1 << 39)))
    report = report_of(Policy(paging=("dcg@10",)), stored({"control": of_users(MEASURES, all_hit), "treatment": of_users(MEASURES, half)}))
    assert report.verdict.word == "inconclusive"
    assert report.verdict.reason.endswith("so far; the users of an arm all have the same value, so no confidence can be given")
    credits: dict[tuple[str, str], list[int]] = {}
    for _ in range(500):
        add_credits(credits, {("new", "old"): (1, 1, -1, -1)}, 1)
    (preference,) = report_of(Policy(control="new"), stored({"interleaved": of_users(MEASURES, all_hit)}, credits=credits)).preferences
    wanted = "old won 100 fewer lists in 100 than it lost against new; users prefer new; 95 % confidence, safe to check at any time"
    assert (preference.verdict.word, preference.verdict.reason) == ("regressed", wanted)


def test_an_arm_with_too_few_users_shows_no_measures() -> None:
    report = report_of(Policy(), stored({"control": arm(150, 0.5, 1), "treatment": arm(99, 0.1, 2)}))
    assert [(variant.users, len(variant.measures)) for variant in report.variants] == [(150, len(MEASURES)), (99, 0)]
    assert report.verdict.word == "inconclusive"
    assert report.verdict.reason == "each arm needs at least 100 users: treatment has 99"
    report = report_of(Policy(), stored({"control": arm(99, 0.5, 1), "treatment": arm(150, 0.1, 2)}))
    verdict = report.variants[1].measures[0].verdict
    assert verdict is not None
    assert verdict.reason == "control has fewer than 100 users"


def test_a_broken_experiment_is_invalid_at_once_in_every_verdict() -> None:
    moments = {"control": arm(900, 0.5, 1), "treatment": arm(1_100, 0.3, 2)}
    report = report_of(Policy(shares={"control": 1, "treatment": 1}), stored(moments))
    words = {measure.verdict.word for variant in report.variants for measure in variant.measures if measure.verdict}
    assert words == {report.verdict.word} == {"invalid"}
    assert "not split" in report.verdict.reason
    early = report_of(
        Policy(shares={"control": 1, "treatment": 1}), stored({"control": arm(90, 0.5, 1)}, first_list_users={"control": 400})
    )
    assert early.verdict.word == "invalid"
    assert [(variant.variant, variant.users) for variant in early.variants] == [("control", 90), ("treatment", 0)]


def test_the_experiment_has_the_worst_verdict_of_its_deciding_measures() -> None:
    moments = {"control": arm(2_000, 0.5, 1), "good": arm(2_000, 0.6, 2), "bad": arm(2_000, 0.4, 3)}
    report = report_of(Policy(paging=("dcg@10", "hit_rate@5")), stored(moments))
    assert report.verdict.word == "regressed"
    assert report.verdict.reason.startswith("bad: ")
    assert [(variant.variant, variant.verdict and variant.verdict.word) for variant in report.variants] == [
        ("control", None),
        ("bad", "regressed"),
        ("good", "improved"),
    ]
    assert report_of(Policy(), stored({name: moments[name] for name in ("control", "good")})).verdict.word == "improved"
    unknown = report_of(Policy(), stored({"x": moments["control"], "y": moments["good"]}))
    assert unknown.verdict.reason == (
        'no variant is the control. Set under [experiments.named.ranker]: control = "NAME", '
        "with the name of the one that you compare with: x, y"
    )
    alone = report_of(Policy(), stored({"x": moments["control"]}))
    assert alone.verdict.reason == "only x has users so far; a comparison needs a control, too"


@pytest.mark.parametrize(
    ("variants", "setting"),
    [
        (("candidate", "production"), 'control = "production" (or one of: candidate)'),
        (("false", "true"), 'control = "false" (or one of: true)'),
        (("b", "a", "holdout"), 'control = "a" (or one of: b)'),
        (("a new one", "ranker, original"), 'control = "ranker, original" (or one of: a new one)'),
        (("old 1", "old 2"), 'control = "NAME", with the name of the one that you compare with: old 1, old 2'),
    ],
)
def test_the_control_is_proposed_by_what_names_mean(variants: tuple[str, ...], setting: str) -> None:
    report = report_of(Policy(holdout="holdout"), stored({name: arm(200, 0.5, number) for number, name in enumerate(variants, 1)}))
    assert report.verdict.reason.endswith(f"Set under [experiments.named.ranker]: {setting}")


def test_a_control_that_nobody_saw_is_reported_with_its_setting_and_the_variants_seen() -> None:
    moments = {"new": arm(2_000, 0.5, 1), "old": arm(2_000, 0.6, 2)}
    report = report_of(Policy(control="controll"), stored(moments))
    assert report.verdict.word == "inconclusive"
    assert report.verdict.reason == (
        "no user saw the control 'controll'. Variants seen: new, old. "
        'Correct the setting under [experiments.named.ranker]: control = "old" (or one of: new)'
    )
    assert report.variants[0].measures[0].verdict is not None
    assert report.variants[0].measures[0].verdict.reason == "no user saw the control 'controll'"


def test_other_measures_do_not_decide() -> None:
    moments = {"control": arm(2_000, 0.5, 1), "treatment": arm(2_000, 0.6, 2, ndcg=0.6)}
    cases: list[tuple[tuple[str, ...], str, str, str]] = [
        (("hit_rate@5",), "regressed", "improved", "improved"),
        (("item_hit_rate@5", "hit_rate@5"), "regressed", "improved", "improved"),
        (("ndcg@10",), "mixed", "improved", "mixed"),
        (("hit_rate@5", "ndcg@10"), "mixed", "mixed", "mixed"),
    ]
    for paging, ndcg, hit_rate, word in cases:
        report = report_of(Policy(paging=paging), stored(moments))
        words = {f"{measure.metric}@{measure.k}": measure.verdict and measure.verdict.word for measure in report.variants[1].measures}
        assert (words["ndcg@10"], words["hit_rate@5"], report.verdict.word) == (ndcg, hit_rate, word), paging
        assert [f"{row.metric}@{row.k}" for row in measure_rows(report) if row.series == "paging"] == sorted(paging, key=list(words).index)


CLICKED = Measures(Scorer(["ndcg@10", "dcg@10", "item_hit_rate@10"]).columns)


def clicks(users: int, ranks: tuple[int, ...], seed: int) -> list[int]:
    """Moments of users with one list of 10 items each. 60 % of the lists have a click at each of these ranks."""
    gain = sum(1 / math.log2(1 + rank) for rank in ranks)
    ideal = sum(1 / math.log2(1 + place) for place in range(1, len(ranks) + 1))
    clicked = np.random.default_rng(seed).random(users) < 0.6
    rows = [[1, int(gain / ideal * ONE), int(gain * 2**32), len(ranks), 10] if hit else [1, 0, 0, 0, 10] for hit in clicked]
    return of_users(CLICKED, rows)


def test_one_click_at_rank_1_against_three_lower_clicks_is_mixed_and_explained() -> None:
    moments = {"control": clicks(2_000, (1,), 1), "treatment": clicks(2_000, (2, 4, 6), 2)}
    scales = choose_scales(CLICKED, Policy(), stored(moments, CLICKED), {})
    for paging in ((), ("ndcg@10",)):
        report = build_report(CLICKED, Policy(paging=paging), stored(moments, CLICKED), scales)
        assert (report.verdict.word, report.verdict.code) == ("mixed", -3)
        assert "lower ndcg@10 than control, but" in report.verdict.reason
        assert report.verdict.reason.endswith("; the measures contradict each other: choose which one counts")
        (ndcg,) = (measure for measure in report.variants[1].measures if measure.metric == "ndcg")
        assert ndcg.verdict is not None
        assert ndcg.verdict.word == "mixed"
        assert -0.45 < (ndcg.lift or 0) < -0.25
        assert -1 not in [row.value for row in measure_rows(report) if row.series == "verdict"]
    assert (
        "more hits among the items shown in the first 10"
        in build_report(CLICKED, Policy(), stored(moments, CLICKED), scales).verdict.reason
    )
    alone = build_report(CLICKED, Policy(paging=("item_hit_rate@10",)), stored(moments, CLICKED), scales)
    assert alone.verdict.word == "improved"


def test_a_regressed_variant_beside_a_mixed_one_still_pages() -> None:
    moments = {"control": clicks(2_000, (1,), 1), "other": clicks(2_000, (2, 4, 6), 2), "worse": clicks(2_000, (9,), 3)}
    report = build_report(
        CLICKED, Policy(paging=("ndcg@10",)), stored(moments, CLICKED), choose_scales(CLICKED, Policy(), stored(moments, CLICKED), {})
    )
    assert [variant.verdict and variant.verdict.word for variant in report.variants] == [None, "mixed", "regressed"]
    assert (report.verdict.word, report.verdict.reason[:7]) == ("regressed", "worse: ")


def dominated(users: int, chance: float, seed: int, lists: int) -> list[int]:
    """Moments of usual users and one user with `lists` lists, all hits."""
    return add(arm(users, chance, seed), of_users(MEASURES, [[lists, lists * ONE, lists * ONE, lists, 5 * lists, lists << 33]]))


def test_without_enough_effective_users_no_interval_and_no_verdict_counts() -> None:
    moments = {"control": arm(600, 0.4, 1), "treatment": dominated(600, 0.4, 2, 1_600)}
    assert choose_scales(MEASURES, Policy(), stored(moments), {}).keys() == {"user_hit_rate@5", "user_hit_rate@5 control"}
    blind = Policy(effective_users_min=0)
    scales = choose_scales(MEASURES, blind, stored(moments), {})
    assert build_report(MEASURES, blind, stored(moments), scales).variants[1].measures[0].lift_lower is not None
    report = build_report(MEASURES, Policy(), stored(moments), scales)
    treatment = report.variants[1]
    ndcg = treatment.measures[0]
    assert (ndcg.lift_lower, ndcg.lift_upper, ndcg.p_value, ndcg.difference, ndcg.judged_lift_upper) == (None,) * 5
    assert ndcg.lift is not None
    assert 1 < treatment.effective_users < 20
    assert 0.35 < treatment.largest_user_share_max < 0.45
    assert treatment.largest_user_share_max == largest_user_share_max(601, treatment.effective_users), "of the users of this arm alone"
    assert (report.verdict.word, treatment.verdict and treatment.verdict.word) == ("inconclusive", "inconclusive")
    assert report.verdict.reason.startswith("treatment: a few users dominate treatment: its 601 users count as ")
    assert report.verdict.reason.endswith(" % of its lists")
    rows = {(row.series, row.variant): row.value for row in measure_rows(report) if row.series.startswith(("effective", "largest"))}
    assert rows["effective_users", "treatment"] == treatment.effective_users
    assert rows["largest_user_share_max", "treatment"] == treatment.largest_user_share_max


def rare(users: int, hits: int) -> list[int]:
    """Moments of users with one list each; so many have a hit at the top."""
    return of_users(MEASURES, [[1, ONE, ONE, 5, 5, 1 << 33]] * hits + [[1, 0, 0, 0, 5, 0]] * (users - hits))


@pytest.mark.parametrize(
    ("control", "treatment", "word"),
    [
        ((4_750, 110), (250, 0), "inconclusive"),
        ((20_000, 400), (1_500, 3), "regressed"),
        ((4_750, 4_655), (250, 250), "inconclusive"),
        ((20_000, 19_600), (1_500, 1_500), "improved"),
    ],
)
def test_a_small_arm_without_hits_or_without_misses_needs_many_users(
    control: tuple[int, int], treatment: tuple[int, int], word: str
) -> None:
    """2 % or 98 % of the users have a hit. An arm that has none, or all, has no variance of its own."""
    moments, policy = {"control": rare(*control), "treatment": rare(*treatment)}, Policy(paging=("hit_rate@5",), margin=0.0)
    report = build_report(MEASURES, policy, stored(moments), choose_scales(MEASURES, policy, stored(moments), {}))
    hit_rate = next(measure for measure in report.variants[1].measures if measure.metric == "hit_rate")
    assert hit_rate.verdict is not None
    assert hit_rate.verdict.word == word
    assert hit_rate.lift_lower is not None


def test_without_shares_the_split_is_not_checked_and_never_invalid() -> None:
    for control, treatment in ((1_800, 200), (2_000, 110)):
        moments = {"control": arm(control, 0.5, 1), "treatment": arm(treatment, 0.5, 2)}
        report = report_of(Policy(), stored(moments))
        assert report.verdict.word != "invalid"
        assert (report.health.sample_ratio_p, report.health.troubles) == (None, ())
        (note,) = report.health.notes
        assert note.startswith("split not checked: no shares configured. To check it, set under [experiments.named.ranker]: shares = { ")
        assert "srm_p_value" not in {row.series for row in measure_rows(report)}


def test_every_arm_shares_alpha_also_without_shares() -> None:
    """A drop that is certain for one treatment alone is not certain for one of nine."""
    moments = {"control": arm(3_000, 0.5, 1), "worse": arm(3_000, 0.469, 2)}
    others = {f"other-{number}": arm(300, 0.5, 10 + number) for number in range(8)}
    scales = choose_scales(MEASURES, Policy(), stored(moments), {})
    alone = build_report(MEASURES, Policy(margin=0.0), stored(moments), scales)
    beside = build_report(MEASURES, Policy(margin=0.0), stored(moments | others), scales)
    assert alone.verdict.word == "regressed"
    (worse,) = (variant for variant in beside.variants if variant.variant == "worse")
    assert worse.verdict is not None
    assert worse.verdict.word == "inconclusive"


def test_two_measures_decide_by_default_if_they_are_measured() -> None:
    moments = {"control": arm(2_000, 0.5, 1), "treatment": arm(2_000, 0.4, 2)}
    assert report_of(Policy(), stored(moments)) == report_of(Policy(paging=("ndcg@10",)), stored(moments))
    assert Policy().deciding(CLICKED).paging == ("ndcg@10", "item_hit_rate@10")
    others = Measures(Scorer(["mrr@3", "ndcg@5", "precision@5"]).columns)
    assert Policy().deciding(others).paging == ("mrr@3",)
    assert Policy(paging=("ndcg@5",)).deciding(others).paging == ("ndcg@5",)


def test_the_order_of_partitions_does_not_matter() -> None:
    parts = [arm(300, 0.5, seed) for seed in range(4)]
    one, other = add(add(parts[0], parts[1]), add(parts[2], parts[3])), add(add(parts[3], parts[1]), add(parts[0], parts[2]))
    control = arm(1_200, 0.45, 9)
    assert report_of(Policy(), stored({"control": control, "treatment": one})) == report_of(
        Policy(), stored({"control": control, "treatment": other})
    )


def test_series_and_json_agree_with_the_report() -> None:
    report = report_of(Policy(), stored({"control": arm(600, 0.5, 1), "treatment": arm(600, 0.45, 2)}, joined=FeedbackCounts(900, 100)))
    rows = list(measure_rows(report))
    assert len({row[:-1] for row in rows}) == len(rows)
    by_name: dict[str, list[tuple[str, str, str]]] = {}
    for row in rows:
        assert (row.experiment, row.scope) == ("ranker", "start")
        assert math.isfinite(row.value)
        by_name.setdefault(row.series, []).append((row.variant, row.metric, row.k))
    measured = [(measure.metric, str(measure.k)) for measure in report.variants[0].measures]
    assert "srm_p_value" not in by_name
    assert by_name["users"] == [("control", "", ""), ("treatment", "", "")]
    assert by_name["mean"] == [(variant, *measure) for variant in ("control", "treatment") for measure in measured]
    assert by_name["lift"] == by_name["lift_lower"] == by_name["lift_upper"] == [("treatment", *measure) for measure in measured]
    assert by_name["verdict"] == [("", "", ""), *by_name["lift"]]
    plain = json.loads(encoded(report))
    parts = [[*part] for part in report.verdict.parts]
    assert plain["verdict"] == {"word": report.verdict.word, "reason": report.verdict.reason, "parts": parts}
    assert plain["variants"][1]["measures"][0]["lift_lower"] == report.variants[1].measures[0].lift_lower
    assert plain["health"]["unmatched_share"] == 0.1


def test_variance_reduction_narrows_the_interval_and_is_reported() -> None:
    random = np.random.default_rng(6)
    moments, plain = {}, {}
    for name in ("control", "treatment"):
        taste = random.uniform(0, 1, 1_500)
        hits, earlier = random.binomial(5, taste), random.binomial(8, taste)
        rows = [[5, int(y) * ONE, int(y) * ONE, int(y), 25, int(y) << 33] for y in hits]
        before = [WITH_COVARIATES.covariate_values([8, int(x) * ONE, int(x) * ONE, int(x), 40, int(x) << 33]) for x in earlier]
        moments[name], plain[name] = of_users(WITH_COVARIATES, rows, before), of_users(MEASURES, rows)
    scales = choose_scales(MEASURES, Policy(), stored(plain), {})
    report = build_report(WITH_COVARIATES, Policy(), stored(moments), scales)
    measure = report.variants[1].measures[0]
    without = build_report(MEASURES, Policy(), stored(plain), scales).variants[1].measures[0]
    assert without.reduced is None
    assert replace(measure, reduced=None) == without
    assert measure.reduced is not None
    assert measure.reduced.variance_reduction > 0.3
    assert measure.reduced.users_with_earlier == 3_000
    assert report.variants[0].measures[0].reduced is None
    assert measure.reduced.lift != measure.lift
    assert None not in (measure.reduced.lift_upper, measure.reduced.lift_lower, measure.lift_upper, measure.lift_lower)
    assert measure.reduced.lift_upper - measure.reduced.lift_lower < 0.85 * (measure.lift_upper - measure.lift_lower)  # type: ignore[operator]
    rows = {
        row.series: row.value
        for row in measure_rows(report)
        if (row.variant, row.metric, row.k) == ("treatment", measure.metric, str(measure.k))
    }
    assert rows["variance_reduction"] == measure.reduced.variance_reduction
    assert rows["judged_lift_upper"] == measure.lift_upper
    reduced = build_report(WITH_COVARIATES, Policy(cuped_verdict=True), stored(moments), scales)
    judged = [row.value for row in measure_rows(reduced) if row.series == "judged_lift_upper"]
    assert judged == [measure.reduced.lift_upper] != [measure.lift_upper]
    assert {name: rows[f"reduced_{name}"] for name in ("mean", "lift", "lift_lower", "lift_upper")} == {
        name: getattr(measure.reduced, name) for name in ("mean", "lift", "lift_lower", "lift_upper")
    }


def test_the_verdict_uses_the_plain_interval_unless_cuped_verdict_is_set() -> None:
    """The drop is certain only with reduced variance."""
    random = np.random.default_rng(6)
    moments = {}
    for name, drop in (("control", 0.0), ("treatment", 0.02)):
        users, noise = random.uniform(0, 1, 2_000), random.uniform(0, 0.1, 2_000)
        rows = [[1, int((0.1 + 0.8 * habit + luck - drop) * ONE), 0, 0, 5, 0] for habit, luck in zip(users, noise, strict=True)]
        before = [WITH_COVARIATES.covariate_values([1, int(habit * ONE), 0, 0, 5, 0]) for habit in users]
        moments[name] = of_users(WITH_COVARIATES, rows, before)
    words = []
    for policy in (Policy(), Policy(cuped_verdict=True)):
        scales = choose_scales(WITH_COVARIATES, policy, stored(moments), {})
        verdict = build_report(WITH_COVARIATES, policy, stored(moments), scales).variants[1].measures[0].verdict
        assert verdict is not None
        words.append(verdict.word)
    assert words == ["inconclusive", "regressed"]


def credit(users: int, won: float, lists: int = 3) -> list[int]:
    """Moments of users: a share `won` of them prefers the second team in every list, the others the first."""
    total: dict[tuple[str, str], list[int]] = {}
    for user in range(users):
        first, sign = lists // 2 + user % 2 * (lists % 2), 1 if user < won * users else -1
        add_credits(total, {("a", "b"): (first, lists - first, sign * first, sign * (lists - first))}, 1)
    return total["a", "b"]


def test_a_preferred_team_is_reported_with_its_interval() -> None:
    kept = stored({"interleaved": arm(400, 0.4, 1)}, credits={("new", "old"): credit(400, 0.3)})
    report = report_of(Policy(control="old"), kept)
    (new,) = report.preferences
    assert (new.team, new.against, new.users, new.lists, new.credit) == ("new", "old", 400, 1_200, 0.4)
    assert new.credit_lower is not None
    assert 0 < new.credit_lower < 0.4
    assert report.verdict == new.verdict
    assert (new.verdict.word, [variant.role for variant in report.variants]) == ("improved", ["interleaved"])
    rows = {row.series: row.value for row in preference_rows(report)}
    assert rows == {
        "credit": 0.4,
        "credit_lower": new.credit_lower,
        "credit_upper": new.credit_upper,
        "users": 400,
        "lists": 1_200,
        "verdict": 2,
    }
    assert json.loads(encoded(report))["preferences"][0]["credit"] == 0.4


@pytest.mark.parametrize(
    ("pair", "control", "against"),
    [
        (("control", "new"), None, "control"),
        (("A", "Baseline"), None, "Baseline"),
        (("A", "B"), None, "A"),
        (("A", "B"), "B", "B"),
        (("A", "B"), "control", "A"),
        (("old", "new"), None, "new"),
    ],
)
def test_teams_are_shown_against_the_control_or_else_the_first_team(pair: tuple[str, str], control: str | None, against: str) -> None:
    report = report_of(Policy(control=control), stored({"interleaved": arm(200, 0.4, 1)}, credits={pair: credit(200, 0.6)}))
    (only,) = report.preferences
    assert (only.against, {only.team, only.against}) == (against, {*pair})
    assert only.credit == pytest.approx(0.2 if against == pair[0] else -0.2)


@pytest.mark.parametrize(
    ("control", "reason"),
    [
        (None, 'no team is the control. Set under [experiments.named.ranker]: control = "old" (or one of: new)'),
        (
            "prod",
            "no team is the control 'prod'. Teams seen: new, old. Send one of them as 'prod', or correct the setting under"
            ' [experiments.named.ranker]: control = "old" (or one of: new)',
        ),
    ],
)
def test_interleaved_teams_without_a_control_have_no_verdict(control: str | None, reason: str) -> None:
    credits = {("new", "old"): credit(2_000, 0.6)}
    report = report_of(Policy(control=control), stored({"interleaved": arm(2_000, 0.4, 1)}, credits=credits))
    (only,) = report.preferences
    assert (report.verdict.word, report.verdict.reason) == (only.verdict.word, only.verdict.reason) == ("inconclusive", reason)
    assert (report.gate and report.gate.word, report.gate and report.gate.reason) == ("wait", f"{only.team}: {reason}")
    assert only.credit_lower is not None
    named = report_of(Policy(control="old"), stored({"interleaved": arm(2_000, 0.4, 1)}, credits=credits))
    assert (named.verdict.word, named.gate and named.gate.word) == ("regressed", "fail")


def test_each_action_has_a_preference_of_its_own_that_decides_nothing() -> None:
    credits: dict[tuple[str, str], list[int]] = {}
    for user in range(400):
        click, purchase = 1 if user % 4 else -1, 1 if user % 20 == 0 else -1 if user % 20 < 5 else 0
        add_credits(credits, {("new", "old"): (1, 1, click, click, purchase, purchase)}, 1)
    kept = replace(stored({"interleaved": arm(400, 0.4, 1)}, credits=credits), credit_actions=("click", "purchase"))
    report = report_of(Policy(control="old"), kept)
    (clicks,), (purchases,) = report.preferences, report.preferences_by_action
    assert (clicks.action, clicks.credit, clicks.verdict.word) == ("click", -0.5, "regressed")
    assert (purchases.action, purchases.credit, purchases.verdict.word) == ("purchase", 0.15, "improved")
    assert report.verdict == clicks.verdict
    assert {row.value for row in preference_rows(report) if row.series == "credit"} == {-0.5}


def test_a_team_that_always_drafts_first_gives_no_verdict() -> None:
    credits: dict[tuple[str, str], list[int]] = {}
    for user in range(400):
        add_credits(credits, {("a", "b"): (3, 0, -2 if user % 9 else 1, 0)}, 1)
    (only,) = report_of(Policy(control="a"), stored({"interleaved": arm(400, 0.4, 1)}, credits=credits)).preferences
    assert (only.first_share, only.credit_lower, only.verdict.word) == (0.0, None, "inconclusive")
    assert only.verdict.reason.endswith("b never drafts first, so draft bias cannot be removed: let a coin decide for each list")


def test_an_interleaved_arm_is_not_compared_with_other_arms() -> None:
    moments = {"control": arm(2_000, 0.5, 1), "interleaved": arm(2_000, 0.3, 2), "treatment": arm(2_000, 0.5, 3)}
    report = report_of(Policy(), stored(moments, credits={("control", "treatment"): credit(2_000, 0.1)}))
    assert {variant.variant: variant.measures[0].lift is None for variant in report.variants} == {
        "control": True,
        "interleaved": True,
        "treatment": False,
    }
    assert report.preferences[0].verdict.word == "regressed"
    assert report.verdict.word != "regressed"


def test_teams_have_no_verdict_in_a_broken_experiment_or_with_few_users() -> None:
    few = report_of(Policy(control="A"), stored({"interleaved": arm(60, 0.4, 1)}, credits={("A", "B"): credit(60, 0.1)}))
    assert few.preferences[0].credit_lower is None
    assert few.verdict.reason == "each arm needs at least 100 users: B against A has 60"
    broken = report_of(
        Policy(), stored({"interleaved": arm(400, 0.4, 1)}, credits={("A", "B"): credit(400, 0.9)}, joined=FeedbackCounts(10, 190))
    )
    assert broken.preferences[0].verdict.word == broken.verdict.word == "invalid"


def test_lists_of_the_same_hour_are_compared_if_an_arm_joins_late_and_hours_without_an_arm_are_named() -> None:
    """The control's early hours have twice the hits. Compared with all of them, an equal treatment would look much worse."""
    moments = {"control": arm(2_000, 0.6, 1), "late": arm(2_000, 0.4, 2)}
    kept = stored(moments)
    (row,) = kept.hours.rows.values()
    late, control = (row.totals[name, ONE_DAY] for name in ("late", "control"))
    early = [control[0] // 2, *(value - other // 2 for value, other in zip(control[1:], late[1:], strict=True))]
    hours = Hours()
    hours.row(479_999).add_totals("control", ONE_DAY, early)
    hours.row(480_000).add_totals("control", ONE_DAY, [value - before for value, before in zip(control, early, strict=True)])
    hours.row(480_000).add_totals("late", ONE_DAY, late)
    report = report_of(Policy(paging=("ndcg@10",)), replace(kept, hours=hours, run_hours=hours))
    treatment = report.variants[1]
    assert treatment.measures[0].lift == pytest.approx(0.0, abs=0.02)
    (note,) = [str(warning) for warning in report.warnings if warning.key == "silent arm"]
    assert note.startswith("late had no list from 2024-10-03 23:00 UTC to 2024-10-04 00:00 UTC, while the other arm had ")
    assert "under [experiments.named.ranker]: start = 2024-10-04T00:00:00Z" in note


def test_the_mean_of_a_treatment_has_the_weights_of_its_comparison() -> None:
    """The treatment has most of its lists in the second hour, when it has fewer hits. Alone, its mean would hide that of the first."""
    kept = stored({"control": arm(2_000, 0.6, 1), "treatment": arm(2_000, 0.4, 2)})
    (row,) = kept.hours.rows.values()
    control, treatment = (row.totals[name, ONE_DAY] for name in ("control", "treatment"))
    hours, weights, means = Hours(), list[float](), list[float]()
    for hour, of_lists in ((480_000, 0.25), (480_001, 0.75)):
        parts = [round(treatment[0] * of_lists), *(value // 2 for value in treatment[1:])]
        against = [round(value * (1 - of_lists)) for value in control]
        hours.row(hour).add_totals("treatment", ONE_DAY, parts)
        hours.row(hour).add_totals("control", ONE_DAY, against)
        weights.append(parts[0] * against[0] / (parts[0] + against[0]))
        means.append(parts[1] / parts[0] / ONE)
    _, treated = report_of(Policy(paging=("ndcg@10",)), replace(kept, hours=hours, run_hours=hours)).variants
    assert treated.measures[0].mean == pytest.approx(np.average(means, weights=weights))
    assert treated.measures[0].mean > 1.1 * treatment[1] / treatment[0] / ONE


def test_a_holdout_is_reported_and_judged_by_nobody() -> None:
    """It is 40 % worse than the control, and the treatment is alike: with two treatments alpha would be shared, and the worst would win."""
    moments = {"control": arm(4_000, 0.5, 1), "none": arm(400, 0.3, 2), "treatment": arm(4_000, 0.5, 3)}
    with_it = report_of(Policy(holdout="none", shares={"control": 1.0, "treatment": 1.0}), stored(moments))
    shares = {"control": 1.0, "treatment": 1.0}
    without = report_of(Policy(shares=shares), stored({name: sums for name, sums in moments.items() if name != "none"}))
    roles = {variant.variant: variant.role for variant in with_it.variants}
    assert roles == {"control": "control", "none": "holdout", "treatment": "treatment"}
    assert (with_it.verdict, with_it.treatments, with_it.health.troubles) == (without.verdict, 1, ())
    assert with_it.gate == without.gate
    (holdout,) = [variant for variant in with_it.variants if variant.role == "holdout"]
    assert (holdout.verdict, holdout.gate) == (None, None)
    (ndcg, *_) = holdout.measures
    assert ndcg.verdict is None
    assert ndcg.lift_upper is not None
    assert ndcg.lift_upper < 0
    assert not [row for row in measure_rows(with_it) if row.variant == "none" and row.series in ("verdict", "gate")]


def test_a_few_users_of_a_label_without_a_share_are_judged_by_nobody() -> None:
    moments = {"control": arm(10_000, 0.5, 1), "treatment": arm(10_000, 0.5, 2), "typo": arm(150, 0.1, 3)}
    report = report_of(Policy(shares={"control": 1.0, "treatment": 1.0}), stored(moments))
    (typo,) = [variant for variant in report.variants if variant.variant == "typo"]
    assert (typo.verdict, typo.gate) == (None, None)
    assert typo.measures[0].lift is not None
    assert report.verdict.reason.startswith("treatment: ")


def test_users_who_moved_to_a_label_without_a_share_make_the_experiment_invalid() -> None:
    moments = {"control": arm(2_000, 0.5, 1), "treatment": arm(2_000, 0.5, 2), "typo": arm(150, 0.1, 3)}
    report = report_of(
        Policy(shares={"control": 1.0, "treatment": 1.0}), stored(moments, first_list_users={"control": 2_000, "treatment": 2_000})
    )
    assert (report.verdict.word, report.gate.word) == ("invalid", "wait")
    assert "3.6 % of the users saw a variant without a configured share (typo)" in report.verdict.reason


@pytest.mark.parametrize("holdout", ["control", "interleaved"])
def test_a_holdout_is_another_variant_than_the_control(holdout: str) -> None:
    with pytest.raises(ExperimentError, match="holdout: got"):
        Policy(control="control", holdout=holdout)


def test_with_fewer_items_item_hit_rate_is_never_called_improved_and_the_gate_waits() -> None:
    """The treatment shows 4 items instead of 10, and all lists have their hits at the top: its rate rises, and nothing else does."""
    measures = Measures(Scorer(["ndcg@10", "item_hit_rate@10"]).columns)
    random = np.random.default_rng(5)
    moments = {}
    for variant, lists in (("control", 10), ("treatment", 4)):
        rows = np.zeros((3_000, 1 + len(measures.columns)), np.int64)
        rows[:, 0] = 2
        for place, column in enumerate(measures.columns, 1):
            hits = random.binomial(2, 0.4, 3_000)
            rows[:, place] = {"sum": hits << 40, "hits": hits, "places": 2 * lists}[column.kind]
        moments[variant] = of_users(measures, rows)
    policy = Policy(paging=("ndcg@10", "item_hit_rate@10"))
    report = build_report(measures, policy, stored(moments, measures), choose_scales(measures, policy, stored(moments, measures), {}))
    (treatment,) = [variant for variant in report.variants if variant.role == "treatment"]
    rate = next(measure for measure in treatment.measures if measure.metric == "item_hit_rate")
    assert rate.verdict is not None
    assert rate.verdict.word == "inconclusive"
    assert rate.verdict.reason.endswith("so far; treatment shows 4 items per list and control 10, so a rise means nothing")
    assert rate.within_gate_margin is False
    assert report.gate is not None
    assert report.gate.word == "wait"
    told = "treatment shows 4 items per list and control 10: item_hit_rate@10 is per item shown and rises by that alone"
    assert told in [warning.text for warning in report.warnings if warning.variant == "treatment"]
