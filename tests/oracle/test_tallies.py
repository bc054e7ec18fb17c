"""Tallies: groups, panes and windows."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.oracle import (
    Group,
    Settings,
    expected_result,
    stored_values,
)
from tests.oracle.traces import ALL, ONE, VERY_LATE, feedback, show


class TestGroupsAndPanes:
    def test_a_list_counts_in_all_traffic_and_each_variant_by_one_segment_at_a_time(self) -> None:
        listed = show("x", 0, experiments=(("layout", "wide"), ("ranker", "new")), segments=(("surface", "home"),))
        panes = expected_result([listed], replace(ONE, segments=("surface", "country"))).panes
        bare = [("", ""), ("layout", "wide"), ("ranker", "new")]
        segments = [(), (("surface", "home"),), (("country", ""),)]
        assert set(panes) == {(0, Group(*labels, pairs)) for labels in bare for pairs in segments}
        assert {tally.lists for tally in panes.values()} == {1}

    def test_a_pane_includes_its_start_and_excludes_its_end(self) -> None:
        panes = expected_result([show("x", 3), show("y", 4), show("z", 7)], VERY_LATE).panes
        assert {start: tally.lists for (start, _), tally in panes.items()} == {0: 1, 4: 2}

    def test_feedback_counts_in_the_pane_of_its_list(self) -> None:
        panes = expected_result([show("x", 3), feedback(5, "a")], VERY_LATE).panes
        assert [(start, tally.lists_with_feedback) for (start, _), tally in panes.items()] == [(0, 1)]

    def test_a_list_has_feedback_only_with_a_grade_above_zero(self) -> None:
        assert expected_result([show("x", 0), feedback(1, "a", "skip")], ONE).panes[0, ALL].lists_with_feedback == 0

    def test_a_pane_sums_the_values_of_its_lists(self) -> None:
        trace = [show("x", 0, "abc"), feedback(1, "b", "purchase"), show("y", 2, "ab"), feedback(3, "b")]
        first, second = stored_values((0, 3, 0), VERY_LATE.cutoffs), stored_values((0, 1), VERY_LATE.cutoffs)
        assert expected_result(trace, VERY_LATE).panes[0, ALL].sums == {name: first[name] + second[name] for name in first}

    def test_the_item_hit_rate_counts_hits_and_places_up_to_the_cut_off(self) -> None:
        trace = [show("x", 0, "abcd"), feedback(1, "a"), feedback(1, "d"), show("y", 1, "ef")]
        tally = expected_result(trace, VERY_LATE).panes[0, ALL]
        assert tally.hits == {"item_hit_rate@1": 1, "item_hit_rate@3": 1}
        assert tally.places == {"item_hit_rate@1": 2, "item_hit_rate@3": 5}
        assert tally.places_with_feedback == {"item_hit_rate@1": 1, "item_hit_rate@3": 3}


class TestWindows:
    TRACE = tuple(show(f"list {ts}", ts) for ts in (0, 4, 8, 12, 16, 20, 21))

    def test_windows_end_at_the_last_pane_boundary_at_or_before_w_and_f(self) -> None:
        result = expected_result(self.TRACE, ONE)
        assert (result.w_ms, result.f_ms) == (21, 14)
        assert (result.windows[4, "live"].end_ms, result.windows[4, "final"].end_ms) == (20, 12)

    def test_a_window_may_end_exactly_at_its_bound(self) -> None:
        result = expected_result([*self.TRACE, show("z", 24)], replace(ONE, attribution_ms=6))
        assert (result.f_ms, result.windows[4, "final"].end_ms, result.windows[4, "live"].end_ms) == (16, 16, 24)

    def test_a_window_covers_the_panes_of_its_length_before_its_end(self) -> None:
        windows = expected_result(self.TRACE, ONE).windows
        assert {key: window.groups[ALL].lists for key, window in windows.items()} == {
            (4, "final"): 1,  # the pane at 8
            (12, "final"): 3,  # 0, 4 and 8
            (4, "live"): 1,  # 16; the pane at 20 ends past W
            (12, "live"): 3,  # 8, 12 and 16
        }

    def test_a_window_may_be_longer_than_the_data(self) -> None:
        assert expected_result(self.TRACE, replace(ONE, windows_ms=(400,))).windows[400, "final"].groups[ALL].lists == 3

    def test_a_window_without_lists_has_an_end_and_no_groups(self) -> None:
        window = expected_result([show("x", 0), feedback(103, "a")], ONE).windows[4, "live"]
        assert (window.end_ms, window.groups) == (100, {})

    def test_before_every_input_has_events_live_windows_have_the_open_pane_and_final_ones_have_no_end(self) -> None:
        trace = [show("x", 0, at="impressions"), show("y", 5, at="impressions")]
        result = expected_result(trace, Settings(pane_ms=4, windows_ms=(4, 8)))
        assert (result.f_ms, result.windows[4, "final"].end_ms, result.windows[4, "live"].end_ms) == (-math.inf, None, 8)
        assert [result.windows[window_ms, "live"].groups[ALL].lists for window_ms in (4, 8)] == [1, 2]

    def test_a_pane_that_is_open_counts_only_until_the_first_one_has_ended(self) -> None:
        ends = [expected_result([show("x", 0), show("y", at)], ONE).windows[4, "live"].end_ms for at in (1, 3, 4, 5)]
        assert ends == [4, 4, 4, 4]
        assert expected_result([show("x", 0), show("y", 5)], ONE).windows[4, "live"].groups[ALL].lists == 1

    def test_after_a_flush_windows_end_with_the_newest_admitted_event(self) -> None:
        result = expected_result([*self.TRACE, feedback(24, "a", "stare")], ONE, flush=True)
        assert (result.w_ms, result.f_ms) == (math.inf, math.inf)
        assert {window.end_ms for window in result.windows.values()} == {28}

    def test_a_flush_closes_every_session_and_makes_every_list_final(self) -> None:
        task = expected_result(self.TRACE, ONE, flush=True).tasks[0]
        assert {one.closed for one in task.sessions} == {one.final for one in task.lists} == {True}

    def test_a_refused_event_does_not_move_the_end_of_a_flushed_window(self) -> None:
        far = replace(show("z", 900), record_ts=20)
        assert expected_result([*self.TRACE, far], ONE, flush=True).windows[4, "live"].end_ms == 24

    def test_a_flush_without_events_gives_no_window_end(self) -> None:
        assert expected_result([], ONE, flush=True).windows[4, "final"].end_ms is None

    def test_tasks_have_the_lowest_w_and_f_and_summed_panes(self) -> None:
        ahead, behind = [show("x", 0), show("y", 50)], [show("x", 1), show("y", 30)]
        result = expected_result({0: ahead, 1: behind}, ONE)
        assert (result.w_ms, result.f_ms) == (30, 23)
        assert result.panes[0, ALL].lists == 2

    def test_a_task_without_events_stops_the_watermark(self) -> None:
        assert expected_result({0: [show("x", 0)], 1: []}, ONE).w_ms == -math.inf

    def test_a_window_must_be_a_whole_number_of_panes(self) -> None:
        with pytest.raises(ValueError, match="whole number of panes"):
            expected_result([], Settings(pane_ms=4, windows_ms=(6,)))
