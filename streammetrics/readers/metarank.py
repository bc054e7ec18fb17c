"""Metarank: ranking and interaction events. Metadata of items and users is ignored.

https://docs.metarank.ai/reference/event-schema

Needs `user` or `session`, `timestamp`, and `id` of rankings. An interaction names its list as `ranking`.
"""

from collections.abc import Iterator
from typing import Any

from streammetrics.readers import Record, first, ignore


def read(record: Record) -> Iterator[Any]:
    event = record.json()
    kind, at = event["event"], first(event, "timestamp")
    # Times are epoch milliseconds, often as text.
    shared = {"user_id": first(event, "user", "session"), "ts": int(at) if isinstance(at, str) and at.isdecimal() else at}
    if kind == "ranking":
        yield {"type": "impression", "impression_id": event["id"], "items": [item["id"] for item in event["items"]], **shared}
    elif kind == "interaction":
        reaction = {"type": "feedback", "impression_id": first(event, "ranking"), "item_id": event["item"], "action": event["type"]}
        yield {**reaction, **shared}
    elif kind in ("item", "user"):
        yield ignore(f"metadata of {kind}s")
    else:
        raise ValueError(f"event is {kind}, not ranking, interaction, item or user")
