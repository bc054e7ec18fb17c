"""Kafka Connect: JSON with schemas. Other envelopes that need one line are here, too, as the page shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streammetrics.events import Feedback, Impression
from streammetrics.readers import Record, connect, segment
from streammetrics.readers.connect import read
from tests.readers.reading import events_of
from tests.readers.samples import RECORDS

EVENT = {"type": "feedback", "user_id": "u7", "ts": 5, "item_id": 'ü"\\', "action": "click"}
CLICK = Feedback("u7", 5, 'ü"\\', "click")


@pytest.mark.parametrize("payload", [EVENT, json.dumps(EVENT)])
def test_the_payload_is_an_event(payload: object) -> None:
    assert events_of(read, {"schema": {"type": "struct"}, "payload": payload}) == [CLICK]


@pytest.mark.parametrize("record", [EVENT, {"payload": None}, {"payload": 7}, {"payload": "{"}, [1]])
def test_what_holds_no_event_is_refused(record: object) -> None:
    assert events_of(read, record) == ["reader"]


def test_a_wrong_event_has_the_reason_of_native_events() -> None:
    assert events_of(read, {"payload": {**EVENT, "type": "other"}}) == ["bad_type"]
    assert events_of(read, b"") == ["empty"]


def test_another_reader_reads_the_payload() -> None:
    (event,) = events_of(lambda record: segment.read(record.of(connect.payload(record))), {"payload": RECORDS["segment"][0]})
    assert isinstance(event, Impression)


def hits(record: Record) -> Any:
    yield record.json()["_source"]


def kcat(record: Record) -> Any:
    yield json.loads(record.json()["payload"])


def batch(record: Record) -> Any:
    yield from record.json()["batch"]


@pytest.mark.parametrize(
    ("reader", "record"),
    [
        (hits, {"_index": "events", "_id": "1", "_source": EVENT}),
        (kcat, {"topic": "events", "partition": 0, "offset": 7, "key": None, "payload": json.dumps(EVENT)}),
        (batch, {"batch": [EVENT], "sentAt": 5}),
    ],
)
def test_an_envelope_is_one_line(reader: Any, record: object) -> None:
    assert events_of(reader, record) == [CLICK]


def test_each_event_of_a_batch_has_its_own_outcome() -> None:
    assert events_of(batch, {"batch": [EVENT, {"type": "page"}, EVENT]}) == [CLICK, "bad_type", CLICK]
