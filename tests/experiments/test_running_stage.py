"""The gate in stages: a pass has seen the stage that runs, and a stage that is bad by itself fails, whatever came before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.experiments import (
    ExperimentReport,
    Policy,
    Stage,
    Stored,
    StoredStage,
    add,
    build_report,
    choose_scales,
    of_users,
)
from streammetrics.experiments.estimates import Estimate
from streammetrics.experiments.floors import EventUsers
from streammetrics.experiments.measures import Measure
from streammetrics.experiments.running_stage import is_near
from streammetrics.experiments.scales import MeasureScale
from streammetrics.experiments.strata import Combined
from streammetrics.experiments.verdict import MeasureComparison, evidence, judge, stage_of_drop
from tests.experiments.columns import MEASURES, ONE
from tests.experiments.stage_samples import ARMS, Totals

NDCG, DCG, ITEM_HITS = MEASURES.named("ndcg@10"), MEASURES.named("dcg@10"), MEASURES.named("item_hit_rate@5")
SCALE = MeasureScale(0.04, 0.4)
STAGES = Policy(
    paging=("ndcg@10", "item_hit_rate@5"),
    stages=(
        Stage(name="5", shares={"control": 95, "treatment": 5}),
        Stage(name="25", shares={"control": 75, "treatment": 25}, start_ms=500_000),
        Stage(name="50", shares={"control": 1, "treatment": 1}, start_ms=2_000_000),
    ),
)
HIT: Totals = [1, ONE, ONE, 1, 5, 1 << 33]
MISS: Totals = [1, 0, 0, 0, 5, 0]
Counts = Mapping[tuple[str, str], tuple[int, int]]
"""Users of each cell, and how many of them have a hit."""
GOOD: Counts = {("", "control"): (19_000, 5_700), ("", "treatment"): (1_000, 450)}


def kept(counts: Counts, **others: object) -> Stored:
    """The stored state of users with one list each."""
    one = {hit: of_users(MEASURES, [HIT if hit else MISS]) for hit in (True, False)}
    cells = {
        cell: [hits * a + (users - hits) * b for a, b in zip(one[True], one[False], strict=True)] for cell, (users, hits) in counts.items()
    }
    stages = tuple(
        StoredStage(
            entry=key,
            key=key,
            moments={arm: sums for (stage, arm), sums in cells.items() if stage == key},
            first_exposures={arm: sums[0] for (stage, arm), sums in cells.items() if stage == key},
        )
        for key in sorted({key for key, _ in cells})
    )
    whole = {arm: [sum(each) for each in zip(*(sums for (_, own), sums in cells.items() if own == arm), strict=True)] for arm in ARMS}
    first = {arm: sums[0] for arm, sums in whole.items()}
    stored = Stored(
        experiment="ranker", scope="start", moments=whole, first_exposures=first, multi_exposed_users=0, stages=stages, to_ms=1_000_000
    )
    return replace(stored, **others)  # type: ignore[arg-type]


def report(counts: Counts, policy: Policy = STAGES, **others: object) -> ExperimentReport:
    stored = kept(counts, **others)
    return build_report(MEASURES, policy, stored, choose_scales(MEASURES, policy, stored, {}))


def second(control: tuple[int, int], treatment: tuple[int, int]) -> Counts:
    return {**GOOD, ("500000", "control"): control, ("500000", "treatment"): treatment}


def gate(found: ExperimentReport) -> tuple[str, str]:
    assert found.gate is not None
    return found.gate.word, found.gate.reason


def test_a_stage_in_which_no_treated_user_clicks_fails_although_the_whole_is_better() -> None:
    found = report(second((750, 225), (250, 0)))
    word, reason = gate(found)
    assert (word, reason[:40], found.verdict.word) == ("fail", "treatment: in stage 25: 100 % lower ndcg", "regressed")
    ndcg = found.variants[1].measures[0]
    assert ndcg.lift is not None
    assert ndcg.lift > 0.2
    assert ndcg.judged_lift_upper is not None
    assert ndcg.judged_lift_upper < -0.5


def test_a_stage_that_has_just_begun_waits_and_says_how_many_users_it_needs() -> None:
    needed = "treatment: in stage 25, which runs now, 80 more users of control and 95 more users of treatment are needed"
    found = report(second((20, 6), (5, 0)))
    assert found.verdict.word == "improved"
    assert gate(found) == ("wait", needed)
    assert gate(report(second((300, 90), (99, 45))))[1].endswith("1 more user of treatment is needed")
    assert gate(report(second((300, 90), (100, 45))))[0] == "pass"


def test_a_stage_runs_as_soon_as_an_event_of_its_time_is_seen() -> None:
    """Lists of the first stage only are final."""
    seen = {time: gate(report(GOOD, to_ms=400_000, newest_ms=time)) for time in (0, 499_999, 500_000)}
    assert [seen[time][0] for time in (0, 499_999)] == ["pass", "pass"]
    more = "100 more users of control and 100 more users of treatment are needed"
    assert seen[500_000] == ("wait", f"treatment: in stage 25, which runs now, {more}")
    assert [each.stage for each in report(GOOD, to_ms=400_000, newest_ms=500_000).stages if each.current] == ["25"]


def test_a_stage_that_may_be_much_worse_waits() -> None:
    word, reason = gate(report(second((750, 225), (250, 70))))
    assert word == "wait"
    assert reason.endswith("6.7 % lower ndcg@10 than control so far; it may still be worse by 10 %")
    assert gate(report(second((7_500, 2_250), (2_500, 740))))[0] == "pass"


@pytest.mark.parametrize(("last", "word"), [({"5": 900, "25": 400}, "pass"), ({"5": 400, "25": 900}, "wait")])
def test_with_labels_the_stage_of_the_latest_list_runs(last: Mapping[str, int], word: str) -> None:
    stages = tuple(Stage(name=each.name, shares=each.shares) for each in STAGES.stages[:2])
    policy = replace(STAGES, stages=stages, stage_label="rollout")
    counts = {({"": "5", "500000": "25"}[key], arm): own for (key, arm), own in second((50, 15), (20, 6)).items()}
    stored = kept(counts)
    stored = replace(stored, stages=tuple(replace(each, last_ms=last[each.key]) for each in stored.stages))
    assert gate(build_report(MEASURES, policy, stored, choose_scales(MEASURES, policy, stored, {})))[0] == word


def test_without_stages_nothing_is_waited_for() -> None:
    counts: Counts = {("", "control"): (19_000, 5_700), ("", "treatment"): (1_000, 450)}
    stored = kept(counts)
    policy = Policy(paging=STAGES.paging, unit="list")
    stored = replace(stored, stages=tuple(replace(each, unit="list") for each in stored.stages))
    assert gate(build_report(MEASURES, policy, stored, choose_scales(MEASURES, policy, stored, {})))[0] == "pass"


def compared(lift: float, stages: Mapping[str, float], measure: Measure = NDCG, error: float = 0.004) -> MeasureComparison:
    """A measure with this lift over all stages, and with these in each."""
    alone = {name: compared(each, {}, measure, error) for name, each in stages.items()}
    control, treatment = (Estimate(0.4 * (1 + each), error**2, 5_000) for each in (0.0, lift))
    return MeasureComparison(measure, treatment, control, SCALE, stages=alone)


lifts = st.floats(-0.3, 0.3)


@given(lifts, st.dictionaries(st.sampled_from(["5", "25", "50"]), lifts))
@example(0.1, {"5": 0.2, "25": -0.3})
@example(-0.1, {"5": -0.1, "25": -0.1, "50": -0.1})
@example(-0.1, {})
def test_the_evidence_of_a_drop_is_the_mean_over_the_whole_and_all_configured_stages(lift: float, stages: Mapping[str, float]) -> None:
    plain = replace(STAGES, stages=())
    whole = evidence(plain, compared(lift, {}))
    alone = [evidence(plain, compared(each, {})).drop for each in stages.values()]
    found = evidence(STAGES, compared(lift, stages))
    expected = 0.8 * math.exp(whole.drop) + 0.2 / 3 * math.fsum(map(math.exp, alone))
    assert found.drop == pytest.approx(math.log(expected))
    assert (found.rise, found.safe) == (whole.rise, whole.safe)
    other = compared(lift, stages, DCG)
    assert evidence(STAGES, other) == evidence(plain, other), "a measure that does not decide"


def test_a_stage_needs_more_evidence_than_the_whole_and_is_named() -> None:
    """E of 20 is not enough for one of three stages: it needs 300."""
    policy = replace(STAGES, paging=("ndcg@10",))
    for error, word in ((0.0095, "inconclusive"), (0.0065, "regressed")):
        each = compared(0.0, {"25": -0.1}, error=error)
        assert evidence(replace(policy, stages=()), each.stages["25"]).drop > math.log(20)
        found = judge(policy, [each])["ndcg@10"]
        assert found.word == word, error
    assert found.reason == "in stage 25: 10 % lower ndcg@10 than control; 95 % confidence, safe to check at any time"
    assert stage_of_drop(policy, compared(-0.1, {"25": -0.1})) is None
    assert judge(policy, [compared(-0.1, {"25": -0.1})])["ndcg@10"].reason.startswith("10 % lower ndcg@10 than control;")


@pytest.mark.parametrize(("in_stage", "word"), [(-0.3, "regressed"), (0.0, "regressed"), (0.3, "mixed")])
def test_a_drop_in_a_stage_is_contradicted_only_by_a_rise_in_it(in_stage: float, word: str) -> None:
    falls, rises = compared(0.1, {"5": 0.2, "25": -0.3}), compared(0.1, {"5": 0.2, "25": in_stage}, ITEM_HITS)
    found = judge(STAGES, [falls, rises])
    assert found["ndcg@10"].word == word
    if word == "mixed":
        lifts = "in stage 25: 30 % lower ndcg@10 than control, but in stage 25: 30 % more hits among the items shown in the first 5"
        assert found["ndcg@10"].reason.startswith(lifts)


def combined(mean: float, error: float, control: float = 0.4, covariance: float = 0.0) -> Combined:
    arms = Estimate(mean, error**2, 500), Estimate(control, error**2, 500)
    return Combined(*arms, covariance, (500.0, 500.0), EventUsers(200.0, 300.0))


def test_the_bound_is_that_of_one_look_at_90_percent() -> None:
    """(0.4 - 0.9 x 0.4) / (error x sqrt(1 + 0.81)) reaches 1.2816 at an error of 0.0232."""
    assert [is_near(NDCG, combined(0.4, error), 0.1) for error in (0.0231, 0.0233)] == [True, False]
    assert is_near(NDCG, combined(0.4, 0.0233, covariance=1e-4), 0.1), "arms with the same users"


def test_a_measure_that_is_better_when_it_falls_is_bounded_from_above() -> None:
    abandonment = replace(NDCG, lower_is_better=True)
    assert [is_near(abandonment, combined(mean, 0.01), 0.1) for mean in (0.3, 0.4, 0.44, 0.5)] == [True, True, False, False]


def test_without_a_spread_the_mean_must_say_so() -> None:
    assert [is_near(NDCG, combined(*arms), 0.1) for arms in ((1.0, 0.0, 1.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0))] == [True, False, False]
    nobody = Combined(Estimate(0.4, math.inf, 1), Estimate(0.4, math.inf, 1), 0.0, (1.0, 1.0), EventUsers(1.0, 1.0))
    assert not is_near(NDCG, nobody, 0.1)


RARE: Counts = {("", "control"): (19_000, 57), ("", "treatment"): (1_000, 3)}
NEAR_ONE: Counts = {("", "control"): (19_000, 18_700), ("", "treatment"): (1_000, 990)}


def test_a_stage_with_too_few_hits_is_no_evidence_by_itself() -> None:
    """None of 1,000 treated users has a hit, and 50 of 3,000 others: about 12 are expected, and 20 are needed."""
    assert gate(report(second((3_000, 50), (1_000, 0))))[0] == "wait"
    assert gate(report(second((3_000, 90), (1_000, 0))))[0] == "fail"


def test_stages_need_enough_users_in_both_arms() -> None:
    found = report({("", "control"): (1_900, 570), ("", "treatment"): (99, 30)})
    assert gate(found)[1].endswith("have 99 users of treatment and 1,900 of control; each needs at least 100")
    assert found.variants[1].measures == ()


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (RARE, "hits are too rare: about 3 users with a hit are expected in treatment, at least 20 are needed"),
        (NEAR_ONE, "ndcg@10 is close to 1: about 16 users below it are expected in treatment, at least 20 are needed"),
    ],
)
def test_stages_obey_the_floors_on_both_sides_before_and_after_scales_are_frozen(counts: Counts, reason: str) -> None:
    stored = kept(counts)
    assert "ndcg@10" not in choose_scales(MEASURES, STAGES, stored, {})
    frozen = choose_scales(MEASURES, replace(STAGES, hit_users_min=0), stored, {})
    verdict = build_report(MEASURES, STAGES, stored, frozen).variants[1].measures[0].verdict
    assert verdict is not None
    assert (verdict.word, verdict.reason) == ("inconclusive", reason)


@pytest.mark.parametrize("arm", ARMS)
def test_one_user_who_dominates_either_arm_of_a_stage_is_named(arm: str) -> None:
    stored = kept(GOOD)
    busy = of_users(MEASURES, [[100_000, 0, 0, 0, 500_000, 0]])
    (stage,) = stored.stages
    stored = replace(stored, stages=(replace(stage, moments={**stage.moments, arm: add(stage.moments[arm], busy)}),))
    frozen = choose_scales(MEASURES, replace(STAGES, effective_users_min=0), stored, {})
    verdict = build_report(MEASURES, STAGES, stored, frozen).variants[1].measures[0].verdict
    assert verdict is not None
    assert verdict.reason.startswith(f"a few users dominate {arm}: its ")
