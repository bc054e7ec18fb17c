"""Windows over panes of several tasks: their span, when they are withheld, and which panes are decoded."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.windows.panes import Group, Pane, decode_pane, encode_pane
from streammetrics.windows.rolling import WindowAggregator
from streammetrics.windows.tally_deltas import add_tallies
from tests.windows.samples import LAYOUT, RULES, tally

ALL = Group()


def aggregator(*panes: dict[int, list[int]], oldest_kept: int = NEVER) -> WindowAggregator:
    windows = WindowAggregator(LAYOUT, RULES, decode_pane)
    for task, of_task in enumerate(panes):
        windows.update(task, stored(of_task), None, oldest_kept)
    return windows


def stored(panes: dict[int, list[int]]) -> dict[int, bytes]:
    return {start: encode_pane({ALL: row}) for start, row in panes.items()}


def test_a_window_covers_whole_panes_up_to_the_last_complete_one() -> None:
    windows = aggregator({0: tally(1), 10: tally(2), 20: tally(4), 30: tally(8)})
    live = windows.window(20, "live", 39, NEVER, 35)
    final = windows.window(20, "final", 36, NEVER, 35)
    assert (live.end_ms, live.groups[0].lists) == (30, 6)
    assert (final.end_ms, final.groups[0].lists) == (20, 3)
    assert windows.window(20, "final", 37, NEVER, 35).end_ms == 30


def test_tasks_add_up_in_any_order() -> None:
    parts = [{0: tally(1, 1, 0.5, 1, 3, 3)}, {0: tally(2, 1, 1.0, 2, 4, 2)}, {0: tally(1)}]
    answers = [aggregator(*order).window(20, "live", 10, NEVER, 5).groups[0] for order in permutations(parts)]
    assert all(answer == answers[0] for answer in answers)
    assert answers[0].values == {"mrr@10": 1.5 / 4, "item_hit_rate@10": 3 / 7}
    assert answers[0].values_with_feedback == {"mrr@10": 1.5 / 2, "item_hit_rate@10": 3 / 5}


def test_a_window_that_needs_a_dropped_pane_is_withheld() -> None:
    windows = aggregator({20: tally(1)}, oldest_kept=20)
    assert windows.window(20, "live", 30, 20, 25).complete is False
    assert windows.window(20, "live", 40, 20, 25).complete is True


def test_nothing_is_shown_before_every_task_has_a_watermark() -> None:
    assert aggregator({0: tally(1)}).window(20, "live", NEVER, NEVER, 5).end_ms is None


def test_after_a_flush_windows_end_with_the_pane_of_the_newest_event() -> None:
    window = aggregator({0: tally(1), 10: tally(2)}).window(20, "final", FOREVER, NEVER, 13)
    assert (window.end_ms, window.groups[0].lists) == (20, 3)


def test_a_group_without_lists_is_absent() -> None:
    windows = WindowAggregator(LAYOUT, RULES, decode_pane)
    windows.update(0, {0: encode_pane({ALL: tally(1), Group("e", "v"): tally(0)})}, None, NEVER)
    assert [values.group for values in windows.window(20, "live", 10, NEVER, 5).groups] == [ALL]


def test_a_pane_that_left_the_store_leaves_the_windows() -> None:
    windows = aggregator({0: tally(1), 10: tally(2)})
    windows.update(0, stored({10: tally(2)}), 0, NEVER)
    assert windows.window(20, "live", 20, NEVER, 15).groups[0].lists == 2


def test_panes_that_left_every_store_are_dropped() -> None:
    windows = aggregator()
    for start in range(0, 100, 10):
        for task in (0, 1):
            windows.update(task, stored({start: tally(1)}), start, start - 10 * (1 + task))
            windows.window(20, "live", start + 10, NEVER, start + 5)
    assert windows.starts() == [70, 80, 90]
    assert windows.window(10, "live", 80, NEVER, 95).groups[0].lists == 1, "one task has dropped it"
    assert windows.window(10, "live", 90, NEVER, 95).groups[0].lists == 2


class CountingDecoder:
    """Decodes panes and counts them."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self, pane: bytes) -> Pane:
        self.read += 1
        return decode_pane(pane)


def test_a_final_pane_is_decoded_only_when_it_enters_or_leaves_a_window() -> None:
    decode = CountingDecoder()
    windows = WindowAggregator(LAYOUT, RULES, decode)
    windows.update(0, stored({start: tally(1) for start in range(0, 1_000, 10)}), None, NEVER)
    assert decode.read == 0
    for watermark in (507, 508, 516):
        assert [values.lists for values in windows.window(100, "final", watermark, NEVER, 995).groups] == [10]
        assert decode.read == 10
    windows.window(100, "final", 517, NEVER, 995)
    assert decode.read == 12


def test_a_longer_window_decodes_only_the_panes_that_a_shorter_one_has_not() -> None:
    decode = CountingDecoder()
    windows = WindowAggregator(LAYOUT, RULES, decode)
    windows.update(0, stored({start: tally(1) for start in range(0, 1_000, 10)}), None, NEVER)
    for window_ms in (500, 600):
        assert windows.window(window_ms, "final", 907, NEVER, 995).groups[0].lists == window_ms // 10
    assert decode.read == 60


def test_only_changed_panes_are_decoded_again() -> None:
    decode = CountingDecoder()
    windows = WindowAggregator(LAYOUT, RULES, decode)
    panes = {start: tally(1) for start in range(0, 100, 10)}
    windows.update(0, stored(panes), None, NEVER)
    for window_ms in (50, 60):
        windows.window(window_ms, "live", 100, NEVER, 105)
    before = decode.read
    windows.update(0, stored({80: tally(1), 90: tally(5)}), 80, NEVER)
    for window_ms in (50, 60):
        assert windows.window(window_ms, "live", 100, NEVER, 105).groups[0].lists == window_ms // 10 + 4
    assert decode.read == before + 1


