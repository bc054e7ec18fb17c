"""Arms in which all users have the same value, and a control whose mean is 0: what is said of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streammetrics.experiments import ExperimentReport, Measures, Policy, StoredSums, build_report, choose_scales, of_users
from streammetrics.exporters.prometheus.experiments import measure_rows
from streammetrics.metrics import Scorer
from streammetrics.metrics.engagement import EngagementLayout
from streammetrics.metrics.names import Metric
from tests.support.experiment_samples import in_one_hour

MEASURES = Measures([*Scorer(["hit_rate@10", "dcg@10"]).columns, *EngagementLayout([Metric("zero_result_rate")]).columns])
ONE = 1 << 40


def report(control: Sequence[Sequence[int]], treatment: Sequence[Sequence[int]], **rules: object) -> ExperimentReport:
    moments = {"control": of_users(MEASURES, control), "treatment": of_users(MEASURES, treatment)}
    policy = Policy(**{"paging": ("hit_rate@10",), **rules})  # type: ignore[arg-type]
    first = {name: sums[0] for name, sums in moments.items()}
    stored = StoredSums(experiment="ranker", scope="start", first_list_users=first, **in_one_hour(MEASURES, moments))
    return build_report(MEASURES, policy, stored, choose_scales(MEASURES, policy, stored, {}))


def user(*, hit: bool, empty: bool = False, dcg: float = 0.0) -> list[int]:
    return [1, ONE * hit, int(dcg * ONE), int(empty)]


HIT, MISS = user(hit=True), user(hit=False)


@pytest.mark.parametrize(
    ("control", "treatment", "words"),
    [
        (HIT, MISS, "hit_rate@10 is 0 % against 100 % in control so far"),
        (MISS, HIT, "hit_rate@10 is 100 % against 0 % in control so far"),
        (HIT, HIT, "hit_rate@10 is 100 % against 100 % in control so far"),
    ],
)
def test_arms_without_a_spread_have_no_verdict_and_say_both_means(control: list[int], treatment: list[int], words: str) -> None:
    whole_report = report([control] * 2_000, [treatment] * 2_000)
    assert (whole_report.verdict.word, whole_report.gate and whole_report.gate.word) == ("inconclusive", "wait")
    assert words in whole_report.verdict.reason


def test_one_arm_without_a_spread_is_compared() -> None:
    """None of 2,000 against half of 2,000: the control's spread is enough."""
    whole_report = report([HIT, MISS] * 1_000, [MISS] * 2_000)
    assert (whole_report.verdict.word, whole_report.gate and whole_report.gate.word) == ("regressed", "fail")


def test_a_control_that_has_none_of_it_gives_a_reason_in_words_and_pages() -> None:
    """No empty list in 2,000 users of the control, and 300 in 2,000 of the treatment."""
    filled, empty = user(hit=False), user(hit=False, empty=True)
    whole_report = report([filled] * 2_000, [empty] * 300 + [filled] * 1_700, paging=("zero_result_rate",))
    (measure,) = [measure for measure in whole_report.variants[1].measures if measure.paging]
    assert (whole_report.verdict.word, whole_report.gate and whole_report.gate.word) == ("regressed", "fail")
    assert measure.difference_lower is not None
    assert 0.11 < measure.difference_lower < 0.13
    words = f"zero_result_rate is 15 % against 0 % in control; the difference is at least {100 * measure.difference_lower:.3g} points"
    assert whole_report.verdict.reason.startswith(f"treatment: {words}; 95 % confidence")
    assert (measure.lift, measure.judged_lift_upper) == (None, -1.0)
    pages = [row.value for row in measure_rows(whole_report) if row.series == "judged_lift_upper" and row.variant == "treatment"]
    assert pages == [-1.0]


def test_constants_of_a_measure_without_a_bound_give_no_confidence() -> None:
    whole_report = report([user(hit=True, dcg=1.0)] * 2_000, [user(hit=True, dcg=0.0)] * 2_000, paging=("dcg@10",))
    assert whole_report.verdict.reason.endswith("the users of an arm all have the same value, so no confidence can be given")
