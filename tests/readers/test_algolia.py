"""Algolia Insights: views, clicks and conversions."""

from __future__ import annotations

from typing import Any

from streammetrics.events import Feedback, Impression
from streammetrics.readers.algolia import read
from tests.readers.reading import events_of
from tests.readers.samples import NOON

VIEW: dict[str, Any] = {
    "eventType": "view",
    "eventName": "Hits Viewed",
    "index": "products",
    "userToken": "u1",
    "queryID": "q1",
    "timestamp": NOON,
    "objectIDs": ["a", "b", "c"],
}


def test_views_clicks_and_conversions() -> None:
    assert events_of(read, VIEW) == [Impression("q1", "u1", NOON, ("a", "b", "c"), segments=(("index", "products"),))]
    click = VIEW | {"eventType": "click", "objectIDs": ["b", "c"], "positions": [2, 3]}
    assert events_of(read, click) == [Feedback("u1", NOON, item, "click", None, "q1") for item in "bc"]
    bought = VIEW | {"eventType": "conversion", "eventSubtype": "purchase", "queryID": None, "objectIDs": [7]}
    assert events_of(read, bought) == [Feedback("u1", NOON, "7", "purchase")]
    added = VIEW | {"eventType": "conversion", "eventSubtype": "addToCart", "objectIDs": ["a"]}
    assert events_of(read, added) == [Feedback("u1", NOON, "a", "add_to_cart", None, "q1")]


def test_events_without_objects_and_views_outside_a_search_are_ignored() -> None:
    assert events_of(read, VIEW | {"eventType": "click", "objectIDs": None, "filters": ["brand:x"]}) == ["ignored"]
    assert events_of(read, VIEW | {"queryID": ""}) == ["ignored"]
    assert events_of(read, VIEW | {"eventType": "hover"}) == ["reader"]
