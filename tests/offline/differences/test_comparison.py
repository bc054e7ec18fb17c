"""Tests of what differs between two reports: spans, settings, counters, groups, and what remains unexplained."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from streammetrics.errors import StreammetricsError
from streammetrics.offline.differences.comparison import ComparedSide, find_differences
from streammetrics.offline.differences.counts import changed_counts, changed_inputs
from streammetrics.offline.differences.found import FoundDifferences
from streammetrics.offline.differences.groups import changed_panes
from streammetrics.offline.differences.pane_sums import GroupName, PaneSums
from streammetrics.reports.history import History
from streammetrics.reports.published import GroupTotals, PublishedReport, TopicCount, published
from tests.oracle import Settings
from tests.support.machine import Machine, engine_of

ALL = GroupName("", "", "")
PANE_MS = 1_000
OTHER_NUMBERS = "the other numbers in 1 pane with as many lists on both sides"


EMPTY = published(Machine(engine_of(Settings()), Settings()).report(), engine_of(Settings()).layout, History())


def report(**changed: Any) -> PublishedReport:
    counts = changed.pop("counters", {"events": 100})
    by_topic = tuple(TopicCount(reason=reason, topic="events", count=count) for reason, count in counts.items())
    sides = {"settings": {"grades": "click=1"}, "windows": (), "watermark_ms": None, "final_ms": None, "ended": True}
    return replace(EMPTY, **{"counters": counts, "counters_by_topic": by_topic, **sides, **changed})


def line(start_ms: int, lists: int, total: int = 0, **changed: Any) -> dict[str, Any]:
    group = {"pane_start_ms": start_ms, "pane_ms": PANE_MS, "experiment": "", "variant": "", "segments": {}, "view": "final"}
    metrics = {"mrr@5": {"sum": 0.0, "sum_raw": total, "scale_bits": 40}}
    return group | {"lists": lists, "lists_with_feedback": 0, "metrics": metrics} | changed


def panes_of(*lines: dict[str, Any]) -> PaneSums:
    panes = PaneSums()
    for each in lines:
        panes.add(each)
    return panes


def compared(online: list[dict[str, Any]], offline: list[dict[str, Any]], ours: Any = None, theirs: Any = None) -> FoundDifferences:
    sides = (("online", ours, online), ("offline", theirs, offline))
    return find_differences(*(ComparedSide(name, one or report(), panes_of(*lines)) for name, one, lines in sides))


def test_equal_panes_are_equal_and_say_what_was_compared() -> None:
    found = compared([line(0, 3), line(1_000, 2)], [line(0, 3), line(1_000, 2)])
    assert (found.equal, found.groups, found.counters, found.settings) == (True, (), (), ())
    assert found.compared == ("2 final panes of the common span", "totals", "counters")
    assert (found.common_from_ms, found.common_to_ms) == (0, 2_000)


def test_a_missing_list_is_explained_by_a_late_event() -> None:
    late, none = report(counters={"events": 100, "late": 2}), report()
    (group,) = compared([line(0, 3), line(1_000, 2)], [line(0, 3), line(1_000, 4)], late, none).groups
    assert (group.offline_more, group.offline_fewer, group.panes, group.unexplained) == (2, 0, (1_000,), None)
    assert group.explained == ("up to 2 lists, because online counted 2 events more as late",)


def test_what_counters_do_not_explain_is_said() -> None:
    late = report(counters={"events": 100, "late": 2})
    (group,) = compared([line(0, 3)], [line(0, 8)], late).groups
    assert group.unexplained == "3 lists"
    (other_way,) = compared([line(0, 8)], [line(0, 3)], late).groups
    assert (other_way.explained, other_way.unexplained) == ((), "5 lists")


def test_differences_that_cancel_over_panes_are_found() -> None:
    found = compared([line(0, 3, 7), line(1_000, 2, 7)], [line(0, 2, 7), line(1_000, 3, 7)])
    (group,) = found.groups
    assert (group.numbers, group.offline_more, group.offline_fewer, group.unexplained) == ((), 1, 1, "2 lists")
    (of_sums,) = compared([line(0, 3, 7), line(1_000, 2, 8)], [line(0, 3, 8), line(1_000, 2, 7)]).groups
    assert (of_sums.numbers, of_sums.unexplained) == ((), "the other numbers in 2 panes with as many lists on both sides")


def test_values_of_other_panes_are_not_explained_by_lists() -> None:
    (group,) = compared([line(0, 3, 7), line(1_000, 2, 7)], [line(0, 3, 8), line(1_000, 4, 9)], report(counters={"events": 100})).groups
    assert (group.panes, group.value_panes, group.unexplained) == ((0, 1_000), (0,), f"2 lists and {OTHER_NUMBERS}")
    assert group.unexplained_pane_ms == 0
    (of_lists,) = compared([line(0, 3, 7), line(1_000, 2)], [line(0, 3, 8), line(1_000, 4)], report(settings={"grades": "click=2"})).groups
    assert (of_lists.unexplained, of_lists.unexplained_pane_ms) == ("2 lists", 1_000)


def test_values_are_explained_by_settings_that_change_them_and_by_no_other() -> None:
    for settings, unexplained in (({"grades": "click=2"}, None), ({"grades": "click=1", "retention_ms": 5}, OTHER_NUMBERS)):
        (group,) = compared([line(0, 3, 7)], [line(0, 3, 9)], report(settings=settings)).groups
        assert group.unexplained == unexplained
        assert ([number.name for number in group.numbers]) == ["mrr@5"]


def test_settings_alone_do_not_make_reports_different() -> None:
    found = compared([line(0, 3)], [line(0, 3)], report(settings={"grades": "click=1", "spec": {"gain": "exp2"}}))
    assert found.equal
    assert [(each.name, each.online, each.offline) for each in found.settings] == [("spec.gain", "exp2", None)]


def test_a_pane_without_lists_counts_as_zero_inside_the_span_and_not_outside() -> None:
    running = report(ended=False, final_ms=3_000)
    inside = compared([line(0, 3), line(2_000, 1)], [line(0, 3), line(1_000, 5), line(2_000, 1)], running)
    assert [group.panes for group in inside.groups] == [(1_000,)]
    outside = compared([line(1_000, 3)], [line(0, 9), line(1_000, 3), line(2_000, 4)], running)
    assert outside.equal
    assert (outside.offline.only_here, outside.offline.lists_only_here, outside.online.only_here) == (2, 13, 0)
    assert not compared([line(1_000, 3)], [line(0, 9), line(1_000, 3)]).equal  # both have ended


def test_more_records_explain_nothing_if_the_reports_end_at_different_times() -> None:
    running = report(ended=False, final_ms=1_000, counters={"events": 40})
    (group,) = compared([line(0, 3)], [line(0, 5)], running).groups
    assert group.unexplained == "2 lists"
    (of_values,) = compared([line(0, 3, 7)], [line(0, 3, 8)], replace(running, counters={"events": 40, "matched": 9})).groups
    assert (of_values.explained, of_values.unexplained) == ((), OTHER_NUMBERS)
    unread = report(counters_by_topic=(events(100, "other"),))
    (of_input,) = compared(
        [line(0, 3)], [line(0, 5)], running, replace(unread, counters_by_topic=(*unread.counters_by_topic, events(40)))
    ).groups
    assert of_input.explained == ("up to 100 lists, because online has not read the input other",)
    assert of_input.unexplained is None


def events(count: int, topic: str = "events") -> TopicCount:
    return TopicCount(reason="events", topic=topic, count=count)


def test_panes_of_other_lengths_and_no_common_span_are_not_compared() -> None:
    other = compared([line(0, 3)], [line(0, 3, pane_ms=2_000)])
    assert other.left_out[0] == "panes: they have different lengths, 1000 ms online and 2000 ms offline"
    apart = compared([line(0, 3)], [line(5_000, 3)], report(ended=False, final_ms=1_000))
    assert (apart.compared, apart.equal) == ((), False)
    assert "no pane in common" in apart.left_out[0]
    assert "online has no final pane" in compared([], [line(0, 3)]).left_out[0]


def test_metrics_of_one_side_or_another_scale_are_left_out() -> None:
    other = {"mrr@5": {"sum": 0.0, "sum_raw": 1, "scale_bits": 32}, "ndcg@5": {"sum": 0.0, "sum_raw": 1, "scale_bits": 40}}
    found = compared([line(0, 3, 7)], [line(0, 3, metrics=other)])
    assert found.groups == ()
    assert found.left_out == ("metrics that only one side has, or in another scale: mrr@5, ndcg@5",)


def test_totals_are_compared_only_if_both_end_at_the_same_time() -> None:
    def ended(lists: int, **changed: Any) -> PublishedReport:
        total = GroupTotals(experiment="a", variant="b", lists=lists, lists_with_feedback=0, values={}, values_with_feedback={})
        return report(totals=(total,), **changed)

    both = find_differences(ComparedSide("x", ended(3)), ComparedSide("y", ended(4)))
    assert [(each.place, each.variant, each.unexplained) for each in both.groups] == [("totals", "b", "1 list")]
    apart = find_differences(ComparedSide("x", ended(3, final_ms=5, ended=False)), ComparedSide("y", ended(4)))
    assert (apart.groups, apart.compared) == ((), ())


def test_lines_records_and_rows_of_a_pane_are_the_same() -> None:
    row = {"metric": "mrr", "k": 5, "numerator": 7, "denominator": 3, "scale_bits": 40}
    place = {
        "pane_start_ms": 0,
        "pane_ms": PANE_MS,
        "experiment": "",
        "variant": "",
        "segments": "a=1,b=2",
        "lists": 3,
        "lists_with_feedback": 0,
    }
    of_line = panes_of(line(0, 3, 7, segments={"b": "2", "a": "1"}), line(0, 9, view="live"))
    of_record = panes_of({"type": "pane", **place, "metrics": [row]}, {"type": "verdict", "experiment": "a"})
    assert of_line == of_record == panes_of({**place, "view": "final", **row})
    with pytest.raises(StreammetricsError, match="1000 ms and of 5 ms"):
        panes_of(line(0, 3), line(0, 3, pane_ms=5))


def test_counters_and_inputs_that_differ() -> None:
    found = changed_counts({"events": 5, "late": 4, "same": 1}, {"events": 4, "same": 1, "new_reason": 2})
    assert [(each.reason, each.online, each.offline) for each in found] == [("events", 5, 4), ("late", 4, 0), ("new_reason", 0, 2)]
    files = [events(3, name) for name in ("/in/events.ndjson", "events.2.ndjson", "more.csv")]
    assert [(one.name, one.online, one.offline) for one in changed_inputs([events(6)], files)] == [("more.csv", 0, 3)]


def test_inputs_with_unrelated_names_are_not_compared() -> None:
    assert changed_inputs([events(6)], [events(5, "export.ndjson")]) == ()


NUMBERS = st.dictionaries(st.integers(0, 4), st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5)


@given(online=NUMBERS, offline=NUMBERS)
def test_changed_panes_are_those_with_other_integers(online: dict[int, tuple[int, int]], offline: dict[int, tuple[int, int]]) -> None:
    starts = range(5)
    sides = [panes_of(*(line(start, *numbers) for start, numbers in one.items())) for one in (online, offline)]
    for one in sides:
        one.scales = {"mrr@5": 40}
    differ = tuple(start for start in starts if online.get(start, (0, 0)) != offline.get(start, (0, 0)))
    groups = list(changed_panes(*sides, starts))
    assert [group.panes for group in groups] == ([differ] if differ else [])
    for group in groups:
        assert group.offline_more - group.offline_fewer == sum(lists for lists, _ in offline.values()) - sum(
            lists for lists, _ in online.values()
        )