GROUPS = (ALL, Group("e", "a"), Group("e", "b"))
CONTENTS = st.one_of(
    st.none(), st.dictionaries(st.sampled_from(GROUPS), st.integers(0, 3).map(lambda lists: tally(lists, mrr=lists)), max_size=3)
)
CHANGES = st.dictionaries(st.integers(0, 11).map(lambda number: 10 * number), CONTENTS, max_size=6)
UPDATES = st.lists(
    st.tuples(
        st.integers(0, 2), CHANGES, st.booleans(), st.integers(-3, 8), st.sampled_from((None, NEVER, 0, 28, None, 58, 117, FOREVER, None))
    ),
    max_size=12,
)


def sums_of(panes: Iterable[tuple[int, dict[Group, list[int]]]], start_ms: int, end_ms: int) -> dict[Group, list[int]]:
    """Add the tallies of the panes that begin in a span, by group."""
    sums: dict[Group, list[int]] = {}
    for start, pane in panes:
        if start_ms <= start < end_ms:
            for group, numbers in pane.items():
                sums[group] = add_tallies(sums.get(group, LAYOUT.zero()), numbers)
    return sums


@given(UPDATES)
def test_windows_are_the_sums_of_the_stored_panes_after_any_updates(
    updates: list[tuple[int, dict[int, dict[Group, list[int]] | None], bool, int, int | None]],
) -> None:
    """Watermarks may also go back, as after a store has lost its last commits."""
    windows, stored_panes, watermark = aggregator(), dict[int, dict[int, dict[Group, list[int]]]](), 58
    for task, changes, is_snapshot, kept, moved in updates:
        watermark = watermark if moved is None else moved
        of_task = {} if is_snapshot else dict(stored_panes.get(task, {}))
        of_task |= {start: pane for start, pane in changes.items() if pane is not None}
        for start in [start for start in of_task if start < 10 * kept or (start in changes and changes[start] is None)]:
            del of_task[start]
        stored_panes[task] = of_task
        windows.update(task, {start: encode_pane(pane) for start, pane in of_task.items()}, None, 10 * kept)
        assert windows.starts() == sorted({start for panes in stored_panes.values() for start in panes})
        for window_ms, view in ((20, "final"), (20, "live"), (70, "live"), (50, "final")):
            window = windows.window(window_ms, view, watermark, NEVER, 95)
            panes = [item for panes in stored_panes.values() for item in panes.items()]
            sums = {} if window.end_ms is None else sums_of(panes, window.end_ms - window_ms, window.end_ms)
            assert window.groups == tuple(windows.values(group, sums[group]) for group in sorted(sums) if sums[group][0])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.data())
def test_the_tallies_of_a_final_span_are_those_of_its_panes(lists: list[int], data: st.DataObject) -> None:
    windows = aggregator({10 * at: tally(count) for at, count in enumerate(lists) if count})
    for _ in range(4):
        start = data.draw(st.integers(0, len(lists)))
        end = data.draw(st.integers(start, len(lists)))
        expected = sum(lists[start:end])
        assert windows.final_tallies(10 * start, 10 * end).get(ALL, tally(0)) == tally(expected)


def test_a_final_span_is_complete_and_ends_with_the_last_final_pane() -> None:
    windows = aggregator({0: tally(1), 10: tally(2), 20: tally(4)})
    assert windows.final_span(100, 37, NEVER, 25) == (0, 30)
    assert windows.final_span(20, 37, NEVER, 25) == (10, 30)
    assert windows.final_span(100, 37, 20, 25) == (20, 30)
    assert windows.final_span(100, NEVER, NEVER, 25) is None
    assert windows.final_span(100, 37, 30, 25) is None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=14), st.integers(-2, 14), st.integers(-1, 6))
@example([(1, 0), (2, 1), (0, 0), (3, 2)], -2, -1)
@example([(1, 1)] * 8, 2, 3)
def test_earlier_windows_are_those_that_were_shown_then(lists: list[tuple[int, int]], after: int, kept: int) -> None:
    panes = {10 * at: {group: tally(count) for group, count in zip(GROUPS, of_pane, strict=False)} for at, of_pane in enumerate(lists)}
    windows, oldest_kept = aggregator(), 10 * kept
    windows.update(0, {start: encode_pane(pane) for start, pane in panes.items() if start >= oldest_kept}, None, oldest_kept)
    newest = windows.window(30, "final", 10 * len(lists) + 7, oldest_kept, 10 * len(lists))
    groups_before = {values.group for values in newest.groups}
    expected = []
    for end in range(10 * after + 10, newest.end_ms or 0, 10):
        then = windows.window(30, "final", end + 7, oldest_kept, 10 * len(lists))
        groups = tuple(values for values in then.groups if values.group in groups_before)
        if then.complete and groups:
            expected.append((end, groups))
    earlier_windows = [*windows.earlier(newest, 10 * after, oldest_kept, 9)] if newest.complete else []
    assert [(window.end_ms, window.groups) for window in earlier_windows] == (expected if newest.complete else [])


def test_earlier_windows_have_the_first_groups_and_those_without_a_segment_first() -> None:
    segment = Group("", "", "surface", "home")
    windows = aggregator()
    windows.update(0, {start: encode_pane({segment: tally(1), GROUPS[1]: tally(2)}) for start in (0, 10, 20)}, None, NEVER)
    newest = windows.window(20, "final", 37, NEVER, 25)
    assert [[values.group for values in window.groups] for window in windows.earlier(newest, 0, NEVER, 1)] == [[GROUPS[1]]] * 2
