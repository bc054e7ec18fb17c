"""A report says first when the events cannot mean what they seem to."""

from __future__ import annotations

from typing import Any

import pytest

from streammetrics.events.model import Feedback, Impression
from streammetrics.reports.data_warnings import UnknownName
from streammetrics.reports.report import InputPosition, Report, Total
from streammetrics.windows.panes import Group, GroupValues, Window
from streammetrics.words.numbers import counted
from tests.oracle import Arrival, Settings
from tests.support.machine import Machine, engine_of

NOON_MS = 1_772_366_400_000
SHOWN = {("events", "shop"): 200, ("matched", "shop"): 100}


def report(counts: dict[tuple[str, str], int], **fields: Any) -> Report:
    """A report with lists in which only these counters and fields are set."""
    given: dict[str, Any] = {
        "rules": "",
        "settings": {"segments": ["query"], "groups_max": 10},
        "tasks": 1,
        "tasks_committed": 1,
        "watermark_ms": NOON_MS,
        "final_ms": NOON_MS,
        "ended": False,
        "inputs": (InputPosition("shop", 0, 200, NOON_MS, NOON_MS),),
        "windows": (),
        "totals": (Total("", "", ()),),
        "users_open": 0,
        "sessions_open": 0,
        "withheld": 0,
    }
    return Report(counts=counts, **{**given, **fields})


def texts(counts: dict[tuple[str, str], int], **fields: Any) -> list[str]:
    return [str(warning) for warning in report(counts, **fields).warnings()]


def test_sound_data_have_no_warning() -> None:
    assert texts({**SHOWN, ("bad_ts", "shop"): 10, ("orphan", "shop"): 33, ("unknown_action", "shop"): 60}) == []


