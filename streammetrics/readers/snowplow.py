"""Snowplow: enriched events with its ecommerce schemas, as lines of tab-separated values or as the JSON of an Analytics SDK.

https://docs.snowplow.io/docs/fundamentals/canonical-event/

Needs `event_name`, `event_id`, a time, a user, the ecommerce action, and the products of lists in the contexts. The user is the
domain_userid of a browser, or the userId of the session context that mobile trackers send. Times have no zone and are UTC.
"""

import json
from collections.abc import Iterator
from typing import Any

from streammetrics.readers import Record, first, ignore, times

ACTION = "unstruct_event_com_snowplowanalytics_snowplow_ecommerce_snowplow_ecommerce_action_1"
PRODUCTS = "contexts_com_snowplowanalytics_snowplow_ecommerce_product_1"
SESSION = "contexts_com_snowplowanalytics_snowplow_client_session_1"
ACTIONS = {"list_click": "click", "add_to_cart": "add_to_cart", "transaction": "purchase"}
LINE_COLUMNS = 131
COLUMNS = {
    **{"collector_tstamp": 3, "event": 5, "event_id": 6, "user_id": 12, "domain_userid": 15, "network_userid": 17, "contexts": 52},
    **{"unstruct_event": 58, "derived_contexts": 122, "derived_tstamp": 124, "event_name": 126},
}
"""The columns of a line that are used, counted from 0."""


def read(record: Record) -> Iterator[Any]:
    event = record.json() if record.value.lstrip().startswith(b"{") else from_line(record.value.decode())
    action = event.get(ACTION) or {}
    kind = action.get("type")
    if event.get("event_name") != "snowplow_ecommerce_action" or (kind != "list_view" and kind not in ACTIONS):
        yield ignore(kind or event["event"])
        return
    user = first(event, "domain_userid") or first((event.get(SESSION) or [{}])[0], "userId") or first(event, "network_userid", "user_id")
    shared = {"user_id": user, "ts": times.text(first(event, "derived_tstamp", "collector_tstamp"), "Z")}
    products = event[PRODUCTS]
    if kind == "list_view":
        items = [{"id": product.get("id"), "position": product.get("position")} for product in products]
        segments = {"list": first(action, "name")}
        yield {"type": "impression", "impression_id": event["event_id"], "items": items, "segments": segments, **shared}
        return
    for product in products:
        yield {"type": "feedback", "item_id": product.get("id"), "action": ACTIONS[kind], "value": product.get("price"), **shared}


def from_line(line: str) -> dict[str, Any]:
    """Return the fields of a line under the names of the Analytics SDKs."""
    cells = line.rstrip("\r\n").split("\t")
    if len(cells) != LINE_COLUMNS:
        raise ValueError(f"{len(cells)} columns separated by tabs; an enriched event has {LINE_COLUMNS}")
    event: dict[str, Any] = {name: cells[at] for name, at in COLUMNS.items()}
    for name in ("contexts", "derived_contexts"):
        for entity in json.loads(event[name])["data"] if event[name] else ():
            event.setdefault(field("contexts", entity), []).append(entity["data"])
    if event["unstruct_event"]:
        sent = json.loads(event["unstruct_event"])["data"]
        event[field("unstruct_event", sent)] = sent["data"]
    return event


def field(prefix: str, entity: dict[str, Any]) -> str:
    """Return the name of a field: the vendor, the name and the first number of the version of a schema."""
    vendor, name, _, version = entity["schema"].removeprefix("iglu:").split("/")
    return f"{prefix}_{vendor.replace('.', '_')}_{name}_{version.partition('-')[0]}"
