"""A share that changed: what a report says, and that the settings it names are right when they are pasted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from streammetrics.config.toml_text import settings_text
from streammetrics.experiments import (
    ExperimentReport,
    Policy,
    Stage,
    Stored,
    StoredStage,
    build_report,
    choose_scales,
)
from streammetrics.experiments.arrivals import HOUR_MS, Arrivals
from tests.experiments.columns import MEASURES
from tests.experiments.samples import stored
from tests.experiments.stage_samples import ramp, stored_cells
from tests.support.settings import configured

START = 1_772_409_600_000
"""2026-03-02 00:00 UTC."""
RAMP = {"control": [95] * 24 + [50] * 24, "treatment": [5] * 24 + [50] * 24}
STEADY = {"control": [50] * 48, "treatment": [50] * 48}
TWO_STAGES = (
    'stages = [ { name = "stage 1", shares = { control = 0.95, treatment = 0.05 } },'
    ' { name = "stage 2", start = 2026-03-03T00:00:00Z, shares = { control = 0.5, treatment = 0.5 } } ]'
)


def arrivals(by_hour: Mapping[str, Sequence[int]], first_ms: int = START) -> Arrivals:
    first = first_ms // HOUR_MS
    return Arrivals.of({name: {first + hour: count for hour, count in enumerate(each) if count} for name, each in by_hour.items()})


def kept(by_hour: Mapping[str, Sequence[int]], chances: Mapping[str, float] | None = None, multi: int = 3) -> Stored:
    """An experiment with these arrivals by hour, and clearly more hits in all variants but the control."""
    chances = chances or {name: 0.5 if name == "control" else 0.6 for name in by_hour}
    found = stored(chances, users={name: sum(each) for name, each in by_hour.items()}, multi=multi)
    return replace(found, arrivals=arrivals(by_hour))


def report(found: Stored, policy: Policy | None = None) -> ExperimentReport:
    policy = replace(policy or Policy(paging=("ndcg@10",)), settings_text=settings_text)
    return build_report(MEASURES, policy, found, choose_scales(MEASURES, policy, found, {}))


def reason_of(by_hour: Mapping[str, Sequence[int]], policy: Policy | None = None, variant: str = "treatment") -> str:
    """The reason of a variant, which has no verdict and no interval, and whose gate waits."""
    arms = {each.variant: each for each in report(kept(by_hour), policy).variants}
    own = arms[variant]
    assert own.verdict is not None
    assert own.gate is not None
    assert (own.verdict.word, own.gate.word, own.gate.reason) == ("inconclusive", "wait", own.verdict.reason)
    assert all(each.lift is each.lift_lower is each.lift_upper is each.difference_lower is None for each in own.measures)
    return own.verdict.reason


def test_without_a_change_the_arms_are_compared() -> None:
    assert report(kept(STEADY)).verdict.word == "improved"
    assert report(kept(STEADY)).gate is not None


def test_a_ramp_without_settings_names_the_time_the_shares_and_the_stages() -> None:
    assert reason_of(RAMP) == (
        "the split of control and treatment changed at about 2026-03-03 00:00 UTC: 5 % of the new users had treatment before and 50 % after"
        " (practically impossible by chance), so control and treatment are not compared. If this is a rollout, set under"
        f" [experiments.named.ranker]: {TWO_STAGES}, and count the log again (`streammetrics replay --find-stages` does both)"
    )


def test_an_arm_that_ended_names_the_end() -> None:
    assert reason_of({"control": [50] * 48, "treatment": [50] * 24}) == (
        "treatment has had no new user since 2026-03-03 00:00 UTC (about 1,200 were expected): it has ended or is not logged, so control"
        " and treatment are not compared. To compare them up to then, set under [experiments.named.ranker]: end = 2026-03-03T00:00:00Z, and"
        " count the log again (`streammetrics replay --find-stages` does both)"
    )


def test_an_arm_that_ended_within_an_hour_is_compared_up_to_that_hour() -> None:
    reason = reason_of({"control": [50] * 48, "treatment": [50] * 24 + [20]})
    assert "no new user since 2026-03-03 01:00 UTC (about 1,150 were expected)" in reason
    assert "changed" not in reason
    assert "end = 2026-03-03T00:00:00Z, and" in reason


def test_an_arm_that_began_late_names_the_start() -> None:
    reason = reason_of({"control": [50] * 48, "treatment": [0] * 24 + [20] + [50] * 23})
    assert reason.startswith(
        "treatment joined late: it had no user before 2026-03-03 00:00 UTC, when control had 1,200 already, so control"
    )
    assert "To compare them from then on, set under [experiments.named.ranker]: start = 2026-03-03T01:00:00Z" in reason


def test_a_control_that_is_gone_may_have_been_renamed() -> None:
    renamed = {"control": [50] * 24, "treatment": [50] * 48, "off": [0] * 24 + [50] * 24}
    reason = reason_of(renamed)
    assert reason.startswith("control has had no new user since 2026-03-03 00:00 UTC (about 1,200 were expected)")
    assert "off appeared at about 2026-03-03 00:00 UTC, when control disappeared: was it renamed?" in reason
    assert reason_of(renamed, variant="off") == (
        "control and off have no new users of the same times, so control and off are not compared."
        " off appeared at about 2026-03-03 00:00 UTC, when control disappeared: was it renamed?"
    )


def test_an_arm_that_appears_at_another_time_is_not_taken_for_a_new_name() -> None:
    assert "renamed" not in reason_of({"control": [50] * 24, "treatment": [50] * 48, "off": [0] * 30 + [50] * 18})
    assert "renamed" not in reason_of({"control": [50] * 48, "treatment": [0] * 24 + [50] * 24})


@pytest.mark.parametrize(
    ("treatment", "words"),
    [
        pytest.param([50] * 20 + [0] * 8 + [50] * 20, "50 % of the new users had treatment before, 0 % then and 50 % after", id="pause"),
        pytest.param([50] * 20 + [10] * 8 + [48] * 20, "50 % of the new users had treatment before, 16.7 % then and 49 %", id="partial"),
        pytest.param([1] * 8 + [8] * 8 + [20] * 8 + [60] * 8 + [150] * 8 + [400] * 8, "between 2 % and 88.9 %", id="many steps"),
    ],
)
def test_an_outage_gets_no_stages(treatment: list[int], words: str) -> None:
    reason = reason_of({"control": [50] * 48, "treatment": treatment})
    assert words in reason
    assert reason.endswith("This looks like an outage of one of them, or like an assignment that goes back and forth")


def test_a_ramp_of_four_stages_is_no_outage() -> None:
    assert reason_of({"control": [99] * 24 + [75] * 24 + [50] * 24, "treatment": [1] * 24 + [25] * 24 + [50] * 24}).count("start =") == 2
    assert reason_of({"control": [90] * 48, "treatment": [1] * 12 + [10] * 12 + [40] * 12 + [90] * 12}).count("start =") == 3


def test_a_ramp_that_ended_names_both_settings() -> None:
    reason = reason_of({"control": [95] * 24 + [50] * 48, "treatment": [5] * 24 + [50] * 24})
    assert f"If this is a rollout, set under [experiments.named.ranker]: end = 2026-03-04T00:00:00Z and {TWO_STAGES}, and" in reason


def test_only_the_treatment_whose_share_changed_loses_its_verdict() -> None:
    found = report(kept({"control": [50] * 48, "gone": [50] * 24, "steady": [50] * 48}))
    words = {each.variant: each.verdict.word for each in found.variants if each.verdict}
    assert words == {"gone": "inconclusive", "steady": "improved"}
    assert found.verdict.word == "inconclusive"
    assert found.gate is not None
    assert found.gate.word == "wait"


def test_the_stages_of_several_treatments_have_the_shares_of_all_arms() -> None:
    by_hour = {"control": [90] * 24 + [40] * 24, "a": [5] * 24 + [30] * 24, "b": [5] * 24 + [30] * 24}
    assert "{ control = 0.9, a = 0.05, b = 0.05 } }, { name" in reason_of(by_hour, variant="a")
    assert "stages" not in reason_of({**by_hour, "b": [0] * 24 + [30] * 24}, variant="a"), "no stage may have an arm without a share"


def test_a_small_change_is_only_told() -> None:
    found = report(kept({"control": [500] * 48, "treatment": [500] * 20 + [0] + [500] * 27}))
    assert found.verdict.word == "improved"
    assert [note for note in found.health.notes if "changed" in note] == [
        "the split of control and treatment changed at about 2026-03-02 20:00 UTC and 2026-03-02 21:00 UTC: 50 % of the new users had"
        " treatment before, 0 % then and 50 % after (practically impossible by chance); only 2.1 % of the users are of other times, up to"
        " 5 % are tolerated"
    ]
    strict = report(kept({"control": [500] * 48, "treatment": [500] * 20 + [0] + [500] * 27}), Policy(late_share_max=0.02))
    assert strict.verdict.word == "inconclusive"


def test_the_limit_is_met_by_a_share_just_as_large() -> None:
    """4 of 80 hours without the treatment: 1 user in 20 of the control is of other times."""
    by_hour = {"control": [50] * 80, "treatment": [50] * 40 + [0] * 4 + [50] * 36}
    assert report(kept(by_hour), Policy(late_share_max=0.05)).verdict.word == "improved"
    assert report(kept(by_hour), Policy(late_share_max=0.049)).verdict.word == "inconclusive"


def test_a_broken_split_that_changed_proposes_stages_and_never_the_observed_shares() -> None:
    by_hour = {"control": [50] * 24 + [90] * 72, "treatment": [50] * 24 + [10] * 72}
    found = report(kept(by_hour), Policy(shares={"control": 1, "treatment": 1}))
    assert found.verdict.word == "invalid"
    assert found.verdict.reason.startswith(
        "users are not split as configured (control 7,680, treatment 1,920; practically impossible by chance); the split of control and"
        " treatment changed at about 2026-03-03 00:00 UTC: 50 % of the new users had treatment before and 10 % after"
    )
    assert "{ control = 0.9, treatment = 0.1 } } ] instead of shares" in found.verdict.reason
    assert "0.8" not in found.verdict.reason
    constant = report(kept({"control": [90] * 48, "treatment": [10] * 48}), Policy(shares={"control": 1, "treatment": 1}))
    assert "set under [experiments.named.ranker]: shares = { control = 0.9, treatment = 0.1 }" in constant.verdict.reason


def test_configured_shares_are_checked_over_time_even_if_the_whole_fits_them() -> None:
    by_hour = {"control": [50] * 24 + [90] * 72, "treatment": [50] * 24 + [10] * 72}
    assert "instead of shares" in reason_of(by_hour, Policy(shares={"control": 0.8, "treatment": 0.2}))


def test_users_in_several_variants_name_the_unit_and_the_stages() -> None:
    several = report(kept(RAMP, multi=900)).verdict
    assert several.word == "invalid"
    assert several.reason.endswith(
        "saw more than one variant; the limit is 1 %. If users move between the stages of a rollout, set under [experiments.named.ranker]:"
        f' {TWO_STAGES}. If each list is assigned on its own, set under [experiments.named.ranker]: unit = "list"'
    )
    constant = report(kept(STEADY, multi=900)).verdict
    assert constant.reason.endswith('If each list is assigned on its own, set under [experiments.named.ranker]: unit = "list"')


def staged(second: Mapping[str, Sequence[int]], unit: str = "user") -> tuple[Stored, Policy]:
    """A ramp in two stages, with these arrivals by hour in the second one, which begins a day after START."""
    later = START + 24 * HOUR_MS
    stages = (
        Stage(name="5 %", shares={"control": 19, "treatment": 1}),
        Stage(name="half", shares={"control": 1, "treatment": 1}, start_ms=later),
    )
    found = stored_cells(ramp({"": 0.05, str(later): 0.5}, {"": 0.6, str(later): 0.6}))
    by_key = {"": arrivals({"control": [95] * 24, "treatment": [5] * 24}), str(later): arrivals(second, later)}
    of_stages: list[StoredStage] = [replace(each, arrivals=by_key[each.key]) for each in found.stages]
    return replace(found, stages=tuple(of_stages), arrivals=arrivals(RAMP)), Policy(paging=("ndcg@10",), stages=stages)


def test_the_shares_may_differ_between_stages_and_not_within_one() -> None:
    right = report(*staged({"control": [50] * 24, "treatment": [50] * 24}))
    assert right.variants[1].measures[0].lift is not None
    assert "changed" not in right.verdict.reason
    wrong = report(*staged({"control": [50] * 12 + [95] * 12, "treatment": [50] * 12 + [5] * 12})).variants[1].verdict
    assert wrong is not None
    assert wrong.reason.startswith(
        "in stage half: the split of control and treatment changed at about 2026-03-03 12:00 UTC: 50 % of the new"
    )
    assert (
        'stages = [ { name = "5 %", shares = { control = 19, treatment = 1 } }, { name = "half 1", start = 2026-03-03T00:00:00Z,'
        " shares = { control = 0.5, treatment = 0.5 } },"
        ' { name = "half 2", start = 2026-03-03T12:00:00Z, shares = { control = 0.95, treatment = 0.05 } } ]'
    ) in wrong.reason


def test_stages_by_label_are_not_proposed() -> None:
    found, policy = staged({"control": [50] * 12 + [95] * 12, "treatment": [50] * 12 + [5] * 12})
    by_label = replace(policy, stage_label="rollout", stages=tuple(replace(each, start_ms=None) for each in policy.stages))
    keys = dict(zip(sorted({each.key for each in found.stages}), (stage.name for stage in by_label.stages), strict=True))
    stages = tuple(replace(each, entry=keys[each.entry], key=keys[each.key]) for each in found.stages)
    relabelled = replace(found, stages=stages, pairs={})
    verdict = report(relabelled, by_label).variants[1].verdict
    assert verdict is not None
    assert verdict.reason.endswith("(practically impossible by chance), so control and treatment are not compared")


def test_with_lists_assigned_one_by_one_the_words_are_about_lists() -> None:
    found = stored_cells(ramp({"": 0.5}, {"": 0.6}), unit="list")
    by_list = replace(found, stages=tuple(replace(each, arrivals=arrivals(RAMP)) for each in found.stages))
    verdict = report(by_list, Policy(paging=("ndcg@10",), unit="list")).variants[1].verdict
    assert verdict is not None
    assert "5 % of the lists had treatment before and 50 % after" in verdict.reason
    assert TWO_STAGES in verdict.reason


PASTED = re.compile(r"under (\[[^\]]*\]): (.*?)(?: instead of shares)?, and count the log again")


@pytest.mark.parametrize(
    ("by_hour", "name", "days"),
    [
        (RAMP, "ranker", (None, None)),
        ({"control": [95] * 24 + [50] * 48, "treatment": [5] * 24 + [50] * 24}, 'a "quoted" name', (None, 2)),
        ({"control": [50] * 48, "treatment": [50] * 24}, "ranker", (None, 1)),
        ({"control": [50] * 48, "treatment": [0] * 24 + [50] * 24}, "ranker v7", (1, None)),
    ],
)
def test_the_settings_can_be_pasted_into_a_configuration(
    by_hour: Mapping[str, Sequence[int]], name: str, days: tuple[int | None, int | None], tmp_path: Path
) -> None:
    """`days`: the start and the end, counted from START."""
    verdict = report(replace(kept(by_hour), experiment=name)).variants[1].verdict
    assert verdict is not None
    pasted = PASTED.search(verdict.reason)
    assert pasted is not None
    settings = configured(tmp_path, "\n".join([pasted[1], *pasted[2].split(" and ")])).settings.experiments
    named = settings.named[name]
    times = [None if each is None else (each.timestamp() * 1_000 - START) / (24 * HOUR_MS) for each in (named.start, named.end)]
    assert times == list(days)
    staged = [(each.name, each.start_ms, dict(each.shares)) for each in settings.policy(name).stages]
    assert (
        staged
        == [
            ("stage 1", None, {"control": 0.95, "treatment": 0.05}),
            ("stage 2", START + 24 * HOUR_MS, {"control": 0.5, "treatment": 0.5}),
        ][: 2 * ("stages = " in verdict.reason)]
    )
