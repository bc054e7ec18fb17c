"""Google Analytics 4: lists and item actions of the BigQuery export."""

from __future__ import annotations

from typing import Any

from streammetrics.events import Feedback, Impression
from streammetrics.readers.ga4 import read
from tests.readers.reading import events_of
from tests.readers.samples import NOON

LIST: dict[str, Any] = {
    "event_date": "20260301",
    "event_timestamp": "1772366400000123",
    "event_name": "view_item_list",
    "user_pseudo_id": "11.22",
    "device": {"category": "mobile"},
    "event_params": [{"key": "ga_session_id", "value": {"int_value": "1"}}],
    "items": [{"item_id": "b", "item_list_index": "2"}, {"item_id": "a", "item_list_index": "1"}],
}
NAME = "11.22/1772366400000123/view_item_list"


def shown(row: dict[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    return [(event.impression_id, event.items) for event in events_of(read, row) if isinstance(event, Impression)]


def test_lists_and_selections() -> None:
    assert events_of(read, LIST) == [Impression(NAME, "11.22", NOON, ("a", "b"), segments=(("device", "mobile"),))]
    click = LIST | {"event_name": "select_item", "items": [{"item_id": "b", "price": 5.5}]}
    assert events_of(read, click) == [Feedback("11.22", NOON, "b", "click", 5.5)]


def test_lists_of_one_request_share_their_time_and_are_two_lists() -> None:
    first, second = (LIST | {"batch_event_index": place, "items": [{"item_id": item}]} for place, item in enumerate("ax", 1))
    assert [*shown(first), *shown(second)] == [(f"{NAME}/1", ("a",)), (f"{NAME}/2", ("x",))]


def test_a_row_of_the_intraday_table_and_of_the_daily_table_are_one_list() -> None:
    assert shown(LIST | {"batch_event_index": 1, "batch_ordering_id": 1}) == shown(LIST | {"batch_event_index": 1, "batch_ordering_id": 2})


def test_one_event_may_show_several_lists() -> None:
    items = [{"item_id": item, "item_list_id": name, "item_list_index": place} for name, place, item in (("n", 1, "a"), ("b", 1, "x"))]
    assert shown(LIST | {"items": items}) == [(f"{NAME}/n", ("a",)), (f"{NAME}/b", ("x",))]


def test_without_consent_the_user_is_the_user_id() -> None:
    (event,) = events_of(read, LIST | {"user_pseudo_id": None, "user_id": "m7"})
    assert isinstance(event, Impression)
    assert (event.user_id, event.impression_id) == ("m7", "m7/1772366400000123/view_item_list")
    assert events_of(read, LIST | {"user_pseudo_id": None}) == ["missing_field"]


def test_texts_that_are_not_set_are_absent() -> None:
    unset = [{"item_id": "(not set)", "item_name": "Lamp", "item_list_index": "(not set)"}]
    (event,) = events_of(read, LIST | {"items": unset, "device": None})
    assert isinstance(event, Impression)
    assert (event.items, event.segments) == (("Lamp",), ())


def test_other_events_are_ignored_and_a_wrong_time_is_refused() -> None:
    assert events_of(read, LIST | {"event_name": "page_view"}) == events_of(read, LIST | {"items": None}) == ["ignored"]
    assert events_of(read, LIST | {"event_timestamp": "yesterday"}) == ["reader"]
