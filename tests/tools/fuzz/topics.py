"""The forms of records: a topic for each reader, with endless records of it, most of them damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from streammetrics.config import Settings
from streammetrics.events.record import SentValue
from streammetrics.wiring.decoders import shipped_readers
from tests.readers.samples import ISO, NOON, RECORDS
from tests.tools.fuzz.mutations import damaged_record, with_odd_values

USERS: Final = 200
STEP_MS: Final = 20
Event = dict[str, Any]
_TIME = re.compile(r"1772366400(000)?")
"""The time of samples, in milliseconds or seconds."""

ROWS: Final = """
def read(record):
    row = record.row()
    if isinstance(row["ts"], str):
        row = {**row, "ts": int(row["ts"]), "value": float(row["value"]) if "value" in row else None}
    if row.get("type") == "impression":
        yield {**row, "items": row["items"] if isinstance(row["items"], list) else row["items"].split("|"), "experiments": {"r": "n"}}
    else:
        yield row
"""
"""A reader of rows with the columns of native events."""
KEYED: Final = """
from streammetrics.readers import Record, ignore, times

def read(record: Record):
    event = record.json()
    if record.headers.get("kind") == b"page":
        yield ignore("page")
        return
    who = {"user_id": record.key.decode(), "ts": times.text(event["at"])}
    if "items" in event:
        items = [{"id": item, "position": place} for place, item in enumerate(event["items"])]
        yield {"type": "impression", "impression_id": event["list"], "items": items, **who}
    else:
        for item in event["item_ids"]:
            yield {"type": "feedback", "item_id": item, "action": "click", "value": event["value"], **who}
