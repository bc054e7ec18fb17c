"""Cases small enough to be worked out by hand, which hold the oracle to the written semantics, and the laws it must obey.

The settings are those of `Settings()` unless a test says otherwise: gap 7, lateness 2, attribution 5, panes of 4, windows of
4 and 12, all in milliseconds, no disorder allowed for. One user, `u`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st

from streammetrics.events.model import Feedback, Impression
from tests.oracle import (
    REASONS,
    Arrival,
    Group,
    Idle,
    Result,
    Rule,
    Settings,
    ShownList,
    Step,
    Tally,
    Tick,
    judge,
    metric_values,
    panes_lines,
    parse_rules,
    stored_values,
)
from tests.support.strategies import Case, batches, cases, interleavings, tiny_session_cases

ONE = Settings(inputs=("events",))
PATIENT = Settings(inputs=("events",), lateness_ms=1_000)
ALL = Group()


Pairs: TypeAlias = tuple[tuple[str, str], ...]


def show(impression_id: str, ts: int, items: str = "ab", *, at: str = "events", experiments: Pairs = (), segments: Pairs = ()) -> Arrival:
    """A whole list; each character of `items` is one item."""
    return Arrival(at, Impression(impression_id, "u", ts, tuple(items), experiments, segments))


def part(impression_id: str, ts: int, *placed: tuple[str, int], experiments: Pairs = (), segments: Pairs = ()) -> Arrival:
    """A fragment of (item, position) pairs."""
    items, positions = tuple(item for item, _ in placed), tuple(position for _, position in placed)
    return Arrival("events", Impression(impression_id, "u", ts, items, experiments, segments, positions))


def react(ts: int, item: str, action: str = "click", *, to: str | None = None, value: float | None = None, at: str = "events") -> Arrival:
    return Arrival(at, Feedback("u", ts, item, action, value, to))


def fates(*steps: Step, under: Settings = PATIENT) -> list[str]:
    return list(judge(steps, under).tasks[0].fates)


def lists(*steps: Step, under: Settings = PATIENT) -> list[ShownList]:
    return list(judge(steps, under).tasks[0].lists)


def spans(*steps: Step, under: Settings = PATIENT) -> list[tuple[int, int, bool]]:
    """(first ts, last ts, closed) of every session."""
    return [(one.first_ts, one.last_ts, one.closed) for one in judge(steps, under).tasks[0].sessions]


class TestSessions:
    def test_neighbours_exactly_the_gap_apart_share_a_session(self) -> None:
        assert spans(show("x", 0), show("y", 7)) == [(0, 7, False)]

    def test_one_past_the_gap_is_another_session(self) -> None:
        assert spans(show("x", 0), show("y", 8)) == [(0, 0, False), (8, 8, False)]

    def test_a_late_bridge_makes_two_sessions_one(self) -> None:
        assert spans(show("x", 0), show("y", 14)) == [(0, 0, False), (14, 14, False)]
        assert spans(show("x", 0), show("y", 14), react(7, "a")) == [(0, 14, False)]

    def test_users_do_not_share_sessions(self) -> None:
        other = Arrival("events", Impression("y", "v", 1, ("a",)))
        assert spans(show("x", 0), other) == [(0, 0, False), (1, 1, False)]

    def test_an_unknown_action_extends_the_session_and_is_otherwise_unused(self) -> None:
        assert spans(show("x", 0), react(7, "a", "stare"), show("y", 14)) == [(0, 14, False)]
        assert fates(show("x", 0), react(1, "a", "stare")) == ["shown", "unknown_action"]

    def test_gap_7_lateness_2_arrivals_6_17_9_refuse_the_9_and_leave_the_closed_session_alone(self) -> None:
        trace = (show("x", 6), show("y", 17), show("z", 9))
        assert fates(*trace, under=ONE) == ["shown", "shown", "late"]
        assert spans(*trace, under=ONE) == [(6, 6, True), (17, 17, False)]

    def test_a_session_is_still_open_when_its_end_and_the_gap_meet_the_watermark_less_the_lateness(self) -> None:
        assert spans(show("x", 6), show("y", 15), under=ONE)[0] == (6, 6, False)
        assert spans(show("x", 6), show("y", 16), under=ONE)[0] == (6, 6, True)


class TestAdmission:
    def test_an_event_older_than_the_watermark_by_exactly_the_lateness_is_admitted(self) -> None:
        assert fates(show("x", 17), show("y", 15), show("z", 14), under=ONE) == ["shown", "shown", "late"]

    def test_out_of_orderness_holds_the_watermark_back(self) -> None:
        under = replace(ONE, out_of_orderness_ms=3)
        assert fates(show("w", 17), show("x", 12), show("y", 11), under=under) == ["shown", "shown", "late"]
        assert judge([show("w", 17)], under).w_ms == 14

    def test_an_event_is_measured_against_its_own_input_though_another_one_holds_the_task_back(self) -> None:
        trace = (show("x", 50, at="impressions"), show("y", 47, at="impressions"))
        assert fates(*trace, under=Settings()) == ["shown", "late"]
        assert judge(trace, Settings()).w_ms == -math.inf

    def test_an_input_may_trail_another_one_as_far_as_it_likes(self) -> None:
        trace = (show("x", 50, at="impressions"), react(3, "a", at="feedback"))
        assert fates(*trace, under=Settings()) == ["shown", "orphan"]
        assert judge(trace, Settings()).w_ms == 3

    def test_an_event_as_far_ahead_of_its_record_as_allowed_is_admitted(self) -> None:
        assert fates(replace(show("x", 120), record_ts=100), under=ONE) == ["shown"]

    def test_an_event_too_far_ahead_of_its_record_is_refused_and_not_seen_by_the_watermark(self) -> None:
        trace = (show("x", 90), replace(show("y", 121), record_ts=100), show("z", 90))
        assert fates(*trace, under=ONE) == ["shown", "future", "shown"]
        assert judge(trace, ONE).w_ms == 90

    def test_future_comes_before_late(self) -> None:
        assert fates(show("x", 500), replace(show("y", 121), record_ts=100), under=ONE) == ["shown", "future"]

    def test_a_tick_moves_the_watermark_of_a_task_that_has_seen_nothing(self) -> None:
        assert judge([Tick(100)], Settings(idle_ms=6, out_of_orderness_ms=3)).w_ms == 91

    def test_after_a_tick_an_older_event_is_late_even_on_an_input_that_was_behind(self) -> None:
        trace = (show("x", 10), Tick(106), show("y", 98), show("z", 97))
        assert fates(*trace, under=ONE) == ["shown", "shown", "late"]

    def test_a_tick_never_takes_the_watermark_back(self) -> None:
        assert judge([show("x", 50), Tick(20)], ONE).w_ms == 50

    def test_an_idle_input_does_not_hold_the_watermark(self) -> None:
        assert judge([show("x", 50, at="impressions"), Idle(frozenset({"feedback"}))], Settings()).w_ms == 50

    def test_an_input_that_comes_back_holds_the_watermark_again_but_never_takes_it_back(self) -> None:
        trace: list[Step] = [
            show("x", 50, at="impressions"),
            Idle(frozenset({"feedback"})),
            react(49, "a", at="feedback"),
            show("y", 60, at="impressions"),
        ]
        assert judge(trace, Settings()).w_ms == 50

    def test_with_every_input_idle_and_no_tick_the_watermark_stays(self) -> None:
        trace: list[Step] = [
            show("x", 50, at="impressions"),
            react(40, "a", at="feedback"),
            Idle(frozenset({"impressions", "feedback"})),
        ]
        assert judge(trace, Settings()).w_ms == 40

    def test_after_a_tick_one_input_alone_leads_the_watermark(self) -> None:
        assert judge([Tick(46), show("x", 60, at="impressions")], Settings()).w_ms == 60


class TestFullSessions:
    UNDER = replace(PATIENT, session_events_max=2)

    def test_a_full_session_takes_no_event_and_is_not_extended_by_one(self) -> None:
        trace = (show("x", 0), react(1, "a"), react(8, "a"), react(9, "a"))
        assert fates(*trace, under=self.UNDER) == ["shown", "matched", "session_full", "orphan"]
        assert spans(*trace, under=self.UNDER) == [(0, 1, False), (9, 9, False)]

    def test_an_event_just_before_a_full_session_is_refused_too(self) -> None:
        assert fates(show("x", 10), react(11, "a"), show("y", 3), show("z", 2), under=self.UNDER)[2:] == ["session_full", "shown"]

    def test_duplicates_fill_a_session(self) -> None:
        assert fates(show("x", 0), show("x", 0), react(1, "a"), under=self.UNDER) == ["shown", "duplicate", "session_full"]

    def test_two_sessions_with_room_may_merge_beyond_the_limit_and_are_full_then(self) -> None:
        under = replace(PATIENT, session_events_max=3)
        trace = (show("w", 0), react(1, "a"), show("x", 14), react(15, "a"), show("y", 8), show("z", 9))
        assert fates(*trace, under=under)[4:] == ["shown", "session_full"]
        assert judge(trace, under).tasks[0].sessions[0].events == 5

    def test_after_a_full_session_has_closed_the_user_is_heard_again(self) -> None:
        under = replace(ONE, session_events_max=1)
        assert fates(show("x", 0), react(1, "a"), show("y", 20), under=under) == ["shown", "session_full", "shown"]


class TestLists:
    def test_of_whole_copies_the_earliest_counts_whatever_came_first(self) -> None:
        trace = (show("x", 5, "ab"), show("x", 4, "cd"))
        assert fates(*trace) == ["duplicate", "shown"]
        assert [(one.ts, one.items) for one in lists(*trace)] == [(4, ("c", "d"))]

    def test_of_whole_copies_of_one_time_the_least_content_counts(self) -> None:
        assert fates(show("x", 4, "b"), show("x", 4, "ab"), show("x", 4, "abc")) == ["duplicate", "shown", "duplicate"]

    def test_experiments_decide_between_equal_items_and_segments_between_equal_experiments(self) -> None:
        control, treatment = (("ranker", "control"),), (("ranker", "treatment"),)
        assert fates(show("x", 4, experiments=treatment), show("x", 4, experiments=control)) == ["duplicate", "shown"]
        home, search = (("surface", "home"),), (("surface", "search"),)
        assert fates(show("x", 4, segments=search), show("x", 4, segments=home)) == ["duplicate", "shown"]
        crossed = (show("x", 4, experiments=treatment, segments=home), show("x", 4, experiments=control, segments=search))
        assert fates(*crossed) == ["duplicate", "shown"]

    def test_of_equal_copies_the_one_on_the_first_configured_input_counts(self) -> None:
        trace = [show("x", 4, at="feedback"), show("x", 4, at="impressions")]
        assert judge(trace, Settings()).counters["duplicate", "feedback"] == 1
        assert judge(trace, Settings(inputs=("feedback", "impressions"))).counters["duplicate", "impressions"] == 1

    def test_one_id_in_two_sessions_is_two_lists(self) -> None:
        assert [one.ts for one in lists(show("x", 0), show("x", 8))] == [0, 8]

    def test_a_bridge_makes_the_later_of_two_lists_with_one_id_a_duplicate(self) -> None:
        assert fates(show("x", 0), show("x", 8), react(4, "a")) == ["shown", "duplicate", "matched"]

    def test_an_item_shown_again_keeps_its_place_without_a_grade(self) -> None:
        assert lists(show("x", 0, "aba"), react(1, "a"))[0].grades == (1, 0, 0)

    def test_a_list_without_items_is_a_list(self) -> None:
        assert fates(show("x", 0, ""), react(1, "a", to="x")) == ["shown", "out_of_list"]
        assert judge([show("x", 0, "")], ONE).panes[0, ALL].lists == 1


class TestFragments:
    def test_fragments_are_one_list_in_the_order_of_positions_at_the_least_ts(self) -> None:
        trace = (part("x", 3, ("c", 2)), part("x", 1, ("b", 1)), part("x", 2, ("a", 5)))
        assert fates(*trace) == ["shown"] * 3
        assert [(one.ts, one.items) for one in lists(*trace)] == [(1, ("b", "c", "a"))]

    def test_an_item_at_two_positions_stands_at_the_least(self) -> None:
        assert lists(part("x", 0, ("a", 4), ("b", 5)), part("x", 1, ("b", 2)))[0].items == ("b", "a")
        assert lists(part("x", 0, ("b", 1), ("a", 2), ("b", 3)))[0].items == ("b", "a")

    def test_two_items_at_one_position_stand_by_id(self) -> None:
        assert lists(part("x", 0, ("b", 1)), part("x", 1, ("a", 1)))[0].items == ("a", "b")

    def test_the_least_fragment_gives_experiments_and_segments(self) -> None:
        early, late = (("ranker", "early"),), (("ranker", "late"),)
        trace = (part("x", 3, ("a", 1), experiments=late), part("x", 2, ("b", 2), experiments=early, segments=late))
        assert [(one.experiments, one.segments) for one in lists(*trace)] == [(early, late)]

    def test_at_one_time_the_fragment_of_least_content_is_the_least(self) -> None:
        one, two = (("ranker", "1"),), (("ranker", "2"),)
        trace = (part("x", 3, ("b", 1), experiments=one), part("x", 3, ("a", 2), experiments=two))
        assert lists(*trace)[0].experiments == two

    def test_a_fragment_that_changes_nothing_is_a_duplicate_whichever_came_first(self) -> None:
        same = (part("x", 3, ("a", 1)), part("x", 2, ("a", 1), ("b", 2)))
        assert fates(*same) == ["duplicate", "shown"]

    def test_a_fragment_that_only_raises_a_position_is_a_duplicate_and_one_that_lowers_it_counts(self) -> None:
        assert fates(part("x", 2, ("a", 3)), part("x", 3, ("a", 4)), part("x", 4, ("a", 2))) == ["shown", "duplicate", "shown"]

    def test_the_first_fragment_counts_though_it_shows_nothing(self) -> None:
        assert fates(part("x", 2), part("x", 3)) == ["shown", "duplicate"]

    def test_a_whole_list_beats_its_fragments_though_they_are_earlier(self) -> None:
        trace = (part("x", 1, ("c", 1)), show("x", 2, "ab"), part("x", 3, ("d", 2)))
        assert fates(*trace) == ["duplicate", "shown", "duplicate"]
        assert [(one.ts, one.items) for one in lists(*trace)] == [(2, ("a", "b"))]

    def test_a_fragment_as_late_as_the_attribution_takes_part_and_one_later_does_not(self) -> None:
        trace = (part("x", 0, ("a", 1)), part("x", 5, ("b", 2)), part("x", 6, ("c", 3)))
        assert fates(*trace) == ["shown", "shown", "duplicate"]
        assert lists(*trace)[0].items == ("a", "b")

    def test_a_whole_list_beats_fragments_up_to_the_attribution_after_the_first(self) -> None:
        trace = (part("x", 0, ("c", 1)), show("x", 5, "ab"))
        assert fates(*trace) == ["duplicate", "shown"]
        assert [(one.ts, one.items) for one in lists(*trace)] == [(5, ("a", "b"))]

    def test_one_past_it_the_fragments_make_the_list_though_all_are_counted_as_duplicates(self) -> None:
        trace = (part("x", 0, ("c", 1)), show("x", 6, "ab"))
        assert fates(*trace) == ["duplicate", "duplicate"]
        assert [(one.ts, one.items) for one in lists(*trace)] == [(0, ("c",))]

    def test_a_duplicate_stays_one_when_an_earlier_fragment_outdates_the_whole_list(self) -> None:
        trace = [show("x", 10), part("x", 7, ("a", 1)), part("x", 8, ("b", 2)), part("x", 4, ("c", 3))]
        assert [judge(trace[:seen], PATIENT).totals["duplicate"] for seen in (3, 4)] == [2, 4]

    def test_fragments_that_hold_too_many_items_are_no_list_and_keep_their_feedback(self) -> None:
        under = replace(PATIENT, items_max=2)
        parts = [part("x", 1, (item, position)) for position, item in enumerate("abc")]
        assert fates(*parts[:2], under=under) == ["shown", "shown"]
        trace = (show("w", 0, "abcd"), *parts, react(2, "a"), react(2, "d"))
        assert fates(*trace, under=under) == ["shown", *["too_many_items"] * 3, "orphan", "matched"]


class TestFeedback:
    def test_it_counts_up_to_the_attribution_inclusive(self) -> None:
        assert fates(show("x", 0), react(5, "a"), react(6, "a")) == ["shown", "matched", "too_old"]
        assert fates(show("x", 0), react(5, "a", to="x"), react(6, "a", to="x")) == ["shown", "matched", "too_old"]

    def test_with_an_id_it_may_precede_its_list_and_without_it_may_not(self) -> None:
        assert fates(show("x", 4), react(3, "a", to="x"), react(3, "a"), react(4, "a")) == ["shown", "matched", "orphan", "matched"]

    def test_with_an_id_it_goes_to_no_other_list(self) -> None:
        assert fates(show("x", 0, "a"), show("y", 1, "b"), react(2, "a", to="y"), react(2, "a", to="z"))[2:] == ["out_of_list", "orphan"]

    def test_without_an_id_it_goes_to_the_latest_list_that_shows_the_item(self) -> None:
        trace = (show("x", 0, "a"), show("y", 1, "ab"), show("z", 2, "b"), react(3, "a"))
        assert [(one.impression_id, one.grades) for one in lists(*trace)] == [("x", (0,)), ("y", (1, 0)), ("z", (0,))]

    def test_of_lists_of_one_time_the_greatest_id_has_it(self) -> None:
        trace = (show("y", 0, "a"), show("x", 0, "a"), react(0, "a"))
        assert [(one.impression_id, one.grades) for one in lists(*trace)] == [("x", (0,)), ("y", (1,))]

    def test_without_an_id_it_is_out_of_list_when_no_earlier_list_shows_the_item(self) -> None:
        assert fates(show("x", 0, "a"), react(1, "b"), show("y", 2, "b")) == ["shown", "out_of_list", "shown"]

    def test_it_does_not_reach_a_list_of_another_session(self) -> None:
        assert fates(show("x", 0), react(8, "a", to="x")) == ["shown", "orphan"]

    def test_a_list_may_precede_its_feedback_in_arrival_or_follow_it(self) -> None:
        assert fates(react(1, "a"), show("x", 0)) == ["matched", "shown"]

    def test_an_item_has_the_greatest_of_its_grades(self) -> None:
        assert lists(show("x", 0), react(1, "a", "purchase"), react(2, "a", "click"), react(3, "b", "skip"))[0].grades == (3, 0)

    def test_a_watch_needs_its_value_and_is_matched_without_it(self) -> None:
        trace = (show("x", 0, "abc"), react(1, "a", "watch"), react(1, "b", "watch", value=29.9), react(1, "c", "watch", value=30))
        assert fates(*trace) == ["shown", "matched", "matched", "matched"]
        assert lists(*trace)[0].grades == (0, 0, 2)

    def test_actions_are_compared_exactly(self) -> None:
        assert fates(show("x", 0), react(1, "a", "Click")) == ["shown", "unknown_action"]

    def test_repeats_are_matched_and_counted_on_top_by_list_item_and_action(self) -> None:
        trace = (show("x", 0), react(1, "a"), react(2, "a"), react(3, "a"), react(3, "b"), react(3, "a", "skip"))
        totals = judge(trace, PATIENT, flush=True).totals
        assert (totals["matched"], totals["repeated"]) == (5, 2)

    def test_a_repeat_is_counted_on_the_input_of_the_later_feedback(self) -> None:
        trace = [show("x", 0, at="impressions"), react(2, "a", at="impressions"), react(1, "a", at="feedback")]
        assert judge(trace, Settings(lateness_ms=50), flush=True).counters["repeated", "impressions"] == 1


class TestCounters:
    def test_what_feedback_came_to_is_counted_when_its_session_closes_and_duplicates_at_once(self) -> None:
        trace = [show("x", 0), show("x", 0), react(1, "a"), react(1, "a"), react(1, "z", "stare"), show("y", 10)]
        open_still = judge(trace, ONE).totals
        assert [open_still[reason] for reason in ("duplicate", "unknown_action", "matched", "repeated")] == [1, 1, 0, 0]
        closed = judge([*trace, show("z", 11)], ONE).totals
        assert [closed[reason] for reason in ("duplicate", "unknown_action", "matched", "repeated")] == [1, 1, 2, 1]

    def test_events_count_the_refused_ones_too(self) -> None:
        assert judge([show("x", 50), show("y", 1)], ONE).counters == {("events", "events"): 2, ("late", "events"): 1}


class TestGroupsAndPanes:
    def test_a_list_counts_for_all_and_for_each_variant_and_for_each_of_these_by_one_segment_at_a_time(self) -> None:
        listed = show("x", 0, experiments=(("layout", "wide"), ("ranker", "new")), segments=(("surface", "home"),))
        panes = judge([listed], replace(ONE, segments=("surface", "country"))).panes
        bare = [("", ""), ("layout", "wide"), ("ranker", "new")]
        segments = [(), (("surface", "home"),), (("country", ""),)]
        assert set(panes) == {(0, Group(*labels, pairs)) for labels in bare for pairs in segments}
        assert {tally.lists for tally in panes.values()} == {1}

    def test_a_pane_holds_its_start_and_not_its_end(self) -> None:
        panes = judge([show("x", 3), show("y", 4), show("z", 7)], PATIENT).panes
        assert {start: tally.lists for (start, _), tally in panes.items()} == {0: 1, 4: 2}

    def test_feedback_counts_in_the_pane_of_its_list(self) -> None:
        panes = judge([show("x", 3), react(5, "a")], PATIENT).panes
        assert [(start, tally.lists_with_feedback) for (start, _), tally in panes.items()] == [(0, 1)]

    def test_a_list_has_feedback_only_with_a_grade_above_zero(self) -> None:
        assert judge([show("x", 0), react(1, "a", "skip")], ONE).panes[0, ALL].lists_with_feedback == 0

    def test_a_pane_sums_the_values_of_its_lists(self) -> None:
        trace = [show("x", 0, "abc"), react(1, "b", "purchase"), show("y", 2, "ab"), react(3, "b")]
        first, second = stored_values((0, 3, 0), PATIENT.cutoffs), stored_values((0, 1), PATIENT.cutoffs)
        assert judge(trace, PATIENT).panes[0, ALL].sums == {name: first[name] + second[name] for name in first}

    def test_the_item_hit_rate_counts_hits_and_places_within_the_cut_off(self) -> None:
        trace = [show("x", 0, "abcd"), react(1, "a"), react(1, "d"), show("y", 1, "ef")]
        tally = judge(trace, PATIENT).panes[0, ALL]
        assert tally.hits == {"item_hit_rate@1": 1, "item_hit_rate@3": 1}
        assert tally.places == {"item_hit_rate@1": 2, "item_hit_rate@3": 5}
        assert tally.places_with_feedback == {"item_hit_rate@1": 1, "item_hit_rate@3": 3}


class TestWindows:
    TRACE = tuple(show(f"list {ts}", ts) for ts in (0, 4, 8, 12, 16, 20, 21))

    def test_windows_end_at_the_last_pane_boundary_at_or_before_w_and_f(self) -> None:
        result = judge(self.TRACE, ONE)
        assert (result.w_ms, result.f_ms) == (21, 14)
        assert (result.windows[4, "live"].end_ms, result.windows[4, "final"].end_ms) == (20, 12)

    def test_a_bound_on_a_pane_boundary_ends_the_window_there(self) -> None:
        result = judge([*self.TRACE, show("z", 24)], replace(ONE, attribution_ms=6))
        assert (result.f_ms, result.windows[4, "final"].end_ms, result.windows[4, "live"].end_ms) == (16, 16, 24)

    def test_a_window_covers_the_panes_from_its_end_less_its_length(self) -> None:
        windows = judge(self.TRACE, ONE).windows
        assert {key: window.groups[ALL].lists for key, window in windows.items()} == {
            (4, "final"): 1,  # the pane at 8
            (12, "final"): 3,  # 0, 4 and 8
            (4, "live"): 1,  # 16; the pane at 20 ends past W
            (12, "live"): 3,  # 8, 12 and 16
        }

    def test_a_window_longer_than_the_data_takes_what_there_is(self) -> None:
        assert judge(self.TRACE, replace(ONE, windows_ms=(400,))).windows[400, "final"].groups[ALL].lists == 3

    def test_a_window_without_lists_has_an_end_and_no_groups(self) -> None:
        window = judge([show("x", 0), react(103, "a")], ONE).windows[4, "live"]
        assert (window.end_ms, window.groups) == (100, {})

    def test_before_every_input_was_seen_there_is_no_end(self) -> None:
        result = judge([show("x", 0, at="impressions")], Settings())
        assert (result.f_ms, result.windows[4, "live"].end_ms) == (-math.inf, None)

    def test_a_flush_ends_both_views_with_the_pane_of_the_newest_admitted_event(self) -> None:
        result = judge([*self.TRACE, react(24, "a", "stare")], ONE, flush=True)
        assert (result.w_ms, result.f_ms) == (math.inf, math.inf)
        assert {window.end_ms for window in result.windows.values()} == {28}

    def test_a_flush_closes_every_session_and_makes_every_list_final(self) -> None:
        task = judge(self.TRACE, ONE, flush=True).tasks[0]
        assert {one.closed for one in task.sessions} == {one.final for one in task.lists} == {True}

    def test_a_refused_event_does_not_move_the_end_of_a_flushed_window(self) -> None:
        far = replace(show("z", 900), record_ts=20)
        assert judge([*self.TRACE, far], ONE, flush=True).windows[4, "live"].end_ms == 24

    def test_a_flush_of_nothing_has_no_windows_end(self) -> None:
        assert judge([], ONE, flush=True).windows[4, "final"].end_ms is None

    def test_w_and_f_are_the_least_over_the_tasks_and_panes_add_up(self) -> None:
        ahead, behind = [show("x", 0), show("y", 50)], [show("x", 1), show("y", 30)]
        result = judge({0: ahead, 1: behind}, ONE)
        assert (result.w_ms, result.f_ms) == (30, 23)
        assert result.panes[0, ALL].lists == 2

    def test_a_task_that_has_seen_nothing_holds_all_back(self) -> None:
        assert judge({0: [show("x", 0)], 1: []}, ONE).w_ms == -math.inf

    def test_a_window_that_cuts_a_pane_is_refused(self) -> None:
        with pytest.raises(ValueError, match="whole number of panes"):
            judge([], Settings(pane_ms=4, windows_ms=(6,)))


class TestFinality:
    def test_a_list_is_final_one_past_its_attribution_before_the_watermark_less_the_lateness(self) -> None:
        assert lists(show("x", 0), react(7, "a"), under=ONE)[0].final is False
        assert lists(show("x", 0), react(8, "a"), under=ONE)[0].final is True

    def test_a_list_is_final_when_its_session_closes_though_attribution_would_last_longer(self) -> None:
        under = replace(ONE, attribution_ms=50)
        assert lists(show("x", 0), show("y", 10), under=under)[0].final is True
        assert judge([show("x", 0), show("y", 10)], under).f_ms == 10 - 2 - 50


class TestLines:
    TRACE = (show("x", 0, experiments=(("ranker", "new"),)), react(1, "a", "purchase"), show("y", 6), show("z", 12))

    def test_every_pane_is_live_and_those_that_end_at_or_before_f_are_final_too(self) -> None:
        lines = panes_lines(judge(self.TRACE, ONE))
        assert [(line["pane_start_ms"], line["experiment"], line["view"]) for line in lines] == [
            (0, "", "final"),
            (0, "", "live"),
            (0, "ranker", "final"),
            (0, "ranker", "live"),
            (4, "", "live"),
            (12, "", "live"),
        ]

    def test_a_pane_that_ends_exactly_at_f_is_final_and_one_that_ends_past_it_is_not(self) -> None:
        at_4, at_3 = (judge([show("x", 0), show("y", last)], ONE) for last in (11, 10))
        assert (at_4.f_ms, at_3.f_ms) == (4, 3)
        assert [line["view"] for line in panes_lines(at_4)] == ["final", "live", "live"]
        assert [line["view"] for line in panes_lines(at_3)] == ["live", "live"]

    def test_a_line_says_all_of_its_pane_and_group(self) -> None:
        line = panes_lines(judge(self.TRACE, replace(ONE, cutoffs=(1,), segments=("surface",)), flush=True))[2]
        metrics = line.pop("metrics")
        assert line == {
            "pane_start_ms": 0,
            "pane_ms": 4,
            "experiment": "",
            "variant": "",
            "segments": {"surface": ""},
            "view": "final",
            "lists": 1,
            "lists_with_feedback": 1,
        }
        assert isinstance(metrics, dict)
        assert metrics["ndcg@1"] == {"sum": 1.0, "sum_raw": 2**40, "scale_bits": 40}
        assert metrics["cg@1"] == {"sum": 3.0, "sum_raw": 3 * 2**32, "scale_bits": 32}
        assert metrics["item_hit_rate@1"] == {"hits": 1, "places": 1}


class TestScores:
    @pytest.mark.parametrize(
        ("grades", "name", "value"),
        [
            ([3, 2, 3, 0, 1], "dcg@3", 5.76186),
            ([3, 3, 2, 1, 0], "dcg@3", 5.89279),
            ([3, 2, 3, 0, 1], "ndcg@3", 0.977781),
            ([3, 2, 3, 0, 1], "dcg@5", 6.148712),
            ([3, 3, 2, 1, 0], "dcg@5", 6.323466),
            ([3, 2, 3, 0, 1], "ndcg@5", 0.972364),
            ([4, 5, 2, 3, 1], "ndcg_exp@5", 0.864548),
            ([5, 1, 3, 2, 4], "ndcg_exp@5", 0.925134),
            ([5, 3, 4, 2, 1], "ndcg_exp@5", 0.977051),
            ([0.5, 0.9, 0.3, 0.6, 0.1], "dcg@5", 1.514928),
            ([0.6, 0.5, 0.1, 0.3, 0.9], "dcg@5", 1.442835),
            ([1, 1, 0, 1, 0], "precision@3", 0.666667),
            ([1, 1, 0, 1, 0], "precision@5", 0.6),
        ],
    )
    def test_the_worked_examples_hold_to_the_digits_given(self, grades: list[float], name: str, value: float) -> None:
        digits = len(str(value).partition(".")[2])
        assert round(metric_values(grades, [3, 5])[name], digits) == value

    def test_reciprocal_ranks_are_within_the_cut_off(self) -> None:
        firsts = ([0, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1])
        assert sum(stored_values(grades, [5])["mrr@5"] for grades in firsts) == 2**39 + 2**40 + round(Fraction(2**40, 5))
        assert metric_values([0, 0, 1], [2])["mrr@2"] == 0

    def test_recall_and_average_precision_are_over_the_relevant_items_of_the_whole_list(self) -> None:
        found = stored_values([1, 0, 1, 1], [2, 3])
        assert (found["recall@2"], found["recall@3"]) == (round(Fraction(2**40, 3)), round(Fraction(2**41, 3)))
        assert (found["map@2"], found["map@3"]) == (2**39, round((1 + Fraction(2, 3)) / 3 * 2**40))

    def test_the_ideal_is_over_all_items_of_the_list_and_not_only_those_shown_first(self) -> None:
        assert metric_values([0, 3], [1])["ndcg@1"] == 0
        assert stored_values([1, 3], [1])["ndcg@1"] == round(Fraction(2**40, 3))

    def test_precision_is_over_the_cut_off_though_the_list_is_shorter(self) -> None:
        assert metric_values([1], [4])["precision@4"] == 0.25

    def test_a_list_that_earned_nothing_has_value_zero_everywhere(self) -> None:
        assert set(metric_values([0, 0], [1, 3]).values()) == set(metric_values([], [1, 3]).values()) == {0}

    def test_a_half_is_rounded_to_even(self) -> None:
        assert [stored_values([part * 2.0**-33], [1])["cg@1"] for part in (1, 3, 5)] == [0, 2, 2]
        assert stored_values([1], [3])["precision@3"] == round(Fraction(2**40, 3))


class TestRules:
    def test_a_rule_names_an_action_a_grade_and_perhaps_a_least_value(self) -> None:
        assert parse_rules("purchase=3, watch>=0.5=2.5") == (Rule("purchase", 3), Rule("watch", 2.5, 0.5))


def final_panes(result: Result, f_ms: float) -> dict[tuple[int, Group], Tally]:
    return {key: tally for key, tally in result.panes.items() if key[0] + result.settings.pane_ms <= f_ms}


def judged(case: Case, *, flush: bool = False) -> Result:
    return judge(case.steps, case.settings, flush=flush)


def of_results(case: Case) -> tuple[object, ...]:
    """All that may not depend on how a task's events are interleaved."""
    closing, standing = judged(case, flush=True), judged(case)
    return (closing.panes, closing.counters, closing.windows, standing.panes, standing.counters, standing.windows, standing.w_ms)


