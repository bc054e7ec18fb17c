"""Tests of the watermarks of inputs and of the task. Admission is tested against its copy in `test_inlined_copies`."""

from __future__ import annotations

import pytest

from streammetrics.engine.input_progress import InputProgress
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.supported_time import SupportRules
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.grades import parse_grades

ONE_EVENT = SupportRules(users=1)
RULES = EngineRules(topics=("lists", "clicks"), grades=parse_grades("click=1"), out_of_orderness_ms=5, lateness_ms=10, support=ONE_EVENT)


def progress_of(*watermarks: int) -> InputProgress:
    progress = InputProgress(RULES)
    progress.watermarks = list(watermarks)
    return progress


def test_an_event_is_judged_by_the_watermark_before_it() -> None:
    progress = progress_of(NEVER, FOREVER)
    assert progress.admit(0, "u", 100, FOREVER)
    assert (progress.watermarks[0], progress.watermark) == (95, 95)
    assert progress.admit(0, "u", 85, FOREVER)
    assert not progress.admit(0, "u", 84, FOREVER)
    assert (progress.watermarks[0], progress.watermark) == (95, 95)


def test_an_input_without_events_holds_the_watermark_of_the_task() -> None:
    progress = progress_of(NEVER, NEVER)
    assert progress.admit(0, "u", 100, progress.least_other(0, set()))
    assert (progress.watermarks, progress.watermark) == ([95, NEVER], NEVER)
    assert progress.closed_before == NEVER


@pytest.mark.parametrize(
    ("idle", "tick_ms", "watermark"),
    [(set(), None, 20), ({0}, None, 30), ({0, 1}, 25, 25), ({0, 1}, 3, 10), ({0, 1}, None, 10)],
    ids=["no idle input", "one idle input", "tick", "tick that would go back", "no tick"],
)
def test_idle_inputs_do_not_hold_the_watermark_and_it_never_goes_back(idle: set[int], tick_ms: int | None, watermark: int) -> None:
    progress = progress_of(20, 30)
    progress.watermark = 10
    progress.advance_idle(idle, tick_ms)
    assert progress.watermark == watermark
    assert progress.changed == (watermark > 10)


def test_a_flush_makes_everything_final() -> None:
    progress = progress_of(20, NEVER)
    progress.flush()
    assert progress.closed_before == progress.final_before(1_000) == FOREVER
    assert progress.changed


def test_bounds_follow_the_watermark() -> None:
    progress = progress_of(20, 30)
    progress.watermark = 100
    assert (progress.closed_before, progress.final_before(7)) == (90, 83)


def test_the_watermark_of_the_task_stops_at_a_hold_and_makes_nothing_late() -> None:
    progress = InputProgress(RULES)
    progress.hold_at(97, set())
    assert progress.admit(0, "u", 100, progress.least_other(0, {1}))
    assert (progress.watermarks[0], progress.watermark, progress.began_ms) == (95, 95, 95)
    assert progress.admit(0, "u", 110, progress.least_other(0, {1}))
    assert (progress.watermarks[0], progress.watermark) == (105, 97)
    assert not progress.admit(0, "u", 94, progress.least_other(0, {1})), "judged by the watermark of its own input"
    progress.hold_at(200, {1})
    assert (progress.watermark, progress.began_ms) == (105, 95)
