"""The join: sessions, copies, fragments and feedback."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammetrics.events.model import Impression
from tests.oracle import (
    Arrival,
    Settings,
    expected_result,
)
from tests.oracle.traces import ALL, ONE, VERY_LATE, feedback, fragment, lists, outcomes, show, spans


class TestSessions:
    def test_events_exactly_the_gap_apart_share_a_session(self) -> None:
        assert spans(show("x", 0), show("y", 7)) == [(0, 7, False)]

    def test_events_more_than_the_gap_apart_are_two_sessions(self) -> None:
        assert spans(show("x", 0), show("y", 8)) == [(0, 0, False), (8, 8, False)]

    def test_a_late_event_between_two_sessions_merges_them(self) -> None:
        assert spans(show("x", 0), show("y", 14)) == [(0, 0, False), (14, 14, False)]
        assert spans(show("x", 0), show("y", 14), feedback(7, "a")) == [(0, 14, False)]

    def test_users_do_not_share_sessions(self) -> None:
        other = Arrival("events", Impression("y", "v", 1, ("a",)))
        assert spans(show("x", 0), other) == [(0, 0, False), (1, 1, False)]

    def test_an_unknown_action_only_extends_the_session(self) -> None:
        assert spans(show("x", 0), feedback(7, "a", "stare"), show("y", 14)) == [(0, 14, False)]
        assert outcomes(show("x", 0), feedback(1, "a", "stare")) == ["shown", "unknown_action"]

    def test_a_late_event_is_refused_and_does_not_change_a_closed_session(self) -> None:
        trace = (show("x", 6), show("y", 17), show("z", 9))
        assert outcomes(*trace, under=ONE) == ["shown", "shown", "late"]
        assert spans(*trace, under=ONE) == [(6, 6, True), (17, 17, False)]

    def test_a_session_closes_one_millisecond_after_its_gap_and_the_lateness(self) -> None:
        assert spans(show("x", 6), show("y", 15), under=ONE)[0] == (6, 6, False)
        assert spans(show("x", 6), show("y", 16), under=ONE)[0] == (6, 6, True)


class TestLists:
    def test_of_whole_copies_the_earliest_counts_in_any_order(self) -> None:
        trace = (show("x", 5, "ab"), show("x", 4, "cd"))
        assert outcomes(*trace) == ["list_id_reused", "shown"]
        assert [(one.ts, one.items) for one in lists(*trace)] == [(4, ("c", "d"))]

    def test_of_whole_copies_at_one_time_the_least_content_counts(self) -> None:
        assert outcomes(show("x", 4, "b"), show("x", 4, "ab"), show("x", 4, "abc")) == ["list_id_reused", "shown", "list_id_reused"]

    def test_copies_of_a_list_with_a_reused_id_are_duplicates(self) -> None:
        trace = (show("x", 2, "cd"), show("x", 1, "ab"), show("x", 3, "cd"), show("x", 9, "ba"))
        assert outcomes(*trace) == ["list_id_reused", "shown", "duplicate", "list_id_reused"]

    def test_content_compares_items_then_experiments_then_segments(self) -> None:
        control, treatment = (("ranker", "control"),), (("ranker", "treatment"),)
        assert outcomes(show("x", 4, experiments=treatment), show("x", 4, experiments=control)) == ["duplicate", "shown"]
        home, search = (("surface", "home"),), (("surface", "search"),)
        assert outcomes(show("x", 4, segments=search), show("x", 4, segments=home)) == ["duplicate", "shown"]
        crossed = (show("x", 4, experiments=treatment, segments=home), show("x", 4, experiments=control, segments=search))
        assert outcomes(*crossed) == ["duplicate", "shown"]

    def test_of_equal_copies_the_one_on_the_first_configured_input_counts(self) -> None:
        trace = [show("x", 4, at="feedback"), show("x", 4, at="impressions")]
        assert expected_result(trace, Settings()).counters["duplicate", "feedback"] == 1
        assert expected_result(trace, Settings(inputs=("feedback", "impressions"))).counters["duplicate", "impressions"] == 1

    def test_one_id_in_two_sessions_is_two_lists(self) -> None:
        assert [one.ts for one in lists(show("x", 0), show("x", 8))] == [0, 8]

    def test_in_merged_sessions_the_later_of_two_lists_with_one_id_is_a_duplicate(self) -> None:
        assert outcomes(show("x", 0), show("x", 8), feedback(4, "a")) == ["shown", "duplicate", "matched"]

    def test_a_repeated_item_keeps_its_place_without_a_grade(self) -> None:
        assert lists(show("x", 0, "aba"), feedback(1, "a"))[0].grades == (1, 0, 0)

    def test_a_list_without_items_is_a_list(self) -> None:
        assert outcomes(show("x", 0, ""), feedback(1, "a", to="x")) == ["shown", "out_of_list"]
        assert expected_result([show("x", 0, "")], ONE).panes[0, ALL].lists == 1


class TestFragments:
    def test_fragments_form_one_list_by_position_at_the_least_ts(self) -> None:
        trace = (fragment("x", 3, ("c", 2)), fragment("x", 1, ("b", 1)), fragment("x", 2, ("a", 5)))
        assert outcomes(*trace) == ["shown"] * 3
        assert [(one.ts, one.items) for one in lists(*trace)] == [(1, ("b", "c", "a"))]

    def test_an_item_at_two_positions_has_the_lower_one(self) -> None:
        assert lists(fragment("x", 0, ("a", 4), ("b", 5)), fragment("x", 1, ("b", 2)))[0].items == ("b", "a")
        assert lists(fragment("x", 0, ("b", 1), ("a", 2), ("b", 3)))[0].items == ("b", "a")

    def test_two_items_at_one_position_are_ordered_by_id(self) -> None:
        assert lists(fragment("x", 0, ("b", 1)), fragment("x", 1, ("a", 1)))[0].items == ("a", "b")

    @pytest.mark.parametrize(("place", "count"), [(1, 1), (2, 0)])
    def test_a_list_with_two_items_at_one_place_has_a_conflict(self, place: int, count: int) -> None:
        trace = (fragment("x", 0, ("b", 3)), fragment("x", 1, ("a", 1)), fragment("x", 2, ("b", place)), fragment("x", 2, ("c", 4)))
        assert expected_result(trace, ONE, flush=True).totals["place_conflict"] == count

    def test_experiments_and_segments_come_from_the_least_fragment(self) -> None:
        early, late = (("ranker", "early"),), (("ranker", "late"),)
        trace = (fragment("x", 3, ("a", 1), experiments=late), fragment("x", 2, ("b", 2), experiments=early, segments=late))
        assert [(one.experiments, one.segments) for one in lists(*trace)] == [(early, late)]

    def test_at_one_time_the_least_content_is_the_least_fragment(self) -> None:
        one, two = (("ranker", "1"),), (("ranker", "2"),)
        trace = (fragment("x", 3, ("b", 1), experiments=one), fragment("x", 3, ("a", 2), experiments=two))
        assert lists(*trace)[0].experiments == two

    def test_a_fragment_that_changes_nothing_is_a_duplicate_in_any_order(self) -> None:
        same = (fragment("x", 3, ("a", 1)), fragment("x", 2, ("a", 1), ("b", 2)))
        assert outcomes(*same) == ["duplicate", "shown"]

    def test_a_fragment_counts_if_it_lowers_a_position(self) -> None:
        assert outcomes(fragment("x", 2, ("a", 3)), fragment("x", 3, ("a", 4)), fragment("x", 4, ("a", 2))) == [
            "shown",
            "duplicate",
            "shown",
        ]

    def test_the_first_fragment_counts_even_without_items(self) -> None:
        assert outcomes(fragment("x", 2), fragment("x", 3)) == ["shown", "duplicate"]

    def test_a_whole_list_replaces_earlier_fragments(self) -> None:
        trace = (fragment("x", 1, ("c", 1)), show("x", 2, "ab"), fragment("x", 3, ("d", 2)))
        assert outcomes(*trace) == ["duplicate", "shown", "duplicate"]
        assert [(one.ts, one.items) for one in lists(*trace)] == [(2, ("a", "b"))]

    def test_fragments_count_up_to_the_attribution_time_inclusive(self) -> None:
        trace = (fragment("x", 0, ("a", 1)), fragment("x", 5, ("b", 2)), fragment("x", 6, ("c", 3)))
        assert outcomes(*trace) == ["shown", "shown", "duplicate"]
        assert lists(*trace)[0].items == ("a", "b")

    def test_a_whole_list_replaces_fragments_up_to_the_attribution_time(self) -> None:
        trace = (fragment("x", 0, ("c", 1)), show("x", 5, "ab"))
        assert outcomes(*trace) == ["duplicate", "shown"]
        assert [(one.ts, one.items) for one in lists(*trace)] == [(5, ("a", "b"))]

    def test_after_it_the_fragments_form_the_list_but_count_as_duplicates(self) -> None:
        trace = (fragment("x", 0, ("c", 1)), show("x", 6, "ab"))
        assert outcomes(*trace) == ["duplicate", "duplicate"]
        assert [(one.ts, one.items) for one in lists(*trace)] == [(0, ("c",))]

    def test_a_duplicate_stays_one_when_an_earlier_fragment_arrives(self) -> None:
        trace = [show("x", 10), fragment("x", 7, ("a", 1)), fragment("x", 8, ("b", 2)), fragment("x", 4, ("c", 3))]
        assert [expected_result(trace[:seen], VERY_LATE).totals["duplicate"] for seen in (3, 4)] == [2, 4]

    def test_fragments_with_too_many_items_form_no_list_and_keep_their_feedback(self) -> None:
        under = replace(VERY_LATE, items_max=2)
        parts = [fragment("x", 1, (item, position)) for position, item in enumerate("abc")]
        assert outcomes(*parts[:2], under=under) == ["shown", "shown"]
        trace = (show("w", 0, "abcd"), *parts, feedback(2, "a"), feedback(2, "d"))
        assert outcomes(*trace, under=under) == ["shown", *["too_many_items"] * 3, "orphan", "matched"]


class TestFeedback:
    def test_the_attribution_time_is_inclusive(self) -> None:
        assert outcomes(show("x", 0), feedback(5, "a"), feedback(6, "a")) == ["shown", "matched", "too_old"]
        assert outcomes(show("x", 0), feedback(5, "a", to="x"), feedback(6, "a", to="x")) == ["shown", "matched", "too_old"]

    def test_only_feedback_with_an_id_may_precede_its_list(self) -> None:
        assert outcomes(show("x", 4), feedback(3, "a", to="x"), feedback(3, "a"), feedback(4, "a")) == [
            "shown",
            "matched",
            "orphan",
            "matched",
        ]

    def test_feedback_with_an_id_belongs_to_no_other_list(self) -> None:
        assert outcomes(show("x", 0, "a"), show("y", 1, "b"), feedback(2, "a", to="y"), feedback(2, "a", to="z"))[2:] == [
            "out_of_list",
            "orphan",
        ]

    def test_feedback_without_an_id_belongs_to_the_latest_list_with_the_item(self) -> None:
        trace = (show("x", 0, "a"), show("y", 1, "ab"), show("z", 2, "b"), feedback(3, "a"))
        assert [(one.impression_id, one.grades) for one in lists(*trace)] == [("x", (0,)), ("y", (1, 0)), ("z", (0,))]

    def test_of_lists_at_one_time_the_greatest_id_gets_the_feedback(self) -> None:
        trace = (show("y", 0, "a"), show("x", 0, "a"), feedback(0, "a"))
        assert [(one.impression_id, one.grades) for one in lists(*trace)] == [("x", (0,)), ("y", (1,))]

    def test_feedback_without_an_id_is_out_of_list_if_no_earlier_list_shows_the_item(self) -> None:
        assert outcomes(show("x", 0, "a"), feedback(1, "b"), show("y", 2, "b")) == ["shown", "out_of_list", "shown"]

    def test_feedback_never_belongs_to_a_list_of_another_session(self) -> None:
        assert outcomes(show("x", 0), feedback(8, "a", to="x")) == ["shown", "orphan"]

    def test_feedback_may_arrive_before_its_list(self) -> None:
        assert outcomes(feedback(1, "a"), show("x", 0)) == ["matched", "shown"]

    def test_an_item_has_its_greatest_grade(self) -> None:
        assert lists(show("x", 0), feedback(1, "a", "purchase"), feedback(2, "a", "click"), feedback(3, "b", "skip"))[0].grades == (3, 0)

    def test_feedback_that_meets_no_rule_is_matched_with_grade_0(self) -> None:
        trace = (show("x", 0, "abc"), feedback(1, "a", "watch"), feedback(1, "b", "watch", value=29.9), feedback(1, "c", "watch", value=30))
        assert outcomes(*trace) == ["shown", "matched", "matched", "matched"]
        assert lists(*trace)[0].grades == (0, 0, 2)

    def test_actions_are_compared_exactly(self) -> None:
        assert outcomes(show("x", 0), feedback(1, "a", "Click")) == ["shown", "unknown_action"]

    def test_repeated_feedback_is_matched_and_counted_on_top(self) -> None:
        trace = (show("x", 0), feedback(1, "a"), feedback(2, "a"), feedback(3, "a"), feedback(3, "b"), feedback(3, "a", "skip"))
        totals = expected_result(trace, VERY_LATE, flush=True).totals
        assert (totals["matched"], totals["repeated"]) == (5, 2)

    def test_repeated_feedback_is_counted_on_its_own_input(self) -> None:
        trace = [show("x", 0, at="impressions"), feedback(2, "a", at="impressions"), feedback(1, "a", at="feedback")]
        assert expected_result(trace, Settings(lateness_ms=50), flush=True).counters["repeated", "impressions"] == 1
