"""The curve of several tasks: counts add up, and no curve is shown that would be partial."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.reports.position_bias import PositionBias, PositionBiasReader, PositionBiasView
from streammetrics.windows.examination import ExaminationRules, ExaminationSample, ItemHashes, encode_sample
from tests.support.enrolments import shown as shown_to
from tests.windows.samples import final

RULES = ExaminationRules(ranks=2, period_ms=DAY_MS)
VIEW = PositionBiasView(RULES, (1, 2, 5))


def stored(lists: int, clicks: int, order: str = "ab", rules: ExaminationRules = RULES, variant: str = "x") -> bytes:
    """A sample of lists of two items; the first place is clicked in some."""
    sample, hashes = ExaminationSample(), ItemHashes(())
    for at in range(lists):
        sample.add(final(shown_to("u", at, (("e", variant),), tuple(order)), (0, 1) if at < clicks else ()), rules, hashes)
    return encode_sample(sample, rules)


def control(enrolled_before: int) -> Any:
    return SimpleNamespace(enrolment=SimpleNamespace(enrolled_before=enrolled_before))


def read(
    tasks: dict[int, dict[int, bytes]], *enrolled: int, newest: int = 99 * DAY_MS, view: PositionBiasView | None = VIEW
) -> PositionBias:
    reader = PositionBiasReader(view)
    for task, periods in tasks.items():
        reader.update(task, {str(period): value for period, value in periods.items()})
    found = reader.read(len(tasks), [control(each) for each in enrolled], newest)
    assert found is not None
    return found


def shows(found: PositionBias) -> list[int]:
    assert found.curve is not None
    return [each.shows for each in found.curve.ranks]


def test_the_counts_of_tasks_and_of_two_periods_add_up() -> None:
    tasks = {0: {8: stored(1, 0), 9: stored(2, 1), 10: stored(4, 1)}, 1: {10: stored(8, 2, variant="y")}}
    found = read(tasks, 10 * DAY_MS + 5, 10 * DAY_MS + 9)
    assert shows(found) == [14, 14]
    assert found.from_ms == 9 * DAY_MS
    assert [(each.variant, each.lists, each.dcg) for each in found.variants] == [
        ("x", 6, {"dcg@1": 2 / 6, "dcg@2": 2 / 6}),
        ("y", 8, {"dcg@1": 2 / 8, "dcg@2": 2 / 8}),
    ]


def test_after_a_flush_the_newest_event_says_which_periods_count() -> None:
    tasks = {0: {8: stored(1, 0), 9: stored(2, 1), 10: stored(4, 1)}}
    assert shows(read(tasks, FOREVER, newest=9 * DAY_MS + 1)) == [3, 3]


def test_a_task_that_is_one_period_ahead_is_read_where_the_others_are() -> None:
    tasks = {0: {9: stored(2, 1)}, 1: {9: stored(3, 1), 10: stored(8, 2)}}
    assert shows(read(tasks, 10 * DAY_MS, 11 * DAY_MS)) == [5, 5]


def test_tasks_that_are_more_than_a_period_apart_have_no_curve() -> None:
    found = read({0: {9: stored(2, 1)}, 1: {}}, 9 * DAY_MS, 12 * DAY_MS, newest=13 * DAY_MS)
    assert (found.curve, found.withheld) == (None, "tasks_apart")
    assert "more than a period apart" in str(found.shown().withheld)


def test_without_a_context_the_numbers_come_with_a_caution() -> None:
    """A ranker that knows its users shows an item higher to those who like it, so the curve is then too steep."""
    by_query = ExaminationRules(ranks=2, period_ms=DAY_MS, context=("query",))
    cautions = [
        read({0: {0: stored(40, 40, rules=rules)}}, 1, view=PositionBiasView(rules, (1,))).shown().caution for rules in (RULES, by_query)
    ]
    assert cautions[0].startswith("position_bias.context is empty")
    assert cautions[1] is None


def test_counts_of_other_settings_have_no_curve() -> None:
    other = ExaminationRules(ranks=2, period_ms=DAY_MS, items_max=500)
    found = read({0: {9: stored(2, 1)}, 1: {9: stored(2, 1, rules=other)}}, 9 * DAY_MS + 1, 9 * DAY_MS + 1)
    assert (found.curve, found.withheld) == (None, "other_settings")


@pytest.mark.parametrize("enrolled", [(), (NEVER, 5)])
def test_before_every_task_has_events_there_is_no_curve(enrolled: tuple[int, ...]) -> None:
    found = read({0: {}, 1: {}}, *enrolled)
    assert (found.curve, found.withheld, found.from_ms) == (None, None, None)
    assert found.shown().ranks == ()


def test_a_reader_without_a_view_shows_nothing() -> None:
    reader = PositionBiasReader(None)
    reader.update(0, {"9": b""})
    assert reader.read(1, [control(5)], 5) is None


def test_corrected_dcg_divides_by_the_examination() -> None:
    both = {0: {9: stored(200, 120, "ab")}, 1: {9: stored(200, 60, "ba")}}
    (arm,) = read(both, 9 * DAY_MS + 1, 9 * DAY_MS + 1).variants
    assert arm.corrected_dcg == {}  # no item has a click at rank 2
    assert arm.dcg["dcg@2"] == 180 / 400
