"""Google Analytics 4: rows of the BigQuery export, as JSON or Parquet. One row is one event.

https://support.google.com/analytics/answer/7029846

Needs `user_pseudo_id`, or `user_id` where there is no consent; `event_timestamp`, `event_name` and `items`. Events of one request share
their time, so a list is named by its place in the request, too. One event may show several lists: each `item_list_id` is a list. A click
counts for the user's latest list with the item.
"""

from collections.abc import Iterator
from typing import Any

from streammetrics.readers import Record, first, ignore, times

LISTS = ("view_item_list", "view_search_results")
ACTIONS = {"select_item": "click", "add_to_cart": "add_to_cart", "purchase": "purchase"}


def given(fields: dict[str, Any], *names: str) -> Any:
    """Return the first of these fields that has a value. GA4 writes "(not set)" for an absent text."""
    return first({name: value for name, value in fields.items() if value != "(not set)"}, *names)


def read(record: Record) -> Iterator[Any]:
    row = record.row()
    name, items = row["event_name"], row.get("items") or []
    if not items or (name not in LISTS and name not in ACTIONS):
        yield ignore(name)
        return
    user = given(row, "user_pseudo_id", "user_id")
    shared = {"user_id": user, "ts": times.micros(row["event_timestamp"])}
    if name in ACTIONS:
        for item in items:
            reaction = {"type": "feedback", "item_id": given(item, "item_id", "item_name"), "action": ACTIONS[name]}
            yield {**reaction, "value": given(item, "price"), **shared}
        return
    lists: dict[Any, list[Any]] = {}
    for item in items:
        place = given(item, "item_list_index")
        lists.setdefault(given(item, "item_list_id", "item_list_name"), []).append(
            {"id": given(item, "item_id", "item_name"), "position": None if place is None else int(place)}
        )
    segments = {"device": given(row.get("device") or {}, "category")}
    for list_id, entries in lists.items():
        parts = (user, row["event_timestamp"], name, first(row, "batch_event_index"), list_id)
        identity = "/".join(str(part) for part in parts if part is not None)
        yield {"type": "impression", "impression_id": identity, "items": entries, "segments": segments, **shared}
