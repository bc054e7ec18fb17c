"""Each optional path of a mapping is noted in each record: with a value, or without one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streammetrics.events import EventLimits, topic_decoder
from streammetrics.events.mappings.rules import parse_mappings
from streammetrics.events.mappings.watch import LOOKS_MAX, watched_paths
from streammetrics.events.model import PathsFound, WatchedPath

LIST: dict[str, Any] = {"kind": "impression", "when": {"event": "shown"}, "user_id": "user", "ts": "at", "impression_id": "id"} | {
    "items": "skus",
    "experiments": {"ranker": "ab.ranker"},
    "segments": {"page": "page"},
}
CLICK: dict[str, Any] = {"kind": "feedback", "when": {"event": "clicked"}, "user_id": "user", "ts": "at", "item_id": "sku"} | {
    "action": {"value": "click"},
    "value": "seconds",
    "impression_id": "id",
}
SHOWN: dict[str, Any] = {"event": "shown", "user": "u", "at": 5, "id": "r", "skus": ["a", "b"], "ab": {"ranker": "new"}, "page": "home"}
CLICKED: dict[str, Any] = {"event": "clicked", "user": "u", "at": 5, "sku": "a", "seconds": 2, "id": "r"}


def notes(tables: list[dict[str, Any]], *records: dict[str, Any]) -> list[tuple[list[str], list[tuple[str, str]]]]:
    decode = topic_decoder("t", "native", parse_mappings(tables), EventLimits(), watched=[])
    found = [each for record in records for each in decode(json.dumps(record).encode())]
    return [
        ([path.field for path in each.found], [(path.field, near) for path, near in each.absent])
        for each in found
        if isinstance(each, PathsFound)
    ]


@pytest.mark.parametrize("extra", [{}, {"absent": ["-"]}, {"impression_id": "{id}"}], ids=["typed", "struct", "composed"])
def test_a_record_with_all_paths(extra: dict[str, Any]) -> None:
    assert notes([LIST | extra, CLICK], SHOWN, CLICKED) == [
        (["experiments.ranker", "segments.page"], []),
        (["impression_id", "value"], []),
    ]


def test_a_misspelt_path_has_the_nearest_name() -> None:
    misspelt = LIST | {"experiments": {"ranker": "abs.ranker"}}
    assert notes([misspelt, CLICK], SHOWN) == [(["segments.page"], [("experiments.ranker", "ab.ranker")])]
    assert notes([LIST, CLICK | {"value": "second"}], CLICKED) == [(["impression_id"], [("value", "seconds")])]


def test_null_and_empty_values_are_absent() -> None:
    assert notes([LIST, CLICK], SHOWN | {"ab": {"ranker": None}, "page": ""}) == [([], [("experiments.ranker", ""), ("segments.page", "")])]


def test_a_label_that_was_dropped_was_there() -> None:
    assert notes([LIST, CLICK], SHOWN | {"page": "x" * 200}) == [(["experiments.ranker", "segments.page"], [])]


def test_a_variant_that_was_read_as_text_hides_no_missing_label() -> None:
    assert notes([LIST, CLICK], SHOWN | {"ab": {"ranker": 2}, "page": None}) == [(["experiments.ranker"], [("segments.page", "")])]


ORDER: dict[str, Any] = {"type": "track", "event": "Order Completed", "anonymousId": "u", "timestamp": 5} | {
    "properties": {"products": [{"product_id": "a", "prize": 3}]},
}
VIEWED: dict[str, Any] = {"type": "track", "event": "Product List Viewed", "anonymousId": "u", "timestamp": 5, "messageId": "m"} | {
    "properties": {"products": [{"product_id": "a"}], "list_id": "l"},
}


def test_shipped_mappings_are_watched_but_not_for_segments_that_nobody_uses() -> None:
    decode = topic_decoder("t", "segment", (), EventLimits(), watched=["category"])
    found = [each for record in (ORDER, VIEWED) for each in decode(json.dumps(record).encode()) if isinstance(each, PathsFound)]
    assert found == [
        PathsFound("orders", (), ((WatchedPath("orders", "item_value", "price", "segment"), ""),)),
        PathsFound("product lists", (), ((WatchedPath("product lists", "segments.category", "properties.category", "segment"), ""),)),
    ]


def test_a_shipped_format_is_watched_as_the_kind_of_a_mapping_too() -> None:
    decode = topic_decoder("t", "native", parse_mappings([{"kind": "segment"}]), EventLimits(), watched=[])
    assert [each.mapping for each in decode(json.dumps(ORDER).encode()) if isinstance(each, PathsFound)] == ["orders"]


def test_several_items_of_one_record_have_one_note() -> None:
    order = CLICK | {"items": "lines", "item_id": "sku", "item_value": "price"}
    lines = [{"sku": "a"}, {"sku": "b", "price": 3}]
    assert notes([order], CLICKED | {"lines": lines}) == [(["impression_id", "item_value"], [])]


def test_constants_and_ignored_records_are_not_watched() -> None:
    constant = LIST | {"experiments": {"ranker": ["ab.ranker", {"value": "none"}]}, "segments": {}}
    assert watched_paths(parse_mappings([constant])[0]) == ()
    assert notes([constant, {"kind": "ignore"}], SHOWN, {"event": "page"}) == []


def test_refused_records_have_no_note() -> None:
    assert notes([LIST], SHOWN | {"user": None}) == []


def test_the_nearest_name_is_looked_for_in_the_first_records_only() -> None:
    misspelt = LIST | {"segments": {}, "experiments": {"ranker": "abs.ranker"}}
    bare = SHOWN | {"ab": {}}
    assert notes([misspelt], *[bare] * LOOKS_MAX, SHOWN)[-1] == ([], [("experiments.ranker", "")])
