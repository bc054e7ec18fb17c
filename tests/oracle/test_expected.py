"""The whole oracle: counters, final lists, and properties of every result."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st

from tests.oracle import (
    REASONS,
    Arrival,
    Group,
    Result,
    Tally,
    expected_result,
)
from tests.oracle.traces import ALL, ONE, feedback, lists, show
from tests.support.strategies import Case, batches, cases, interleavings, tiny_session_cases


class TestCounters:
    def test_feedback_is_counted_when_its_session_closes_and_duplicates_at_once(self) -> None:
        trace = [show("x", 0), show("x", 0), feedback(1, "a"), feedback(1, "a"), feedback(1, "z", "stare"), show("y", 10)]
        before_close = expected_result(trace, ONE).totals
        assert [before_close[reason] for reason in ("duplicate", "unknown_action", "matched", "repeated")] == [1, 1, 0, 0]
        closed = expected_result([*trace, show("z", 11)], ONE).totals
        assert [closed[reason] for reason in ("duplicate", "unknown_action", "matched", "repeated")] == [1, 1, 2, 1]

    def test_events_include_refused_ones(self) -> None:
        assert expected_result([show("x", 50), show("y", 1)], ONE).counters == {("events", "events"): 2, ("late", "events"): 1}


class TestFinality:
    def test_a_list_is_final_after_the_attribution_time_and_the_lateness(self) -> None:
        assert lists(show("x", 0), feedback(7, "a"), under=ONE)[0].final is False
        assert lists(show("x", 0), feedback(8, "a"), under=ONE)[0].final is True

    def test_a_list_is_final_when_its_session_closes(self) -> None:
        under = replace(ONE, attribution_ms=50)
        assert lists(show("x", 0), show("y", 10), under=under)[0].final is True
        assert expected_result([show("x", 0), show("y", 10)], under).f_ms == 10 - 2 - 50


def final_panes(result: Result, f_ms: float) -> dict[tuple[int, Group], Tally]:
    return {key: tally for key, tally in result.panes.items() if key[0] + result.settings.pane_ms <= f_ms}


def result_of(case: Case, *, flush: bool = False) -> Result:
    return expected_result(case.steps, case.settings, flush=flush)


def order_free_results(case: Case) -> tuple[object, ...]:
    """All that may not depend on how a task's events are interleaved."""
    flushed, open_ended = result_of(case, flush=True), result_of(case)
    return (flushed.panes, flushed.counters, flushed.windows, open_ended.panes, open_ended.counters, open_ended.windows, open_ended.w_ms)


class TestProperties:
    @run(deadline=None)
    @given(st.data())
    def test_the_interleaving_of_inputs_does_not_matter_without_ticks(self, data: st.DataObject) -> None:
        case = data.draw(cases(without=["ticks"]))
        case = replace(case, steps=tuple(step for step in case.steps if isinstance(step, Arrival)))
        assert order_free_results(data.draw(interleavings(case))) == order_free_results(case)

    @run(deadline=None)
    @given(st.data())
    def test_the_arrival_order_of_admitted_events_does_not_matter(self, data: st.DataObject) -> None:
        case = data.draw(cases(without=["ticks", "futures"]))
        settings = replace(case.settings, lateness_ms=1_000_000, support_users=1)
        very_late = replace(case, settings=settings)
        shuffled = replace(very_late, steps=tuple(data.draw(st.permutations(very_late.steps))))
        assert order_free_results(shuffled) == order_free_results(very_late)

    @run(deadline=None)
    @given(st.one_of(cases(), tiny_session_cases()))
    def test_final_panes_never_change_and_counters_never_decrease(self, case: Case) -> None:
        before = expected_result([], case.settings)
        for seen in range(1, len(case.steps) + 1):
            now = expected_result(case.steps[:seen], case.settings)
            assert final_panes(now, before.f_ms) == final_panes(before, before.f_ms)
            assert all(now.totals[reason] >= before.totals[reason] for reason in REASONS)
            before = now

    @run(deadline=None)
    @given(st.one_of(cases(), tiny_session_cases()))
    def test_every_event_has_one_outcome_and_every_list_one_pane(self, case: Case) -> None:
        result = result_of(case, flush=True)
        task = result.tasks[0]
        unused = sum(count for reason, count in result.totals.items() if reason not in ("events", "ahead", "repeated", "place_conflict"))
        assert unused + task.outcomes.count("shown") == len(task.outcomes) == result.totals["events"]
        assert sum(tally.lists for (_, group), tally in result.panes.items() if group == ALL) == len(task.lists)
        assert sum(one.events for one in task.sessions) == sum(
            outcome not in ("late", "future", "session_full") for outcome in task.outcomes
        )

    @run(deadline=None)
    @given(st.one_of(cases(), tiny_session_cases()))
    def test_no_admitted_event_changes_a_closed_session(self, case: Case) -> None:
        closed: set[object] = set()
        for seen in range(len(case.steps) + 1):
            sessions = expected_result(case.steps[:seen], case.settings).tasks[0].sessions
            assert closed <= set(sessions)
            closed = {one for one in sessions if one.closed}

    @run(deadline=None)
    @given(st.data())
    def test_batches_contain_the_same_steps_in_order(self, data: st.DataObject) -> None:
        case = data.draw(cases())
        assert [step for batch in data.draw(batches(case.steps)) for step in batch] == list(case.steps)
