"""Elastic behavioral analytics: searches and clicks."""

from __future__ import annotations

from typing import Any

from streammetrics.events import Feedback, Impression
from streammetrics.readers import elastic
from streammetrics.readers.elastic import read
from tests.readers.reading import events_of
from tests.readers.samples import NOON

SEARCH: dict[str, Any] = {
    "@timestamp": "2026-03-01T12:00:00.000Z",
    "event": {"action": "search"},
    "data_stream": {"type": "behavioral_analytics", "dataset": "events", "namespace": "shop"},
    "session": {"id": "s1"},
    "user": {"id": "u1"},
    "search": {
        "query": "lamp",
        "search_application": "website",
        "results": {"items": [{"document": {"id": "a", "index": "products"}}, {"document": {"id": "b"}}], "total_results": 10},
    },
}
CLICK = SEARCH | {"event": {"action": "search_click"}, "document": {"id": "b", "index": "products"}}


def listed(event: dict[str, Any]) -> Impression:
    (decoded,) = events_of(read, event)
    assert isinstance(decoded, Impression)
    return decoded


def test_searches_and_clicks() -> None:
    event = listed(SEARCH)
    assert event == Impression(event.impression_id, "u1", NOON, ("a", "b"), segments=(("application", "website"),))
    assert event.impression_id.startswith("s1/2026-03-01T12:00:00.000Z/")
    assert events_of(read, CLICK) == [Feedback("u1", NOON, "b", "click")]


def test_two_searches_of_a_session_in_one_millisecond_are_two_lists() -> None:
    other = SEARCH | {"search": SEARCH["search"] | {"query": "desk"}}
    assert listed(other).impression_id != listed(SEARCH).impression_id == listed(dict(reversed(SEARCH.items()))).impression_id


def test_names_may_have_dots() -> None:
    search = SEARCH["search"]
    dotted = {"@timestamp": SEARCH["@timestamp"], "event.action": "search", "session.id": "s1", "user.id": "u1"}
    dotted |= {"search.query": "lamp", "search.search_application": "website"}
    dotted |= {"search.results.items": [{"document.id": "a"}, *search["results"]["items"][1:]]}
    assert events_of(read, dotted) == events_of(read, SEARCH)


def test_documents_may_be_pages_and_the_user_a_session() -> None:
    pages = [{"page": {"url": {"original": "https://x.test/1"}}}, {"document": {"id": 7}}]
    event = listed(SEARCH | {"user": None, "search": {"results": {"items": pages}}})
    assert (event.user_id, event.items, event.segments) == ("s1", ("https://x.test/1", "7"), ())
    page = {"event": {"action": "search_click"}, "page": {"url": {"original": "https://x.test/1"}}}
    assert events_of(read, SEARCH | page) == [Feedback("u1", NOON, "https://x.test/1", "click")]


def test_page_views_and_searches_without_results_are_ignored() -> None:
    assert events_of(read, SEARCH | {"search": {"query": "lamp", "results": {"total_results": 0}}}) == ["ignored"]
    assert events_of(read, SEARCH | {"event": {"action": "page_view"}}) == ["ignored"]


def test_what_lacks_a_field_is_refused() -> None:
    assert events_of(read, SEARCH | {"event": {"action": "search_click"}}) == ["missing_field"]
    assert events_of(read, SEARCH | {"session": None}) == events_of(read, SEARCH | {"event": {"action": "hover"}}) == ["reader"]


def test_search_hits_hold_events() -> None:
    hit = {"_index": "i", "_source": SEARCH}
    assert events_of(lambda record: elastic.read(record.of(record.json()["_source"])), hit) == events_of(read, SEARCH)
