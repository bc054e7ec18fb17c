"""The lists of other variants after a variant's last one, from the panes of all tasks."""

from __future__ import annotations

from streammetrics.reports.later_lists import PANES_MAX, LaterLists
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


def test_the_first_panes_are_enough_and_are_read_once() -> None:
    windows = aggregator({start * PANE_MS: pane(control=1) for start in range(1, PANES_MAX + 10)})
    later = LaterLists(windows)
    assert later.of("ranker", {"new": 0}) == {"new": PANES_MAX}
    windows.update(0, {}, None, -1)
    assert later.of("ranker", {"new": 0}) == {"new": PANES_MAX}
    assert later.of("ranker", {"new": 1}) == {"new": 0}
