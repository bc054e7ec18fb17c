"""Reports of experiments in stages, or assigned list by list."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from streammetrics.config.toml_text import settings_text
from streammetrics.experiments import ExperimentError, ExperimentReport, Policy, Stage, Stored, build_report, choose_scales
from streammetrics.experiments.stage_values import StageReport
from streammetrics.exporters.prometheus.experiment_rows import stage_rows
from streammetrics.reports.published import encoded
from tests.experiments.columns import MEASURES
from tests.experiments.samples import stored
from tests.experiments.stage_samples import StageArm, Totals, ramp, stored_cells
from tests.support.tables import for_each

FIRST = Stage(name="5 %", shares={"control": 19, "treatment": 1})
SECOND = Stage(name="half", shares={"control": 1, "treatment": 1}, start_ms=500_000)
STAGES = Policy(stages=(FIRST, SECOND), paging=("ndcg@10",))
EVEN = {"": 0.6, "500000": 0.6}
RAMP = {"": 0.05, "500000": 0.5}


def report(policy: Policy, kept: Stored) -> ExperimentReport:
    return build_report(MEASURES, replace(policy, settings_text=settings_text), kept, choose_scales(MEASURES, policy, kept, {}))


def test_a_drop_over_stages_is_regressed_and_every_stage_is_shown() -> None:
    found = report(STAGES, stored_cells(ramp(RAMP, EVEN, lift=-0.2)))
    assert (found.verdict.word, found.health.troubles) == ("regressed", ())
    first, second = found.stages
    assert (first.stage, first.current, first.end_ms) == ("5 %", False, 500_000)
    assert (second.stage, second.current, second.start_ms) == ("half", True, 500_000)
    assert found.current_stage == (2, second)
    assert [(arm.variant, arm.share) for arm in first.arms] == [("control", 0.95), ("treatment", 0.05)]
    weights = [arm.weight for stage in found.stages for arm in stage.arms if arm.variant == "treatment"]
    assert weights[0] is not None
    assert weights[1] is not None
    assert 0.05 < weights[0] < 0.3
    assert weights[0] + weights[1] == pytest.approx(1)
    (deciding,) = [each for each in found.variants[1].measures if each.paging]
    assert deciding.lift_upper is not None
    assert deciding.lift_upper < 0
    assert [each.stage for each in stage_rows(found) if each.series == "current"] == ["5 %", "half"]


def test_an_experiment_without_stages_has_the_numbers_of_one_stage() -> None:
    """Only verdicts differ: with stages, one that is bad alone gets a part of the error."""
    kept, shares = stored({"control": 0.5, "treatment": 0.42, "other": 0.5}), {"control": 2, "treatment": 1, "other": 1}
    found = []
    for policy in (Policy(shares=shares), Policy(stages=(Stage(name="all", shares=shares),))):
        arms = report(policy, kept).variants
        unjudged = [[replace(each, verdict=None, judged_lift_upper=None, within_gate_margin=None) for each in arm.measures] for arm in arms]
        found.append((unjudged, [(arm.effective_users, arm.largest_user_share_max) for arm in arms]))
    assert found[0] == found[1]


def test_moving_between_stages_is_no_fault_and_the_split_is_checked_within_each() -> None:
    kept = stored_cells(ramp(RAMP, EVEN))
    found = report(STAGES, kept)
    assert found.verdict.word in ("inconclusive", "safe")
    assert found.multi_exposed_users == 0
    swapped = replace(STAGES, stages=(replace(FIRST, shares=SECOND.shares), replace(SECOND, shares=FIRST.shares)))
    troubles = report(swapped, kept).health.troubles
    assert len(troubles) == 2
    assert troubles[0].startswith("in stage 5 %: users are not split as configured (control 2,")
    assert "under [experiments.named.ranker], in stage half: shares = { control = 0.49, treatment = 0.51 }" in troubles[1]


def test_users_of_several_variants_within_a_stage_make_it_invalid() -> None:
    kept = stored_cells(ramp(RAMP, EVEN))
    stages = (replace(kept.stages[0], multi_exposed_users=60), *kept.stages[1:])
    found = report(STAGES, replace(kept, stages=stages, multi_exposed_users=60))
    assert found.verdict.reason.startswith("in stage 5 %: 2.5 % of the users saw more than one variant; the limit is 1 %")
    assert found.stages[0].multi_exposed_users == 60


def test_a_late_arm_leaves_its_stage_out() -> None:
    kept = replace(stored_cells(ramp(RAMP, EVEN)), variants_since_ms={"treatment": 100_000})
    first, second = report(STAGES, kept).stages
    assert first.arms[1].left_out == "treatment joined late, when 20 % of its time had passed"
    assert (first.arms[1].weight, second.arms[1].weight, second.arms[1].left_out) == (0, 1, None)


def test_a_stage_in_which_both_arms_joined_at_the_same_late_time_counts() -> None:
    kept = replace(stored_cells(ramp(RAMP, EVEN)), variants_since_ms={"control": 100_000, "treatment": 104_000})
    first, _ = report(STAGES, kept).stages
    assert first.arms[1].left_out is None
    assert first.arms[1].weight is not None
    assert first.arms[1].weight > 0


def test_a_first_stage_says_how_many_users_it_needs() -> None:
    found = report(
        STAGES, stored_cells([{cell: own for cell, own in user.items() if cell[0] == ""} for user in ramp(RAMP, EVEN, users=900)])
    )
    assert found.verdict.word == "inconclusive"
    assert "users in both have" in found.verdict.reason
    assert found.verdict.reason.endswith("of control; each needs at least 100")


def test_stages_by_label_take_the_label_with_the_latest_list_as_current() -> None:
    stages = (replace(FIRST, name="a"), Stage(name="b", shares=SECOND.shares))
    policy = Policy(stages=stages, stage_label="rollout", paging=("ndcg@10",))
    users = [{({"": "a", "500000": "b"}[key], arm): own for (key, arm), own in user.items()} for user in ramp(RAMP, EVEN, lift=-0.2)]
    kept = stored_cells(users)
    last = {"a": 900, "b": 400}
    found = report(policy, replace(kept, stages=tuple(replace(each, last_ms=last[each.key]) for each in kept.stages)))
    assert found.verdict.word == "regressed"
    assert [(each.stage, each.current, each.start_ms) for each in found.stages] == [("a", True, None), ("b", False, None)]


def test_lists_of_other_stages_or_of_another_unit_make_it_invalid() -> None:
    kept = stored_cells(ramp(RAMP, EVEN))
    moved = replace(STAGES, stages=(FIRST, replace(SECOND, start_ms=400_000)))
    assert report(moved, kept).verdict.reason.startswith("lists were counted under other stages or another unit")
    assert report(Policy(), kept).verdict.word == "invalid"
    assert report(replace(STAGES, unit="list"), kept).verdict.word == "invalid"


def test_lists_that_count_in_the_stage_before_their_own_are_noted() -> None:
    """They cannot move any more, and the split of the stage judges how many there are."""
    kept = stored_cells(ramp(RAMP, EVEN))

    def noted(last_ms: int) -> list[str]:
        first, *others = kept.stages
        return [
            each
            for each in report(STAGES, replace(kept, stages=(replace(first, last_ms=last_ms), *others))).health.notes
            if "count in" in each
        ]

    assert noted(499_999) == []
    (note,) = noted(500_000)
    assert note == "some lists from the time of stage half count in stage 5 %: stage half was added or moved after its start"


def test_interleaved_lists_are_not_compared_by_team() -> None:
    teams: list[dict[StageArm, Totals]] = [{("", "interleaved"): own} for user in ramp({"": 0.3}, {"": 0.6}) for own in user.values()]
    kept = replace(stored_cells([*ramp({"": 0.05}, {"": 0.6}), *teams]), credits={("a", "b"): [120, 240, 480, 20, 60, 40]})
    found = report(STAGES, kept)
    assert found.preferences == ()
    assert "lists of the variant interleaved are not compared by team" in found.health.notes[-1]


def by_list(lift: float, users: int = 1_500) -> list[dict[StageArm, Totals]]:
    """Each user has lists of both arms."""
    halves = ramp({"control": 0.0, "treatment": 1.0}, {"control": 0.6, "treatment": 0.6 * (1 + lift)}, users=users, nested=False)
    return [{("", arm): own for (_, arm), own in user.items()} for user in halves]


def test_assignment_by_list_compares_the_lists_of_the_same_users() -> None:
    policy = Policy(unit="list", shares={"control": 1, "treatment": 1}, paging=("ndcg@10",))
    kept = stored_cells(by_list(-0.15), unit="list")
    found = report(policy, kept)
    assert (found.verdict.word, found.unit, found.stages) == ("regressed", "list", ())
    assert found.health.multi_exposed_share == 0
    assert found.health.sample_ratio_p is not None
    assert found.health.sample_ratio_p > 0.01
    assert all(each.metric != "user_hit_rate" for variant in found.variants for each in variant.measures)
    wrong = report(replace(policy, shares={"control": 3, "treatment": 1}), kept)
    assert wrong.verdict.reason.startswith("lists are not split as configured (control ")


def test_an_experiment_without_stages_has_none_in_its_report() -> None:
    plain = stored_cells(ramp({"": 0.5}, {"": 0.6}))
    found = build_report(MEASURES, Policy(), replace(plain, stages=(), pairs={}), {})
    assert (found.stages, found.unit, list(stage_rows(found))) == ((), "user", [])


@for_each(
    [
        ({"stages": (FIRST, replace(SECOND, shares={"control": 1, "other": 1}))}, "stage 'half': got control, other; must name the same"),
        ({"stages": (FIRST, replace(SECOND, shares={"treatment": 1}))}, "end the experiment there"),
        ({"stages": (replace(FIRST, start_ms=500_000), SECOND)}, "stage 'half' must start after stage '5 %'"),
        ({"stages": (FIRST, replace(SECOND, start_ms=None))}, "stage 'half': got no start"),
        ({"stages": (FIRST, replace(SECOND, name="5 %"))}, "got the name '5 %' twice"),
        ({"stages": (FIRST, SECOND), "stage_label": "rollout"}, "stages begin at a time or by a label, so leave one of them out"),
        ({"stages": (replace(FIRST, name=""),), "stage_label": "rollout"}, "stage 1: got no name"),
        ({"stage_label": "rollout"}, "got 'rollout' without stages"),
        ({"stages": (FIRST,), "shares": FIRST.shares}, "got shares beside stages"),
        ({"stages": (FIRST,), "control": "other"}, "control: got 'other'; must be one of control, treatment"),
        ({"unit": "request"}, "unit: got 'request'"),
        ({"stages": tuple(replace(FIRST, name=str(n), start_ms=n) for n in range(1, 18))}, "got 17; must be at most 16"),
    ]
)
def test_stages_that_do_not_fit_are_rejected(case: tuple[dict[str, object], str]) -> None:
    rules, message = case
    with pytest.raises(ExperimentError) as caught:
        Policy(**rules)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_stage_that_is_left_out_says_why_in_the_json_too() -> None:
    users = [{(key, arm): own for (key, arm), own in user.items() if key or arm == "control"} for user in ramp(RAMP, EVEN)]
    found = report(STAGES, stored_cells([user for user in users if user]))
    left_out = found.stages[0].arms[1].left_out
    assert left_out == "treatment has 0 users in it, at least 10 are needed"
    plain = msgspec.json.decode(encoded(found))
    assert plain["stages"][0]["arms"][1]["left_out"] == left_out
    assert msgspec.convert(plain["stages"], tuple[StageReport, ...])[0].arms[1].left_out == left_out