@pytest.mark.parametrize(("known_ms", "warned"), [(NOON_MS // 1_000, True), (NOON_MS, False), (None, False)])
def test_seconds_as_milliseconds_are_named_once_for_a_topic(known_ms: int | None, warned: bool) -> None:
    inputs = tuple(InputPosition("shop", partition, 1, None, known_ms) for partition in range(3))
    assert any("it must be in milliseconds" in text for text in texts(SHOWN, inputs=inputs)) == warned
    assert len(texts(SHOWN, inputs=inputs)) == warned


def test_a_topic_with_many_refused_events_is_named_with_the_reasons() -> None:
    counts = {
        **SHOWN,
        ("bad_ts", "shop"): 6,
        ("oversized", "shop"): 5,
        ("late", "shop"): 90,
        ("events", "carts"): 9,
        ("bad_id", "carts"): 9,
    }
    assert texts(counts) == [
        "5.5 % of the events of shop are refused, 11 of 200: bad_ts 6, oversized 5. `decode` and the dead letters say why.",
        "100 % of the events of carts are refused, 9 of 9: bad_id 9. `decode` and the dead letters say why.",
    ]


@pytest.mark.parametrize(("reason", "advice"), [("orphan", "impression_id"), ("out_of_list", "item ids"), ("too_old", "attribution_ms")])
def test_feedback_without_a_list_is_reported_with_its_main_cause(reason: str, advice: str) -> None:
    (warning,) = texts({**SHOWN, (reason, "shop"): 34})
    assert warning.startswith(f"25.4 % of the feedback counts for no list, 34 of 134: {reason} 34. ")
    assert advice in warning


def test_the_share_of_feedback_without_a_list_is_that_of_experiments() -> None:
    settings = {"experiments": {"unmatched_share_max": 0.3}}
    assert texts({**SHOWN, ("orphan", "shop"): 34}, settings=settings) == []


@pytest.mark.parametrize(("ended", "unknown", "warned"), [(True, 2, True), (False, 2, False), (False, 100, True)])
def test_feedback_of_unknown_actions_only_is_named_when_there_is_enough(ended: bool, unknown: int, warned: bool) -> None:
    names = (UnknownName("type", "page", 2), UnknownName("action", "CLICK", unknown, "click"))
    warnings = texts({("events", "shop"): 200, ("unknown_action", "shop"): unknown}, ended=ended, unknown_names=names)
    assert warnings == [f"No feedback has a grade: the action of all {unknown} is unknown, such as CLICK (did you mean click?). "
                     "Name them in join.grades, or yield others in the reader."] * warned  # fmt: skip


@pytest.mark.parametrize(("ended", "lists", "warned"), [(True, 99, False), (True, 100, True), (False, 100, True)])
def test_metrics_that_are_0_for_want_of_feedback_or_of_a_grade_are_explained(ended: bool, lists: int, warned: bool) -> None:
    def found(counts: dict[str, int], graded: int = 0) -> list[str]:
        totals = (Total("", "", (lists, graded, 0)), Total("ranker", "control", (lists, 0, 0)))
        settings = {"experiments": {"named": {"ranker": {}}}}
        kept = {(reason, "shop"): count for reason, count in {"events": 1_000, **counts}.items()}
        return texts(kept, ended=ended, totals=totals, settings=settings)

    assert [warning.partition(",")[0] for warning in found({})] == [f"None of {counted(lists, 'final list')} has feedback"] * warned
    assert [warning.partition(",")[0] for warning in found({"matched": lists})] == ["No feedback has a grade above 0"] * warned
    assert found({"matched": lists}, graded=1) == []
    assert all("metrics are 0" not in warning for warning in found({"orphan": lists}))


def test_labels_that_are_no_text_are_named_by_topic() -> None:
    (warning,) = texts({**SHOWN, ("label_bad_type", "shop"): 3})
    assert warning.startswith("3 labels of lists of shop are not used")
    assert texts({**SHOWN, ("label_bad_type", "shop"): 2, ("label_empty", "shop"): 100}) == []


def test_names_that_differ_only_in_case_are_named() -> None:
    arms = [("", ""), ("ranker", ""), ("ranker", "A"), ("ranker", "a"), ("Ranker", "a"), ("other", "A"), ("other", "b")]
    totals = tuple(Total(experiment, variant, ()) for experiment, variant in arms)
    assert texts(SHOWN, totals=totals) == [
        'Experiments differ only in case or spaces, so they count as different ones: "Ranker", "ranker". Send one spelling.',
        'Variants of ranker differ only in case or spaces, so they count as different ones: "A", "a". Send one spelling.',
    ]


@pytest.mark.parametrize(("ended", "duplicates", "warned"), [(True, 100, False), (True, 101, True), (False, 101, True)])
def test_a_topic_with_more_duplicates_than_other_events_is_named(ended: bool, duplicates: int, warned: bool) -> None:
    warnings = texts({**SHOWN, ("duplicate", "shop"): duplicates, ("events", "carts"): 100}, ended=ended)
    assert [warning.startswith(f"50.5 % of the events of shop are duplicates, {duplicates} of 200.") for warning in warnings] == [
        True
    ] * warned
    few = texts({("events", "shop"): 3, ("duplicate", "shop"): 2}, ended=ended)
    assert any("duplicates" in warning for warning in few) == ended, "a stream needs more of them"


@pytest.mark.parametrize(("ended", "events", "warned"), [(True, 3, True), (False, 3, False), (False, 100, True), (True, 0, False)])
def test_events_without_any_list_are_reported(ended: bool, events: int, warned: bool) -> None:
    warnings = texts({("events", "shop"): events, ("orphan", "shop"): events}, ended=ended, totals=())
    assert warnings == [f"None of {events} events is a list. Let the inputs hold the lists that users saw, too."] * warned


def test_events_that_may_show_items_are_named() -> None:
    names = (UnknownName("action", "view", 9, "impression"),)
    (warning,) = texts({("events", "shop"): 9, ("unknown_action", "shop"): 9}, ended=True, totals=(), unknown_names=names)
    assert warning.endswith("If events with the action view show items, let a reader yield them as lists.")


def test_lists_beyond_the_limits_of_labels_are_reported() -> None:
    folded, lost = texts({**SHOWN, ("too_many_groups", "shop"): 3, ("too_many_variants", "shop"): 1})
    assert folded.startswith("3 lists count under the segment value _other, because there are more than windows.groups_max = 10 groups.")
    assert folded.endswith("now query.")
    assert lost.startswith("1 list lost a variant")
    assert texts({**SHOWN, ("too_many_groups", "shop"): 2}) == [], "a hundredth of the events"


def test_names_from_events_are_safe_to_display() -> None:
    names = (UnknownName("action", "tap\u202e\n", 2),)
    (warning,) = texts({("events", "shop"): 2, ("unknown_action", "shop"): 2}, ended=True, unknown_names=names)
    assert warning.isprintable() or "\u2068" in warning
    assert "\u202e" not in warning
    assert "\n" not in warning


def arms_of(**lists: int) -> tuple[Total, ...]:
    """Totals of all lists and of those of each variant of the experiment `ranker`."""
    return (Total("", "", (sum(lists.values()), 1)), *(Total("ranker", variant, (count, 1)) for variant, count in lists.items() if variant))


@pytest.mark.parametrize(("lists", "events", "warned"), [(100, 1_000, True), (99, 1_000, False), (100, 999, False)])
def test_lists_without_any_experiment_are_named_when_they_are_many(lists: int, events: int, warned: bool) -> None:
    settings = {"experiments": {"enabled": True}}
    totals = (Total("", "", (lists, 1)),)
    warnings = texts({**SHOWN, ("events", "shop"): events}, totals=totals, settings=settings)
    assert [warning.split(",")[0] for warning in warnings] == [f"None of {lists} lists has an experiment"] * warned
    live = (Window(9, "live", 10, True, (GroupValues(Group(), lists, 1, {}, {}),)),)
    assert texts({**SHOWN, ("events", "shop"): events}, totals=(), windows=live, settings=settings) == warnings, "before lists are final"


def test_a_configured_control_without_lists_is_named_with_the_variants_that_have_some() -> None:
    settings = {"experiments": {"enabled": True, "named": {"ranker": {"control": "old"}}}}
    counts = {**SHOWN, ("events", "shop"): 1_000}
    (warning,) = texts(counts, totals=arms_of(new=60, off=40), settings=settings)
    text = "None of 100 lists of experiment ranker has its control, old"
    assert warning == f"{text}. Set control in experiments.named to one of their variants: new, off."
    assert texts(counts, totals=arms_of(new=60, old=40), settings=settings) == []


@pytest.mark.parametrize(
    ("control", "variants", "warned"),
    [(None, {"new": 60}, True), (None, {"new": 60, "old": 40}, False), ("off", {"new": 60, "old": 40}, True)],
)
def test_null_variants_are_named_where_the_experiment_has_no_control(control: str | None, variants: dict[str, int], warned: bool) -> None:
    settings = {"experiments": {"named": {"ranker": {"control": control}} if control else {}}}
    names = (UnknownName("null_variant", "ranker", 2_000),)
    warnings = texts(SHOWN, totals=arms_of(**variants), settings=settings, unknown_names=names)
    assert [warning.startswith("2,000 lists have null in experiment ranker where ") for warning in warnings] == [True] * warned


def test_no_list_is_missed_while_an_open_pane_has_some_or_before_the_inputs_have_a_time() -> None:
    counts = {("events", "shop"): 1_898}
    assert texts(counts, totals=()) == ["None of 1,898 events is a list. Let the inputs hold the lists that users saw, too."]
    assert texts(counts, totals=(), has_lists=True) == []
    assert texts(counts, totals=(), watermark_ms=None) == []


@pytest.mark.parametrize(
    ("record_ms", "start"),
    [(NOON_MS + 3_600_000, None), (NOON_MS + 5 * 3_600_000, "The events of shop are dated 5 h before"), (None, None)],
)
def test_events_that_are_dated_long_before_their_records_are_named(record_ms: int | None, start: str | None) -> None:
    warnings = texts(SHOWN, inputs=(InputPosition("shop", 0, 200, NOON_MS, NOON_MS, record_ms),))
    assert [warning.startswith(start or "") for warning in warnings] == [True] * (start is not None)


def test_events_refused_as_future_are_named_with_the_times_of_records() -> None:
    inputs = (InputPosition("shop", 0, 200, NOON_MS, NOON_MS, NOON_MS // 1_000),)
    (warning,) = texts({**SHOWN, ("future", "shop"): 20}, inputs=inputs)
    assert warning.startswith(
        "10 % of the events of shop are dated too long after their records, 20 of 200, so they are refused as future."
    )
    assert "Records have timestamps up to 1970-01-21 12:19:26 UTC" in warning


def test_late_events_in_another_unit_do_not_blame_the_sender_of_right_times() -> None:
    settings = Settings(inputs=("events",), pane_ms=10, windows_ms=(10,))
    machine = Machine(engine_of(settings), settings)
    machine.feed([Arrival("events", Impression(f"r{number}", "u", NOON_MS + number, ("i",))) for number in range(9)])
    machine.feed([Arrival("events", Feedback("u", NOON_MS // 1_000 + number, "i", "click")) for number in range(9)])
    machine.finish(flush=True)
    late = next(warning for warning in machine.report().warnings() if warning.key.startswith("late"))
    assert late.text.startswith(
        "50 % of the events of events (partition 0) are late and refused, 9 of 18. They are dated 1970-01-21 12:19:26 UTC or so"
    )
    assert (
        late.fix
        == "compare the times of lists and of feedback, and multiply ts by 1,000 in the reader: it must be in milliseconds, not seconds"
    )


def test_the_report_of_the_engine_has_these_sentences() -> None:
    settings = Settings(inputs=("events",), pane_ms=10, windows_ms=(10,))
    machine = Machine(engine_of(settings), settings)
    events = (Impression("x", "u", 1, ("i",)), Feedback("u", 2, "i", "tap"))
    machine.feed([Arrival("events", event) for event in events])
    machine.finish(flush=True)
    seconds, unknown = map(str, machine.report().warnings())
    assert seconds.startswith("The times of the events of events are 1970-01-01 00:00:00 UTC or before")
    assert unknown.startswith("No feedback has a grade: the action of all 1 is unknown")
