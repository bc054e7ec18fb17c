"""The lists of other variants after a variant's last one, from the panes of all tasks."""

from __future__ import annotations

import pytest

from streammetrics.reports.experiment_lists import PANES_MAX, PANES_OPEN, LaterLists
from streammetrics.windows.panes import Group, Pane, decode_pane, encode_pane
from streammetrics.windows.rolling import WindowAggregator
from tests.windows.samples import LAYOUT, RULES, tally

PANE_MS = RULES.pane_ms


def aggregator(*tasks: dict[int, Pane]) -> WindowAggregator:
    windows = WindowAggregator(LAYOUT, RULES, decode_pane)
    for task, panes in enumerate(tasks):
        windows.update(task, {start: encode_pane(pane) for start, pane in panes.items()}, None, -1)
    return windows


def pane(**lists: int) -> Pane:
    """Lists of experiment `ranker` by variant, and as many of another experiment and of a segment, which do not count."""
    groups = {Group("ranker", name): count for name, count in lists.items()}
    groups |= {Group("other", name): count for name, count in lists.items()}
    groups |= {Group("ranker", name, "surface", "home"): count for name, count in lists.items()}
    return {group: tally(count) for group, count in groups.items()}


def test_lists_of_others_count_from_the_pane_after_the_last_list_on() -> None:
    panes = {0: pane(control=5, new=5), PANE_MS: pane(control=6, new=1), 2 * PANE_MS: pane(control=7), 3 * PANE_MS: pane(control=8)}
    later = LaterLists(aggregator(panes, {3 * PANE_MS: pane(control=100)}))
    assert later.of("ranker", {"control": 4 * PANE_MS - 1, "new": 2 * PANE_MS - 1}) == {"control": 0, "new": 115}


@pytest.mark.parametrize("length", [1, 2, 40, 100, 1_000])
def test_the_count_grows_with_the_panes(length: int) -> None:
    panes = {start * PANE_MS: pane(control=start % 7) for start in range(1, length + 1)}
    lists = sum(start % 7 for start in range(1, length + 1))
    assert LaterLists(aggregator(panes)).of("ranker", {"new": 0})["new"] == pytest.approx(lists, rel=0.1 if length > PANES_MAX else 0)


def test_complete_panes_are_read_once() -> None:
    panes = {start * PANE_MS: encode_pane(pane(control=1)) for start in range(1, PANES_MAX + 1)}
    windows = aggregator()
    windows.update(0, panes, None, -1)
    later = LaterLists(windows)
    assert later.of("ranker", {"new": 0}) == {"new": PANES_MAX}
    windows.update(0, dict.fromkeys(panes, encode_pane(pane(control=3))), None, -1)
    assert later.of("ranker", {"new": 0}) == {"new": PANES_MAX + 2 * PANES_OPEN}
    assert later.of("ranker", {"new": 1}) == {"new": 3 * PANES_MAX}


def test_lists_that_come_late_to_an_open_pane_count() -> None:
    windows = aggregator({start * PANE_MS: pane(control=1) for start in range(1, 11)})
    later = LaterLists(windows)
    assert later.of("ranker", {"new": 0}) == {"new": 10}
    windows.update(0, {start * PANE_MS: encode_pane(pane(control=1 if start < 10 else 5)) for start in range(1, 11)}, None, -1)
    assert later.of("ranker", {"new": 0}) == {"new": 14}
