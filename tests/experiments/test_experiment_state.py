"""A verdict that is decided stays, whatever the users of an arm that was switched off get afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from streammetrics.experiments import ExperimentReport, Policy, build_report, choose_scales, new_decisions
from streammetrics.experiments.experiment_state import stopped_arms
from streammetrics.experiments.hours import Entry, Hours
from streammetrics.experiments.stored import StoredSums
from streammetrics.metrics import Scorer
from streammetrics.statistics.measures import Measures
from streammetrics.words.times import HOUR_MS
from tests.tools.bench.aa_feed import OF_LISTS, looks
from tests.tools.bench.aa_lists import Regime, draw

STOP_HOUR = 72
POLICY = Policy(paging=(OF_LISTS.names[0],))


def reports(*, freezes: bool) -> Iterator[ExperimentReport]:
    """Reports every six hours of a ranker that is worse and is switched off at STOP_HOUR. Then all users get the control's lists."""
    regime = Regime(
        name="stop", users=1_500, hours=144, steps=(0.5, 0.0), steps_hours=STOP_HOUR, unit="hash", effect=(-0.22, 0.0), rate=0.06
    )
    scales = dict[str, float]()
    for stored in looks(OF_LISTS, draw(regime, np.random.default_rng(2)), regime.hours, 6):
        scales |= choose_scales(OF_LISTS, POLICY, stored, scales)
        if stored.to_ms >= STOP_HOUR * HOUR_MS:
            report = build_report(OF_LISTS, POLICY, stored, scales)
            scales |= new_decisions(report, scales) if freezes else {}
            yield report


def test_later_lists_of_the_control_do_not_undo_a_decision() -> None:
    *_, alone = reports(freezes=False)
    first, second, *_, last = reports(freezes=True)
    assert (first.verdict.word, first.state.word, first.decided_ms) == ("regressed", "running", None)
    assert alone.verdict.word == "inconclusive", "the interval has grown"
    assert (second.verdict.word, last.verdict.word, last.state.word) == ("regressed", "regressed", "stopped")
    assert last.decided_ms == second.decided_ms == (STOP_HOUR - 1) * HOUR_MS
    assert last.verdict.reason == second.verdict.reason
    numbers = [
        (measure.lift, measure.lift_lower, measure.lift_upper)
        for report in (second, last)
        for measure in report.variants[1].measures
        if measure.paging
    ]
    assert numbers[0] == numbers[1]
    assert last.gate is not None
    assert (last.gate.word, last.health.troubles) == ("fail", ())


@pytest.mark.parametrize("later", [2_000, 20_000, 2_000_000])
def test_an_arm_stays_stopped_however_long_others_go_on_in_its_block(later: int) -> None:
    hours = Hours()
    for arm, lists in (("control", 1_000 + later), ("new", 1_000)):
        hours.row(0).add_totals(arm, Entry(1, 0), [lists, 0])
    stored = StoredSums(
        experiment="ranker",
        scope="start",
        moments={"control": [1_000 + later, 1_000 + later, 100 + later // 10, 0, 0, 0], "new": [1_000, 1_000, 100, 0, 0, 0]},
        first_list_users={},
        run_hours=hours,
        last_ms={"control": 9_000, "new": 5_000},
        lists_since={"new": later},
    )
    assert stopped_arms(Measures(Scorer(["mrr@10"]).columns), stored, ["control", "new"]) == {"new": 5_000}


def test_a_decision_is_frozen_once_for_each_stop() -> None:
    _, second, *_ = reports(freezes=False)
    frozen = new_decisions(second, {})
    (measure,) = [measure for measure in second.variants[1].measures if measure.paging]
    wanted = {"lift": measure.lift, "lift_lower": measure.lift_lower, "lift_upper": measure.lift_upper}
    wanted |= {"judged_lift_upper": measure.judged_lift_upper, "verdict": -1, "ms": (STOP_HOUR - 1) * HOUR_MS}
    assert frozen == {f"hit_rate@10 treatment decided {name}": value for name, value in wanted.items()}
    assert new_decisions(second, frozen) == {}
    assert new_decisions(second, {**frozen, "hit_rate@10 treatment decided ms": 0.0}) == frozen
