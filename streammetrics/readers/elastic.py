"""Elastic behavioral analytics: search and search_click events. Page views are ignored.

https://www.elastic.co/docs/solutions/search/behavioral-analytics

Needs `@timestamp`, `event.action`, `session.id`, and `search.results.items` of lists. Names may be nested or have dots. A search has no
id, so one is made of the session, the time and what was searched. A click counts for the user's latest list with the document. For search
hits of the events' index: `yield from elastic.read(record.of(record.json()["_source"]))`.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from streammetrics.readers import Record, first, ignore

DOCUMENT = ("document.id", "page.url.original")


def flat(fields: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return the fields under names with dots: `{"user": {"id": 7}}` and `{"user.id": 7}` become the same."""
    columns: dict[str, Any] = {}
    for name, value in fields.items():
        columns |= flat(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value}
    return columns


def read(record: Record) -> Iterator[Any]:
    event = flat(record.json())
    action, hits, at = event["event.action"], event.get("search.results.items"), event.get("@timestamp")
    shared = {"user_id": first(event, "user.id", "session.id"), "ts": at}
    if action == "search" and hits is not None:
        items = [first(flat(hit), *DOCUMENT) for hit in hits]
        # Two searches of a session may have one time.
        searched = sha256(repr((event.get("search.query"), items)).encode()).hexdigest()[:12]
        segments = {"application": first(event, "search.search_application")}
        identity = f"{event['session.id']}/{at}/{searched}"
        yield {"type": "impression", "impression_id": identity, "items": items, "segments": segments, **shared}
    elif action == "search_click":
        yield {"type": "feedback", "item_id": first(event, *DOCUMENT), "action": "click", **shared}
    elif action in ("search", "page_view", "pageview"):
        yield ignore("search without its results" if action == "search" else "page view")
    else:
        raise ValueError(f"event.action is {action}, not search, search_click or page_view")
