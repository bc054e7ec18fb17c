"""Reports of several tasks: shown only as far as all tasks have come, and only what all tasks still store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammetrics.engine.engine import Engine
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.errors import StateError
from streammetrics.events.model import Exposure, Impression
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.input_warnings import UserPartitions
from streammetrics.windows.panes import WindowRules
from streammetrics.windows.unique_users import UniqueUserRules
from tests.oracle import Arrival, Settings
from tests.support.machine import Machine, engine_of

SETTINGS = Settings(inputs=("events",), gap_ms=1, lateness_ms=0, attribution_ms=1, pane_ms=1, windows_ms=(5,))
ENGINE = engine_of(SETTINGS, retention_ms=10, unique_users=UniqueUserRules(panes=5))


def builder_of() -> ReportBuilder:
    return ReportBuilder(ENGINE.layout, WindowRules(pane_ms=1, windows_ms=(5,), lateness_ms=0, attribution_ms=1), {}, ENGINE.signature)


def update_task(
    builder: ReportBuilder,
    task: int,
    *times: int,
    is_snapshot: bool = False,
    flush: bool = False,
    engine: Engine = ENGINE,
    user: str = "u",
) -> None:
    """Update a task that has read a list at each of these times and committed after each."""
    machine = Machine(engine, SETTINGS)
    for ts in times:
        machine.feed([Arrival("events", Impression(f"x{ts}", user, ts, ("i",)))])
        machine.commit()
    machine.finish(flush)
    view = machine.store.view([0], {})[0]
    builder.update(task, replace(view, is_snapshot=is_snapshot))


def test_a_window_with_dropped_panes_is_withheld_and_counted_once() -> None:
    builder = builder_of()
    update_task(builder, 0, 1, 100)
    update_task(builder, 1, 1, 12)
    for _ in range(2):
        report = builder.report(2)
        assert [window.complete for window in (*report.windows, *report.user_windows)] == [False] * 3
        assert report.withheld == 2


def test_a_window_that_starts_with_the_oldest_stored_pane_is_shown() -> None:
    def complete(behind: int) -> list[bool]:
        builder = builder_of()
        update_task(builder, 0, 1, 20)
        update_task(builder, 1, 1, behind)
        final, _, of_users = (*(report := builder.report(2)).windows, *report.user_windows)
        assert final.end_ms == of_users.end_ms == behind - 1
        return [final.complete, of_users.complete]

    assert [complete(behind) for behind in (16, 15)] == [[True, True], [False, False]]


def test_user_windows_are_shown_once_all_tasks_count_users_for_their_length() -> None:
    def complete(*panes: int) -> list[bool]:
        builder = builder_of()
        for task, longest in enumerate(panes):
            unique_users = UniqueUserRules(panes=longest) if longest else None
            update_task(builder, task, 1, 20, engine=engine_of(SETTINGS, retention_ms=10, unique_users=unique_users))
        return [window.complete for window in builder.report(len(panes)).user_windows]

    assert complete(5, 5) == complete(7, 7) == [True]
    assert complete(5, 7) == complete(0, 5) == complete(4, 4) == [False]
    assert complete(0, 0) == []


def test_open_users_and_sessions_are_summed_over_tasks() -> None:
    builder = builder_of()
    for task in (0, 1, 2):
        update_task(builder, task, 1, 9)
    report = builder.report(3)
    assert (report.users_open, report.sessions_open) == (3, 3)


def test_a_user_with_exposures_only_is_not_open() -> None:
    settings = replace(SETTINGS, validity_ms=50)
    engine = engine_of(settings, retention_ms=10)
    machine = Machine(engine, settings)
    machine.feed([Arrival("events", Exposure("early", 1, "ranker", "new")), Arrival("events", Impression("x", "u", 2, ("i",)))])
    machine.commit()
    view = machine.store.view([0], {})[0]
    builder = ReportBuilder(engine.layout, WindowRules(pane_ms=1, windows_ms=(5,), lateness_ms=0, attribution_ms=1), {}, engine.signature)
    builder.update(0, view)
    assert (view.users, builder.report(1).users_open) == (2, 1)


def test_a_window_that_begins_before_users_were_counted_is_withheld() -> None:
    """Users are counted from 7 on. The last window of 5 before that would begin at 6."""

    def complete(newest: int) -> tuple[int | None, bool]:
        machine = Machine(engine_of(SETTINGS, retention_ms=50), SETTINGS)
        machine.feed([Arrival("events", Impression("before", "u", 6, ("i",)))])
        machine.commit()
        machine = Machine(engine_of(SETTINGS, retention_ms=50, unique_users=UniqueUserRules(panes=5)), SETTINGS, machine.store)
        machine.feed([Arrival("events", Impression("after", "u", newest, ("i",)))])
        machine.finish(flush=False)
        builder = builder_of()
        builder.update(0, machine.store.view([0], {})[0])
        (window,) = builder.report(1).user_windows
        return window.end_ms, window.complete

    assert [complete(newest) for newest in (12, 13)] == [(11, False), (12, True)]


def test_commits_that_a_store_has_lost_are_dropped() -> None:
    def users() -> list[int]:
        (window,) = builder.report(1).user_windows
        return [counts.users for counts in window.arms]

    builder = builder_of()
    update_task(builder, 0, 1, 2, 9)
    assert (builder.aggregator.starts(), users()) == ([1, 2, 9], [])
    update_task(builder, 0, 3, is_snapshot=True)
    assert (builder.aggregator.starts(), users()) == ([3], [])
    update_task(builder, 0, 5, 9, is_snapshot=True)
    assert users() == [1]


def test_after_a_flush_windows_end_with_the_newest_event_of_all_tasks() -> None:
    builder = builder_of()
    update_task(builder, 0, 3, 8, flush=True)
    update_task(builder, 1, 4, flush=True)
    report = builder.report(2)
    assert (report.ended, report.watermark_ms, report.final_ms) == (True, None, None)
    assert {window.end_ms for window in (*report.windows, *report.user_windows)} == {9}


def test_until_a_pane_with_lists_ends_live_windows_have_the_open_pane_of_the_slowest_task() -> None:
    def live(*tasks: tuple[int, ...]) -> tuple[int | None, int]:
        builder = builder_of()
        for task, times in enumerate(tasks):
            update_task(builder, task, *times)
        report = builder.report(len(tasks))
        final, window = report.windows
        assert final.groups == ()
        assert [number.number for number in report.first_numbers] == (["live", "final"] if report.watermark_ms == 3 else ["final"])
        return window.end_ms, sum(group.lists for group in window.groups)

    assert live((3,), (9,)) == (4, 1)
    assert live((3,), (3,)) == (4, 2)
    assert live((3, 4), (3, 4)) == (4, 2), "a whole pane: the open one does not count any more"


def test_no_open_pane_is_shown_before_all_tasks_have_committed() -> None:
    builder = builder_of()
    update_task(builder, 0, 3)
    report = builder.report(2)
    assert [window.end_ms for window in report.windows] == [None, None]
    assert report.first_numbers == ()


@pytest.mark.parametrize("fault", ["rules", "measures"])
def test_state_of_other_rules_or_measures_is_rejected(fault: str) -> None:
    mine, others = (engine_of(SETTINGS, experiments=ExperimentRules(metrics=metrics)) for metrics in (("mrr@1",), ("mrr@3",)))
    if fault == "rules":
        others = engine_of(replace(SETTINGS, gap_ms=2), experiments=ExperimentRules(metrics=("mrr@1",)))
    machine = Machine(others, SETTINGS)
    machine.commit()
    rules = WindowRules(pane_ms=1, windows_ms=(5,), lateness_ms=0, attribution_ms=1)
    with pytest.raises(StateError, match="made by other rules"):
        ReportBuilder(mine.layout, rules, {}, mine.signature).update(0, machine.store.view([0], {})[0])


def test_the_slowest_task_decides_up_to_when_lists_are_enrolled() -> None:
    def entered_ms(*newest: int) -> int:
        builder = builder_of()
        for task, ts in enumerate(newest):
            update_task(builder, task, 1, ts)
        entered_ms = builder.report(len(newest)).entered_ms
        assert entered_ms is not None
        return entered_ms

    assert entered_ms(100, 12) == entered_ms(12, 100) == entered_ms(12) < entered_ms(100)


def test_users_of_several_tasks_are_found() -> None:
    builder = builder_of()
    update_task(builder, 0, 1, user="u")
    update_task(builder, 1, 1, user="v")
    assert builder.report(2).user_partitions == UserPartitions(2, 0)
    update_task(builder, 1, 1, user="u", is_snapshot=True)
    assert builder.report(2).user_partitions == UserPartitions(1, 1)


def test_a_single_task_has_no_users_to_compare() -> None:
    builder = builder_of()
    update_task(builder, 0, 1)
    assert builder.report(1).user_partitions is None
