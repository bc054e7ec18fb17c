"""Counts of paths survive commits, however records are cut into batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.batch import Batch
from streammetrics.engine.path_counts import ROWS_MAX, PathCounts
from streammetrics.engine.task_state import decode_control
from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Feedback, PathsFound, WatchedPath
from tests.oracle import Settings
from tests.support.machine import Machine, engine_of

RANKER, PAGE = WatchedPath("lists", "experiments.ranker", "ab"), WatchedPath("lists", "segments.page", "page")
BOTH, NEITHER = PathsFound("lists", (RANKER, PAGE), ()), PathsFound("lists", (), ((RANKER, "abs"), (PAGE, "")))
ONE = PathsFound("lists", (PAGE,), ((RANKER, ""),))


def test_records_are_counted_with_the_nearest_name_and_the_last_time() -> None:
    counts = PathCounts()
    for note, at_ms in ((BOTH, 5), (NEITHER, 7), (ONE, 9), (ONE, 8)):
        counts.add(0, note, at_ms)
    assert counts.stored() == [(0, RANKER, ("abs", 4, 1, 3, 5)), (0, PAGE, ("", 4, 3, 0, 9))]


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([BOTH, NEITHER, ONE]), st.integers(0, 9))), st.sets(st.integers(0, 20)))
def test_commits_between_records_change_nothing(records: list[tuple[int, PathsFound, int]], commits: set[int]) -> None:
    whole, cut = PathCounts(), PathCounts()
    state = Machine(engine_of(Settings()), Settings()).state
    for number, record in enumerate(records):
        whole.add(*record)
        cut.add(*record)
        if number in commits:
            state.path_counts = cut
            control, cut = decode_control(state.control_record()), PathCounts()
            cut.restore(control.paths)
    assert cut.stored() == whole.stored()


def test_the_path_that_was_seen_longest_ago_goes_first() -> None:
    counts = PathCounts()
    paths = [WatchedPath(f"mapping {number}", "value", "v") for number in range(ROWS_MAX + 1)]
    for path in paths:
        counts.add(0, PathsFound(path.mapping, (), ((path, ""),)), 5)
    kept = {path for _, path, _ in counts.stored()}
    assert kept == {*paths[1:]}
    assert all(row == ("", 1, 0, 1, NEVER) for _, _, row in counts.stored())


def test_a_note_is_no_event() -> None:
    settings = Settings()
    machine = Machine(engine_of(settings), settings)
    click = Feedback("u", 5, "i", "click")
    batch = Batch(0, [(0, -1, (click, ONE)), (1, 30, (click, ONE))], 2)
    machine.engine.take(machine.state, machine.engine.needs(machine.state, batch), {})
    assert machine.engine.step(machine.state, batch).timed == 2
    assert machine.state.progress.counts["events", 0] == 2
    assert machine.state.path_counts.stored()[1] == (0, PAGE, ("", 2, 2, 0, 30))
