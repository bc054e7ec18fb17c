"""What `decode` and `doctor` say about a sample of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from streammetrics.events import Event
from streammetrics.events.model import Feedback, Impression
from streammetrics.reports.samples import SampledEvent, SampleRules, sample_warnings

NOON_MS = 1_772_366_400_000
MINUTE_MS = 60_000
BEHIND = "The events of shop are dated 5 h before their records, such as 2026-03-01 12:00:00 UTC in a record of 2026-03-01 17:00:00 UTC"
ITEMS = ("a", "b", "c")
LABELS = (("ranker", "new"),)


def shown(number: int, user: str = "", ts: int | None = None, **fields: Any) -> Impression:
    at = NOON_MS + number * MINUTE_MS if ts is None else ts
    return Impression(
        **{"impression_id": f"r{number}", "user_id": user or f"u{number}", "ts": at, "items": ITEMS, "experiments": LABELS, **fields}
    )


def clicked(number: int, item: str = "b", action: str = "click", **fields: Any) -> Feedback:
    return Feedback(
        **{
            "user_id": f"u{number}",
            "ts": NOON_MS + number * MINUTE_MS + 9,
            "item_id": item,
            "action": action,
            "value": None,
            "impression_id": f"r{number}",
            **fields,
        }
    )


def texts(events: Sequence[Event], settings: dict[str, Any] | None = None, *, is_whole: bool = False, record_ms: int = -1) -> list[str]:
    rules = SampleRules(["click", "purchase"], settings or {}, is_whole)
    return [str(warning) for warning in sample_warnings({"shop": [SampledEvent(event, record_ms) for event in events]}, rules)]


def many(count: int, **fields: Any) -> list[Impression]:
    """Lists of users with two lists each."""
    return [shown(number, f"u{number // 2}", **fields) for number in range(count)]


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_sound_sample_has_no_warning(is_whole: bool) -> None:
    assert texts([*many(200), *[clicked(number, user_id=f"u{number // 2}") for number in range(200)]], is_whole=is_whole) == []
    assert texts([]) == []


def test_lists_and_feedback_in_different_units_name_those_in_seconds() -> None:
    (mixed,) = texts([shown(0), clicked(0, ts=NOON_MS // 1_000)])
    assert mixed.startswith(
        "The times of the feedback of shop are 1970-01-21 12:19:26 UTC or before, those of the lists 2026-03-01 12:00:00"
    )
    assert mixed.endswith("Multiply ts by 1,000 in the reader: it must be in milliseconds, not seconds.")
    both = texts([shown(0, ts=NOON_MS // 1_000), clicked(0, ts=NOON_MS // 1_000)])
    assert [warning.split(" are ")[0] for warning in both] == ["The times of the lists of shop", "The times of the feedback of shop"]


@pytest.mark.parametrize(
    ("event_ms", "record_ms", "told"),
    [
        (NOON_MS, NOON_MS + 3_600_000, []),
        (NOON_MS, NOON_MS + 5 * 3_600_000, [BEHIND]),
        (NOON_MS, NOON_MS - 2 * 3_600_000, ["100 % of the events of shop are dated too long after their records, 1 of 1"]),
        (NOON_MS, -1, []),
    ],
)  # fmt: skip
def test_times_far_from_those_of_records_are_named(event_ms: int, record_ms: int, told: list[str]) -> None:
    warnings = texts([shown(0, ts=event_ms)], {"future_ms": 3_600_000}, record_ms=record_ms)
    assert [warning[: len(start)] for warning, start in zip(warnings, told, strict=True)] == told


@pytest.mark.parametrize(
    ("record_ms", "stamps"), [(NOON_MS // 1_000, "timestamps up to 1970-01-21 12:19:26 UTC"), (0, "no timestamps above 0")]
)
def test_record_timestamps_in_seconds_or_of_zero_are_named(record_ms: int, stamps: str) -> None:
    (warning,) = texts([shown(0)], {"future_ms": 3_600_000}, record_ms=record_ms)
    assert f"Records have {stamps}: let the producer write them in milliseconds" in warning


def test_an_action_without_a_grade_has_its_share_and_the_action_that_is_meant() -> None:
    (warning,) = texts(
        [*many(20), clicked(0), clicked(1, user_id="u0"), clicked(2, action="Click", user_id="u1"), clicked(3, user_id="u1")]
    )
    assert warning.startswith("25 % of the feedback, 1 of 4, has the action Click, which has no grade (did you mean click?). Name it in")
    (only,) = texts([clicked(0, action="tap")])
    assert only.startswith("No feedback has a grade: the action of all 1 is unknown, such as tap")


@pytest.mark.parametrize(
    ("feedback", "told"),
    [
        (clicked(0, "x"), "out_of_list 1, such as click on x in list r0, which shows a, b, c. Out of list means"),
        (clicked(0, impression_id="r9"), "orphan 1, such as click on b in list r9: no list has that id. Orphans have"),
        (clicked(0, user_id="s7"), "orphan 1, such as click on b in list r0 by user s7, which is a list of user u0. Orphans have"),
        (clicked(0, user_id="s7", impression_id=None), "orphan 1, such as click on b by user s7. Orphans have"),
    ],
)  # fmt: skip
def test_feedback_that_meets_nothing_has_an_example_of_its_main_reason(feedback: Feedback, told: str) -> None:
    (warning,) = texts([shown(0), feedback], is_whole=True)
    assert warning.startswith(f"100 % of the feedback counts for no list, 1 of 1: {told}")


def test_a_part_of_the_input_misses_no_lists_that_may_be_before_it() -> None:
    early = [clicked(number, impression_id=f"before{number}", user_id="v", ts=NOON_MS + number) for number in range(30)]
    assert texts([*many(20), *early]) == []
    late = [clicked(number, impression_id=f"never{number}", user_id="v", ts=NOON_MS + 10 * MINUTE_MS + number) for number in range(10)]
    (warning,) = texts([*many(20), *late])
    assert warning.startswith("100 % of the feedback counts for no list, 10 of 10: orphan 10, such as click on b in list never0")
    assert texts([*many(20), *late[1:]]) == []
    assert texts([*many(20), *late, clicked(0)]) == [], "some meet their lists"
    of_users = [clicked(number, impression_id="another", user_id=f"u{number // 2}") for number in range(10)]
    (by_user,) = texts([*many(20), *of_users])
    assert by_user.startswith("100 % of the feedback counts for no list, 10 of 10: orphan 10, such as click on b in list another: no list")


def test_items_that_repeat_inside_lists_are_named() -> None:
    (warning,) = texts([*many(20), shown(0, items=("a", "brand", "brand"))])
    assert warning.startswith(
        "4.8 % of the lists of shop, 1 of 21, show an item twice, such as brand in list r0. Yield the ids of the items"
    )


def test_an_id_of_many_lists_is_named() -> None:
    one_id = [shown(number, f"u{number // 2}", impression_id="none", items=(f"i{number}",)) for number in range(5)]
    (warning,) = texts([*many(20), *one_id])
    assert warning.startswith("5 lists of shop have the id of another list, but other items, none, so they count for nothing")
    assert texts([*many(20), *[shown(0)] * 9]) == [], "a list that was sent again"


def test_lists_without_an_experiment_are_named_if_experiments_are_on() -> None:
    on: dict[str, Any] = {"experiments": {"enabled": True}}
    (warning,) = texts(many(10, experiments=()), on)
    assert warning.startswith(
        'None of 10 lists has an experiment, so no verdict can come. Yield "experiments": {"NAME": "VARIANT"} with each list'
    )
    assert texts(many(9, experiments=()), on) == []
    assert texts(many(10, experiments=()), {"experiments": {"enabled": False}}) == []
    assert texts(many(10, experiments=()), on | {"exposures": {}}) == [], "exposures bring them later"


def test_an_experiment_with_settings_and_without_lists_is_named_and_so_is_its_control() -> None:
    named = {"experiments": {"enabled": True, "named": {"rnaker": {}}}}
    told = "None of {} lists is in experiment rnaker, which has settings. Experiments of lists without settings: ranker."
    assert texts(many(100), named) == [told.format(100)]
    assert texts(many(3), named, is_whole=True) == [told.format(3)]
    assert texts(many(99), named) == [], "a small experiment may have none of so few"
    (control,) = texts(many(100), {"experiments": {"named": {"ranker": {"control": "old"}}}})
    assert control.startswith("None of 100 lists of experiment ranker has its control, old. Set control in experiments.named to one of")
    both = {"experiments": {"named": {"ranker": {"control": "old"}, "rnaker": {}}}}
    assert texts(many(50), both) == [control.replace("100", "50")], "rnaker may have none of so few"
    assert texts(many(49), both) == []


def test_null_where_others_have_a_variant_is_named() -> None:
    nulls = [shown(number, f"u{number // 2}", experiments=(), label_notes=("null_variant:ranker",)) for number in range(20, 24)]
    (warning,) = texts([*many(20), *nulls])
    assert warning.startswith("4 lists have null in experiment ranker where 20 others have new, so they are in none of its variants.")
    other = [shown(30, "u0", experiments=(("ranker", "old"),))]
    assert texts([*many(20), *nulls, *other]) == [], "both arms have lists: null means that the list is not in the experiment"


def test_users_with_one_list_each_are_named_if_the_lists_cover_half_an_hour() -> None:
    (warning,) = texts([shown(number) for number in range(100)])
    assert warning.startswith(
        "Each of the 100 users of this sample has exactly one list, such as u0, u1, u2. If user_id is the id of a session"
    )
    assert texts([shown(number) for number in range(99)]) == []
    assert texts([shown(number, ts=NOON_MS + number) for number in range(100)]) == [], "100 people in a second"
    assert texts([*[shown(number) for number in range(100)], shown(100, "u0")]) == []


def test_names_of_others_are_safe_to_display() -> None:
    (warning,) = texts([shown(0), clicked(0, "\x1b[2Jx")], is_whole=True)
    assert "\x1b" not in warning
