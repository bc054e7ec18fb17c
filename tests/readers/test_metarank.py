"""Metarank: rankings and interactions."""

from __future__ import annotations

from typing import Any

from streammetrics.events import Feedback, Impression
from streammetrics.readers.metarank import read
from tests.readers.reading import events_of
from tests.readers.samples import NOON

RANKING: dict[str, Any] = {
    "event": "ranking",
    "id": "r1",
    "timestamp": str(NOON),
    "user": "u1",
    "session": "s1",
    "fields": [{"name": "query", "value": "cat"}],
    "items": [{"id": "a", "relevancy": 2.0, "fields": []}, {"id": "b"}],
}
CLICK = {
    "event": "interaction",
    "id": "i1",
    "ranking": "r1",
    "timestamp": NOON,
    "user": None,
    "session": "s1",
    "type": "click",
    "item": "b",
}


def test_rankings_and_interactions() -> None:
    assert events_of(read, RANKING) == [Impression("r1", "u1", NOON, ("a", "b"))]
    assert events_of(read, CLICK) == [Feedback("s1", NOON, "b", "click", None, "r1")]
    assert events_of(read, CLICK | {"ranking": None, "timestamp": "2026-03-01T12:00:00Z"}) == [Feedback("s1", NOON, "b", "click")]


def test_metadata_is_ignored_and_other_events_are_refused() -> None:
    assert events_of(read, {"event": "item", "id": "x", "item": "a"}) == ["ignored"]
    assert events_of(read, {"event": "feedback"}) == ["reader"]
    assert events_of(read, RANKING | {"timestamp": "soon"}) == ["bad_ts"]
