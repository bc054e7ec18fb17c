"""Segment: lists, clicks and orders of the ecommerce calls."""

from __future__ import annotations

from typing import Any

from streammetrics.events import Feedback, Impression
from streammetrics.readers.segment import read
from tests.readers.reading import events_of, parts_of
from tests.readers.samples import NOON

LIST: dict[str, Any] = {
    "type": "track",
    "event": "Product List Viewed",
    "messageId": "m1",
    "anonymousId": "an1",
    "userId": None,
    "timestamp": "2026-03-01T12:00:00.000Z",
    "properties": {
        "list_id": "deals",
        "category": "Lamps",
        "products": [{"product_id": "b", "position": 2, "price": 9.5}, {"product_id": "a", "position": 1}],
    },
    "context": {"library": {"name": "analytics.js"}},
}


def test_lists_and_clicks() -> None:
    segments = (("category", "Lamps"), ("list", "deals"))
    assert events_of(read, LIST) == [Impression("m1", "an1", NOON, ("a", "b"), segments=segments)]
    click = LIST | {"event": "Product Clicked", "messageId": "m2", "properties": {"product_id": "a", "position": 1}}
    assert events_of(read, click) == [Feedback("an1", NOON, "a", "click")]


def test_without_positions_the_order_counts_and_absent_texts_are_no_values() -> None:
    bare = {"products": [{"sku": 7}, {"product_id": "b"}], "list_id": "", "category": None}
    sent = LIST | {"properties": bare, "anonymousId": None, "userId": 42}
    assert events_of(read, sent) == [Impression("m1", "42", NOON, ("7", "b"))]
    assert events_of(read, LIST | {"properties": {"products": []}}) == [Impression("m1", "an1", NOON, ())]


def test_an_order_is_one_purchase_for_each_product() -> None:
    products = [{"product_id": "a", "price": "9.90"}, {"product_id": "b"}]
    order = LIST | {"event": "Order Completed", "properties": {"products": products}}
    assert events_of(read, order) == [Feedback("an1", NOON, "a", "purchase", 9.9), Feedback("an1", NOON, "b", "purchase")]


def test_other_calls_are_ignored_by_name() -> None:
    assert [part.detail for part in parts_of(read, {"type": "page", "anonymousId": "an1"})] == ["page"]  # type: ignore[union-attr]
    assert [part.detail for part in parts_of(read, {"type": "track", "event": "Signed Up"})] == ["Signed Up"]  # type: ignore[union-attr]


def test_a_list_without_products_or_user_is_refused() -> None:
    (refused,) = parts_of(read, LIST | {"properties": None})
    assert "KeyError: 'products'" in refused.detail  # type: ignore[union-attr]
    assert events_of(read, LIST | {"anonymousId": ""}) == ["missing_field"]
    assert events_of(read, {"properties": {}}) == ["reader"]
