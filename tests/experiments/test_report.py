"""The report of stored integers: what it shows, what it holds back, and that JSON and series say the same."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np

from streammetrics.experiments.estimates import difference, estimate
from streammetrics.experiments.moments import add, of_users
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.report import ExperimentReport, Stored, build_report, choose_scales
from tests.experiments.columns import MEASURES, ONE, WITH_COVARIATES


def arm(users: int, chance: float, seed: int) -> list[int]:
    """Moments of users whose lists are hits with a chance; every metric follows the hits."""
    random = np.random.default_rng(seed)
    lists = random.integers(1, 8, users)
    hits = random.binomial(lists, np.clip(random.normal(chance, 0.1, users), 0, 1))
    return of_users(
        MEASURES, [[int(n), int(y) * ONE, int(y) * ONE, int(y), 5 * int(n), int(y) << 33] for n, y in zip(lists, hits, strict=True)]
    )


def stored(moments: Mapping[str, list[int]], **others: object) -> Stored:
    exposures = {variant: sums[0] for variant, sums in moments.items()}
    given: dict[str, object] = {"experiment": "ranker", "scope": "start", "first_exposures": exposures, "multi_exposed_users": 0, **others}
    return Stored(moments=moments, **given)  # type: ignore[arg-type]


def told(policy: Policy, kept: Stored) -> ExperimentReport:
    return build_report(MEASURES, policy, kept, choose_scales(MEASURES, policy, kept.moments, {}))


def test_a_drop_is_told_as_a_regression_with_its_numbers() -> None:
    moments = {"control": arm(2_000, 0.5, 1), "treatment": arm(2_000, 0.4, 2)}
    found = told(Policy(paging=("ndcg@10",)), stored(moments))
    assert (found.control, [variant.role for variant in found.variants]) == ("control", ["control", "treatment"])
    control, treatment = found.variants
    ndcg = treatment.measures[0]
    assert (ndcg.metric, ndcg.k, ndcg.paging) == ("ndcg", 10, True)
    assert ndcg.verdict is not None
    assert ndcg.verdict.word == found.verdict.word == "regressed"
    assert found.verdict.reason == f"treatment: {ndcg.verdict.reason}"
    own, against = (estimate(MEASURES, MEASURES.all[0], moments[name]) for name in ("treatment", "control"))
    assert own is not None
    assert against is not None
    assert (ndcg.mean, ndcg.error, ndcg.lift) == (own.mean, math.sqrt(own.variance), own.mean / against.mean - 1)
    assert ndcg.tau is not None
    assert (ndcg.difference, ndcg.difference_lower, ndcg.difference_upper) == difference(own, against, ndcg.tau, 0.05)
    assert ndcg.p_value is not None
    assert ndcg.p_value < 1e-6
    assert ndcg.lift_lower is not None
    assert ndcg.lift_upper is not None
    assert ndcg.lift_lower < ndcg.lift < ndcg.lift_upper < 0  # type: ignore[operator]
    assert all(each.verdict is None and each.lift is None for each in control.measures)
    assert [f"{each.metric}@{each.k}" for each in treatment.measures] == list(MEASURES.names)


def test_scales_are_chosen_once_and_serve_every_later_look() -> None:
    first = {"control": arm(150, 0.5, 1), "treatment": arm(150, 0.5, 2)}
    frozen = choose_scales(MEASURES, Policy(), first, {})
    assert sorted(frozen) == sorted(MEASURES.names)
    later = {"control": arm(5_000, 0.3, 3), "treatment": arm(5_000, 0.3, 4)}
    assert choose_scales(MEASURES, Policy(), later, frozen) == {}
    assert {
        f"{each.metric}@{each.k}": each.tau for each in build_report(MEASURES, Policy(), stored(later), frozen).variants[1].measures
    } == frozen


def test_no_scale_is_chosen_before_there_is_something_to_compare() -> None:
    enough, few, empty = arm(150, 0.5, 1), arm(99, 0.5, 2), arm(150, 0.0, 3)
    assert choose_scales(MEASURES, Policy(), {"control": enough, "treatment": few}, {}) == {}
    assert choose_scales(MEASURES, Policy(), {"one": enough, "two": enough}, {}) == {}
    hits_without_any = of_users(MEASURES, [[1, 0, 0, 0, 5, 0]] * 150)
    assert choose_scales(MEASURES, Policy(), {"control": hits_without_any, "treatment": hits_without_any}, {}) == {}
    found = told(Policy(), stored({"control": hits_without_any, "treatment": hits_without_any}))
    verdict = found.variants[1].measures[0].verdict
    assert verdict is not None
    assert verdict.reason == "no variant has earned any ndcg@10 yet"
    assert empty[0] == 150


def test_nothing_is_shown_of_an_arm_with_too_few_users() -> None:
    found = told(Policy(), stored({"control": arm(150, 0.5, 1), "treatment": arm(99, 0.1, 2)}))
    assert [(variant.users, len(variant.measures)) for variant in found.variants] == [(150, len(MEASURES)), (99, 0)]
    assert found.verdict.word == "inconclusive"
    assert found.verdict.reason == "nothing is shown before 100 users an arm: treatment has 99"
    found = told(Policy(), stored({"control": arm(99, 0.5, 1), "treatment": arm(150, 0.1, 2)}))
    verdict = found.variants[1].measures[0].verdict
    assert verdict is not None
    assert verdict.reason == "control has fewer than 100 users"


def test_a_broken_experiment_is_invalid_throughout_and_at_once() -> None:
    moments = {"control": arm(900, 0.5, 1), "treatment": arm(1_100, 0.3, 2)}
    found = told(Policy(), stored(moments))
    words = {each.verdict.word for variant in found.variants for each in variant.measures if each.verdict}
    assert words == {found.verdict.word} == {"invalid"}
    assert "not split" in found.verdict.reason
    early = told(Policy(shares={"control": 1, "treatment": 1}), stored({"control": arm(90, 0.5, 1)}, first_exposures={"control": 400}))
    assert early.verdict.word == "invalid"
    assert [(variant.variant, variant.users) for variant in early.variants] == [("control", 90), ("treatment", 0)]


def test_the_whole_experiment_is_as_bad_as_its_worst_paging_measure() -> None:
    moments = {"control": arm(2_000, 0.5, 1), "good": arm(2_000, 0.6, 2), "bad": arm(2_000, 0.4, 3)}
    found = told(Policy(paging=("mrr@3",)), stored(moments))
    assert found.verdict.word == "regressed"
    assert found.verdict.reason.startswith("bad: ")
    assert told(Policy(), stored({name: moments[name] for name in ("control", "good")})).verdict.word == "improved"
    unknown = told(Policy(), stored({"x": moments["control"], "y": moments["good"]}))
    assert unknown.verdict.reason == "no variant is known as the control: name one"


def test_the_order_of_partitions_does_not_matter() -> None:
    parts = [arm(300, 0.5, seed) for seed in range(4)]
    one, other = add(add(parts[0], parts[1]), add(parts[2], parts[3])), add(add(parts[3], parts[1]), add(parts[0], parts[2]))
    control = arm(1_200, 0.45, 9)
    assert told(Policy(), stored({"control": control, "treatment": one})) == told(
        Policy(), stored({"control": control, "treatment": other})
    )


def test_series_and_json_say_what_the_report_says() -> None:
    found = told(
        Policy(), stored({"control": arm(600, 0.5, 1), "treatment": arm(600, 0.45, 2)}, multi_exposed_users=3, unmatched_share=0.1)
    )
    rows = list(found.rows())
    assert len({row[:-1] for row in rows}) == len(rows)
    by_name: dict[str, list[tuple[str, str, str]]] = {}
    for row in rows:
        assert (row.experiment, row.scope) == ("ranker", "start")
        assert math.isfinite(row.value)
        by_name.setdefault(row.series, []).append((row.variant, row.metric, row.k))
    measured = [(each.metric, str(each.k)) for each in found.variants[0].measures]
    assert by_name["srm_p_value"] == by_name["multi_exposed_users"] == [("", "", "")]
    assert by_name["users"] == [("control", "", ""), ("treatment", "", "")]
    assert by_name["mean"] == [(variant, *each) for variant in ("control", "treatment") for each in measured]
    assert by_name["lift"] == by_name["lift_lower"] == by_name["lift_upper"] == [("treatment", *each) for each in measured]
    assert by_name["verdict"] == [("", "", ""), *by_name["lift"]]
    plain = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert plain["verdict"] == {"word": found.verdict.word, "reason": found.verdict.reason}
    assert plain["variants"][1]["measures"][0]["lift_lower"] == found.variants[1].measures[0].lift_lower
    assert plain["health"]["unmatched_share"] == 0.1


def test_variance_reduction_narrows_the_interval_and_is_published() -> None:
    random = np.random.default_rng(6)
    moments, plain = {}, {}
    for name in ("control", "treatment"):
        taste = random.uniform(0, 1, 1_500)
        hits, earlier = random.binomial(5, taste), random.binomial(8, taste)
        rows = [[5, int(y) * ONE, int(y) * ONE, int(y), 25, int(y) << 33] for y in hits]
        before = [WITH_COVARIATES.covariate_values([8, int(x) * ONE, int(x) * ONE, int(x), 40, int(x) << 33]) for x in earlier]
        moments[name], plain[name] = of_users(WITH_COVARIATES, rows, before), of_users(MEASURES, rows)
    scales = choose_scales(MEASURES, Policy(), plain, {})
    reduced = build_report(WITH_COVARIATES, Policy(), stored(moments), scales).variants[1].measures[0]
    without = build_report(MEASURES, Policy(), stored(plain), scales).variants[1].measures[0]
    assert reduced.mean == without.mean
    assert without.variance_reduction is None
    assert reduced.variance_reduction is not None
    assert reduced.variance_reduction > 0.3
    assert None not in (reduced.lift_upper, reduced.lift_lower, without.lift_upper, without.lift_lower)
    assert reduced.lift_upper - reduced.lift_lower < 0.85 * (without.lift_upper - without.lift_lower)  # type: ignore[operator]