class TestLaws:
    @run(deadline=None)
    @given(st.data())
    def test_without_ticks_the_interleaving_of_inputs_changes_nothing(self, data: st.DataObject) -> None:
        case = data.draw(cases(without=["ticks"]))
        case = replace(case, steps=tuple(step for step in case.steps if isinstance(step, Arrival)))
        assert of_results(data.draw(interleavings(case))) == of_results(case)

    @run(deadline=None)
    @given(st.data())
    def test_the_arrival_order_of_admitted_events_changes_nothing(self, data: st.DataObject) -> None:
        case = data.draw(cases(without=["ticks", "futures"]))
        patient = replace(case, settings=replace(case.settings, lateness_ms=1_000_000))
        shuffled = replace(patient, steps=tuple(data.draw(st.permutations(patient.steps))))
        assert of_results(shuffled) == of_results(patient)

    @run(deadline=None)
    @given(st.one_of(cases(), tiny_session_cases()))
    def test_what_is_final_and_what_is_counted_never_changes(self, case: Case) -> None:
        before = judge([], case.settings)
        for seen in range(1, len(case.steps) + 1):
            now = judge(case.steps[:seen], case.settings)
            assert final_panes(now, before.f_ms) == final_panes(before, before.f_ms)
            assert all(now.totals[reason] >= before.totals[reason] for reason in REASONS)
            before = now

    @run(deadline=None)
    @given(st.one_of(cases(), tiny_session_cases()))
    def test_every_event_meets_one_fate_and_every_list_stands_in_one_pane(self, case: Case) -> None:
        result = judged(case, flush=True)
        task = result.tasks[0]
        unused = sum(count for reason, count in result.totals.items() if reason not in ("events", "repeated"))
        assert unused + task.fates.count("shown") == len(task.fates) == result.totals["events"]
        assert sum(tally.lists for (_, group), tally in result.panes.items() if group == ALL) == len(task.lists)
        assert sum(one.events for one in task.sessions) == sum(fate not in ("late", "future", "session_full") for fate in task.fates)

    @run(deadline=None)
    @given(st.one_of(cases(), tiny_session_cases()))
    def test_no_admitted_event_touches_a_session_that_had_closed(self, case: Case) -> None:
        closed: set[object] = set()
        for seen in range(len(case.steps) + 1):
            sessions = judge(case.steps[:seen], case.settings).tasks[0].sessions
            assert closed <= set(sessions)
            closed = {one for one in sessions if one.closed}

    @run(deadline=None)
    @given(st.data())
    def test_batches_are_the_same_steps_cut_up(self, data: st.DataObject) -> None:
        case = data.draw(cases())
        assert [step for batch in data.draw(batches(case.steps)) for step in batch] == list(case.steps)
