"""Admission: late and future events, watermarks, ticks, idle inputs and full sessions."""

from __future__ import annotations

import math
from dataclasses import replace

from tests.oracle import (
    Idle,
    Settings,
    Step,
    Tick,
    expected_result,
)
from tests.oracle.traces import ONE, VERY_LATE, feedback, outcomes, show, spans


class TestAdmission:
    def test_the_lateness_is_inclusive(self) -> None:
        assert outcomes(show("x", 17), show("y", 15), show("z", 14), under=ONE) == ["shown", "shown", "late"]

    def test_out_of_orderness_holds_the_watermark_back(self) -> None:
        under = replace(ONE, out_of_orderness_ms=3)
        assert outcomes(show("w", 17), show("x", 12), show("y", 11), under=under) == ["shown", "shown", "late"]
        assert expected_result([show("w", 17)], under).w_ms == 14

    def test_an_event_is_late_by_its_own_input_even_if_the_task_is_behind(self) -> None:
        trace = (show("x", 50, at="impressions"), show("y", 47, at="impressions"))
        assert outcomes(*trace, under=Settings()) == ["shown", "late"]
        assert expected_result(trace, Settings()).w_ms == -math.inf

    def test_an_input_may_trail_another_one_by_any_time(self) -> None:
        trace = (show("x", 50, at="impressions"), feedback(3, "a", at="feedback"))
        assert outcomes(*trace, under=Settings()) == ["shown", "orphan"]
        assert expected_result(trace, Settings()).w_ms == 3

    def test_an_event_may_be_future_ms_ahead_of_its_record(self) -> None:
        assert outcomes(replace(show("x", 120), record_ts=100), under=ONE) == ["shown"]

    def test_a_future_event_is_refused_and_does_not_move_the_watermark(self) -> None:
        trace = (show("x", 90), replace(show("y", 121), record_ts=100), show("z", 90))
        assert outcomes(*trace, under=ONE) == ["shown", "future", "shown"]
        assert expected_result(trace, ONE).w_ms == 90

    def test_future_comes_before_late(self) -> None:
        assert outcomes(show("x", 500), replace(show("y", 121), record_ts=100), under=ONE) == ["shown", "future"]

    def test_a_tick_moves_the_watermark_of_a_task_without_events(self) -> None:
        assert expected_result([Tick(100)], Settings(idle_ms=6, out_of_orderness_ms=3)).w_ms == 91

    def test_after_a_tick_older_events_are_late_on_every_input(self) -> None:
        trace = (show("x", 10), Tick(106), show("y", 98), show("z", 97))
        assert outcomes(*trace, under=ONE) == ["shown", "shown", "late"]

    def test_a_tick_never_moves_the_watermark_back(self) -> None:
        assert expected_result([show("x", 50), Tick(20)], ONE).w_ms == 50

    def test_an_idle_input_does_not_hold_the_watermark(self) -> None:
        assert expected_result([show("x", 50, at="impressions"), Idle(frozenset({"feedback"}))], Settings()).w_ms == 50

    def test_a_returning_input_stops_the_watermark_but_never_moves_it_back(self) -> None:
        trace: list[Step] = [
            show("x", 50, at="impressions"),
            Idle(frozenset({"feedback"})),
            feedback(49, "a", at="feedback"),
            show("y", 60, at="impressions"),
        ]
        assert expected_result(trace, Settings()).w_ms == 50

    def test_with_every_input_idle_and_no_tick_the_watermark_stays(self) -> None:
        trace: list[Step] = [
            show("x", 50, at="impressions"),
            feedback(40, "a", at="feedback"),
            Idle(frozenset({"impressions", "feedback"})),
        ]
        assert expected_result(trace, Settings()).w_ms == 40

    def test_after_a_tick_a_single_active_input_sets_the_watermark(self) -> None:
        assert expected_result([Tick(46), show("x", 60, at="impressions")], Settings()).w_ms == 60


class TestFullSessions:
    UNDER = replace(VERY_LATE, session_events_max=2)

    def test_a_full_session_refuses_events_and_is_not_extended(self) -> None:
        trace = (show("x", 0), feedback(1, "a"), feedback(8, "a"), feedback(9, "a"))
        assert outcomes(*trace, under=self.UNDER) == ["shown", "matched", "session_full", "orphan"]
        assert spans(*trace, under=self.UNDER) == [(0, 1, False), (9, 9, False)]

    def test_an_event_just_before_a_full_session_is_refused(self) -> None:
        assert outcomes(show("x", 10), feedback(11, "a"), show("y", 3), show("z", 2), under=self.UNDER)[2:] == ["session_full", "shown"]

    def test_duplicates_count_towards_a_full_session(self) -> None:
        assert outcomes(show("x", 0), show("x", 0), feedback(1, "a"), under=self.UNDER) == ["shown", "duplicate", "session_full"]

    def test_merged_sessions_may_exceed_the_limit_and_are_then_full(self) -> None:
        under = replace(VERY_LATE, session_events_max=3)
        trace = (show("w", 0), feedback(1, "a"), show("x", 14), feedback(15, "a"), show("y", 8), show("z", 9))
        assert outcomes(*trace, under=under)[4:] == ["shown", "session_full"]
        assert expected_result(trace, under).tasks[0].sessions[0].events == 5

    def test_after_a_full_session_closed_events_are_admitted_again(self) -> None:
        under = replace(ONE, session_events_max=1)
        assert outcomes(show("x", 0), feedback(1, "a"), show("y", 20), under=under) == ["shown", "session_full", "shown"]