"""
"""A reader that takes the user from the key, and makes several events of one record."""


class Topics:
    """A topic for each form of a record, with its reader, and how its records are made."""

    def __init__(self, folder: Path) -> None:
        (folder / "rows.py").write_text(ROWS)
        (folder / "keyed.py").write_text(KEYED)
        names = [name for name in shipped_readers() if name in RECORDS]
        self.own: dict[str, tuple[str, Callable[[Event], Any]]] = {
            "native": ("native", native),
            "rows": (f"{folder}/rows.py:read", native),
            "keyed": (f"{folder}/keyed.py:read", keyed),
            **{name: (name, partial(sampled, name)) for name in names},
            "ubi": ("ubi", ubi),
            "mind": ("mind", mind_line),
            "connect": ("connect", lambda event: {"schema": None, "payload": event}),
            "debezium": ("debezium", lambda event: {"before": None, "after": event, "op": "c"}),
            "cloudevents": ("cloudevents", lambda event: {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": event}),
        }
        assert self.own.keys() >= set(shipped_readers()), "every reader that ships is tried"

    def settings(self, random: Random) -> Settings:
        """Return the settings of all topics. What concerns all of them is drawn."""
        drawn = {"numeric_ids": random.random() < 0.5, "positions": random.choice(("order", "absolute", "absolute_from_0"))}
        return Settings.model_validate(
            {
                "kafka": {"topics": list(self.own)},
                "events": {"reader": {name: reader for name, (reader, _) in self.own.items()}, **drawn},
                "exposures": {"enabled": True},
                "join": {"gap_ms": 60_000, "attribution_ms": 60_000, "idle_ms": 1},
                "worker": {"commit_ms": 0, "commit_behind_ms": 0},
            }
        )

    def records(self, name: str, random: Random) -> Iterator[bytes | None]:
        """Yield records of a topic in order of time, most of them with odd values or damaged bytes."""
        last = b"{}"
        for event in events(random):
            record = self.own[name][1](event)
            is_odd = not isinstance(record, bytes) and random.random() < 0.7
            value = record if isinstance(record, bytes) else json_bytes(with_odd_values(random, record) if is_odd else record)
            if name == "keyed":
                kind = random.choice((None, b"page", b"event"))
                value = SentValue.of(value, {"kind": kind}, key=random.choice((None, b"\xff", *[event["user_id"].encode()] * 8)))
            yield value if is_odd and random.random() < 0.8 else damaged_record(random, value, last)
            last = bytes(value)


def json_bytes(record: Any) -> bytes:
    return json.dumps(record).encode()


def native(event: Event) -> Event | list[Event]:
    """Return an event in one of its forms: now and then with items as objects, labels, as an exposure, or in an array."""
    kind = event["ts"] // STEP_MS % 6
    if kind == 0:
        return [event, event | {"user_id": None}]
    if kind == 1:
        return {"type": "exposure", "user_id": event["user_id"], "ts": event["ts"], "experiment": "ranker", "variant": "new"}
    if kind in (2, 3) and event["type"] == "impression":
        items = [{"id": item, "position": 2 * at, "team": "ab"[at % 2]} for at, item in enumerate(event["items"])]
        return event | {"items": items, "fragment": kind == 2, "experiments": {"ranker": "new"}, "segments": {"page": "home"}}
    return event


def ubi(event: Event) -> Event | list[Event]:
    """Return an event or a query of UBI, now and then in an array or a search hit."""
    is_list, kind = event["type"] == "impression", event["ts"] // STEP_MS % 6
    shared = {"client_id": event["user_id"], "query_id": event["impression_id"], "timestamp": event["ts"]}
    item = event["items"][0] if is_list else event["item_id"]
    attributes = {"object": {"object_id": item}, "position": {"ordinal": 1}, "seconds": 2.5}
    fields = shared | {"action_name": "impression" if is_list else "click", "event_attributes": attributes}
    if kind == 0:
        return [fields, fields | {"action_name": "search", "event_attributes": None}]
    if kind == 1:
        return {"_index": "ubi_events", "_id": "1", "_source": fields}
    if kind < 4 and is_list:
        return shared | {"user_query": "chair", "query_response_hit_ids": event["items"]}
    return fields


def mind_line(event: Event) -> bytes:
    time = datetime.fromtimestamp(event["ts"] // 1_000, UTC).strftime("%m/%d/%Y %I:%M:%S %p")
    items = event.get("items") or [event["item_id"]]
    text = " ".join(f"{item}-{at % 2}" for at, item in enumerate(items))
    return "\t".join((event["impression_id"], event["user_id"], time, "", text)).encode()


def keyed(event: Event) -> Event:
    """Return an event without its user, which is in the key of the record."""
    shared = {"at": iso(event["ts"]).replace("Z", " UTC"), "list": event["impression_id"]}
    if event["type"] == "impression":
        return shared | {"items": event["items"]}
    return shared | {"item_ids": [event["item_id"], "i0"], "value": event["value"]}


def sampled(name: str, event: Event) -> Any:
    """Return an ordinary record of a reader, with the user and the time of an event. Records of lines are bytes."""
    ts, samples = event["ts"], RECORDS[name]
    sample = samples[ts // STEP_MS % len(samples)]
    if isinstance(sample, bytes):
        return sample
    text = json.dumps(sample).replace('"u"', f'"{event["user_id"]}"').replace(ISO, iso(ts))
    return json.loads(_TIME.sub(lambda match: str(ts if match[1] else ts // 1_000), text))


def iso(ts: int) -> str:
    return datetime.fromtimestamp(ts / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def events(random: Random) -> Iterator[Event]:
    """Yield lists and feedback in order of time, without end."""
    for number in count():
        user, ts = f"u{random.randrange(USERS)}", NOON + number * STEP_MS
        shared = {"impression_id": f"r{user}{ts // 5_000}", "user_id": user, "ts": ts}
        if random.random() < 0.5:
            yield {"type": "impression", **shared, "items": [f"i{at}" for at in range(3)]}
        else:
            yield {"type": "feedback", **shared, "item_id": f"i{random.randrange(4)}", "action": "click", "value": 1.5}
