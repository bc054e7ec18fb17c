"""Algolia Insights: view, click and conversion events. Of a view, only events of a search (with `queryID`) are lists.

https://www.algolia.com/doc/rest-api/insights/

Needs `eventType`, `objectIDs`, `timestamp`, and `userToken` or `authenticatedUserToken`. InstantSearch sends a view in parts of at most 20
objects with one queryID and without positions. Only the first part counts as the list; the others are counted as duplicates.
"""

from collections.abc import Iterator
from typing import Any

from streammetrics.readers import Record, first, ignore

ACTIONS = {"addToCart": "add_to_cart", "conversion": "purchase"}


def read(record: Record) -> Iterator[Any]:
    event = record.json()
    kind, search, objects = event["eventType"], first(event, "queryID"), event.get("objectIDs")
    shared = {"impression_id": search, "user_id": first(event, "userToken", "authenticatedUserToken"), "ts": first(event, "timestamp")}
    if kind not in ("view", "click", "conversion"):
        raise ValueError(f"eventType is {kind}, not view, click or conversion")
    if objects is None:
        yield ignore(f"{kind} without objects")
    elif kind != "view":
        action = first(event, "eventSubtype", "eventType")
        for item in objects:
            yield {"type": "feedback", "item_id": item, "action": ACTIONS.get(action, action), **shared}
    elif search is None:
        yield ignore("view outside a search")
    else:
        yield {"type": "impression", "items": objects, "segments": {"index": first(event, "index")}, **shared}
