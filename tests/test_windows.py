"""Windows over panes of several tasks: what they cover, when they are withheld, and how tallies merge."""

from __future__ import annotations

from itertools import permutations

from streammetrics.event_time import FOREVER, NEVER
from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.scoring import add
from streammetrics.windows import Board, Group, WindowRules, add_to

LAYOUT = TallyLayout(Scorer(["mrr@10", "item_hit_rate@10"]), moments=False)
RULES = WindowRules(pane_ms=10, windows_ms=(20,), lateness_ms=2, attribution_ms=5)
ALL = Group()


def tally(lists: int, with_feedback: int = 0, mrr: float = 0.0, hits: int = 0, places: int = 0, places_with_feedback: int = 0) -> list[int]:
    return [lists, with_feedback, int(mrr * 2**40), hits, places, places_with_feedback]


def board(*panes: dict[int, list[int]], oldest_kept: int = NEVER) -> Board:
    made = Board(LAYOUT, RULES)
    for task, of_task in enumerate(panes):
        made.update(task, {start: {ALL: row} for start, row in of_task.items()}, None, oldest_kept)
    return made


def test_a_window_covers_whole_panes_up_to_the_last_complete_one() -> None:
    made = board({0: tally(1), 10: tally(2), 20: tally(4), 30: tally(8)})
    live = made.window(20, "live", 39, NEVER, 35)
    final = made.window(20, "final", 36, NEVER, 35)
    assert (live.end_ms, live.groups[0].lists) == (30, 6)
    assert (final.end_ms, final.groups[0].lists) == (20, 3)
    assert made.window(20, "final", 37, NEVER, 35).end_ms == 30


def test_tasks_add_up_whatever_their_order() -> None:
    parts = [{0: tally(1, 1, 0.5, 1, 3, 3)}, {0: tally(2, 1, 1.0, 2, 4, 2)}, {0: tally(1)}]
    answers = [board(*order).window(20, "live", 10, NEVER, 5).groups[0] for order in permutations(parts)]
    assert all(answer == answers[0] for answer in answers)
    assert answers[0].values == {"mrr@10": 1.5 / 4, "item_hit_rate@10": 3 / 7}
    assert answers[0].values_with_feedback == {"mrr@10": 1.5 / 2, "item_hit_rate@10": 3 / 5}


def test_a_window_that_needs_a_dropped_pane_is_withheld() -> None:
    made = board({20: tally(1)}, oldest_kept=20)
    assert made.window(20, "live", 30, 20, 25).complete is False
    assert made.window(20, "live", 40, 20, 25).complete is True


def test_nothing_is_shown_before_every_task_has_a_watermark() -> None:
    assert board({0: tally(1)}).window(20, "live", NEVER, NEVER, 5).end_ms is None


def test_after_a_flush_windows_end_with_the_pane_of_the_newest_event() -> None:
    window = board({0: tally(1), 10: tally(2)}).window(20, "final", FOREVER, NEVER, 13)
    assert (window.end_ms, window.groups[0].lists) == (20, 3)


def test_a_group_without_lists_is_absent() -> None:
    made = Board(LAYOUT, RULES)
    made.update(0, {0: {ALL: tally(1), Group("e", "v"): tally(0)}}, None, NEVER)
    assert [values.group for values in made.window(20, "live", 10, NEVER, 5).groups] == [ALL]


def test_a_pane_that_is_gone_from_the_store_is_gone_from_the_board() -> None:
    made = board({0: tally(1), 10: tally(2)})
    made.update(0, {10: {ALL: tally(2)}}, 0, NEVER)
    assert made.window(20, "live", 20, NEVER, 15).groups[0].lists == 2


def test_nothing_is_kept_of_panes_that_have_left_every_store() -> None:
    made = Board(LAYOUT, RULES)
    for start in range(0, 100, 10):
        for task in (0, 1):
            made.update(task, {start: {ALL: tally(1)}}, start, start - 10 * (1 + task))
            made.window(20, "live", start + 10, NEVER, start + 5)
    assert made.starts() == [70, 80, 90]
    assert made.window(10, "live", 80, NEVER, 95).groups[0].lists == 1, "one task has dropped it"
    assert made.window(10, "live", 90, NEVER, 95).groups[0].lists == 2


def test_a_tally_that_returns_to_zero_is_forgotten() -> None:
    pane = {ALL: tally(1)}
    add_to(pane, ALL, [-number for number in tally(1)])
    assert pane == {}


def test_tallies_are_a_monoid_at_any_size() -> None:
    huge = [1 << 80] * LAYOUT.width
    assert add(huge, LAYOUT.zero()) == huge
    assert add(add(huge, huge), huge) == add(huge, add(huge, huge))
