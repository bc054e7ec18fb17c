"""Tests of the watermarks of inputs and of the task."""

from __future__ import annotations

import pytest

from streammetrics.engine.batch import Batch
from streammetrics.engine.engine import Engine
from streammetrics.engine.input_progress import InputProgress
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.supported_time import SupportRules
from streammetrics.engine.task_state import TaskState
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.grades import parse_grades
from streammetrics.events.model import Feedback
from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.state.tables import LoadedUsers

ONE_EVENT = SupportRules(users=1)
RULES = EngineRules(topics=("lists", "clicks"), grades=parse_grades("click=1"), out_of_orderness_ms=5, lateness_ms=10, support=ONE_EVENT)


LAYOUT = TallyLayout(Scorer(["mrr@3"]))


def admit(state: TaskState, ts: int, idle: frozenset[int] = frozenset()) -> bool:
    """Take one event of the first input. Returns whether it is admitted."""
    engine, batch = Engine(RULES, LAYOUT), Batch(0, [(0, -1, (Feedback("u", ts, "i", "click"),))], 1)
    engine.load(state, engine.needs(state, batch), LoadedUsers({}))
    return not engine.step(state, batch, idle=idle).refused


def state_of(*watermarks: int) -> TaskState:
    state = Engine(RULES, LAYOUT).open(None)
    state.progress.watermarks = list(watermarks)
    return state


def progress_of(*watermarks: int) -> InputProgress:
    progress = InputProgress(RULES)
    progress.watermarks = list(watermarks)
    return progress


def test_an_event_is_judged_by_the_watermark_before_it() -> None:
    state = state_of(NEVER, FOREVER)
    progress = state.progress
    assert admit(state, 100)
    assert (progress.watermarks[0], progress.watermark) == (95, 95)
    assert admit(state, 85)
    assert not admit(state, 84)
    assert (progress.watermarks[0], progress.watermark) == (95, 95)


def test_an_input_without_events_holds_the_watermark_of_the_task() -> None:
    state = state_of(NEVER, NEVER)
    progress = state.progress
    assert admit(state, 100)
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
    progress.end(FOREVER)
    assert progress.closed_before == progress.final_before(1_000) == FOREVER
    assert progress.changed


def test_bounds_follow_the_watermark() -> None:
    progress = progress_of(20, 30)
    progress.watermark = 100
    assert (progress.closed_before, progress.final_before(7)) == (90, 83)


def test_the_watermark_of_the_task_stops_at_a_hold_and_makes_nothing_late() -> None:
    state, second = state_of(NEVER, NEVER), frozenset({1})
    progress = state.progress
    progress.hold_at(97, set())
    assert admit(state, 100, second)
    assert (progress.watermarks[0], progress.watermark, progress.began_ms) == (95, 95, 95)
    assert admit(state, 110, second)
    assert (progress.watermarks[0], progress.watermark) == (105, 97)
    assert not admit(state, 94, second), "judged by the watermark of its own input"
    progress.hold_at(200, {1})
    assert (progress.watermark, progress.began_ms) == (105, 95)
