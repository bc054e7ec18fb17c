"""Mappings find the attributes of CloudEvents, in structured and in binary mode, as the official library writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

from streammetrics.events import EventLimits, Feedback, MalformedEvent, native_decoder, topic_decoder
from streammetrics.events.encodings.sent_value import SentValue
from streammetrics.events.envelopes import without_envelope
from streammetrics.events.mappings.rules import parse_mappings

RULE: dict[str, Any] = {
    "kind": "feedback",
    "when": {"ce.type": "shop.click"},
    "user_id": "ce.subject",
    "ts": "ce.time",
    "item_id": "sku",
    "action": {"value": "click"},
}
LIMITS = EventLimits()
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLICK = Feedback("u7", 1772366400000, "b", "click")


def decode(value: bytes, rule: dict[str, Any] = RULE) -> list[Any]:
    mapped = topic_decoder("t", "native", parse_mappings([rule]), LIMITS)
    return list(without_envelope("cloudevents", mapped, with_attributes=True)(value))


def event(**attributes: Any) -> CloudEvent:
    data = attributes.pop("data", {"sku": "b"})
    named = {"id": "1", "source": "/shop", "type": "shop.click", "specversion": "1.0", "subject": "u7", "time": AT}
    return CloudEvent(named | attributes, data)


@pytest.mark.parametrize("data", [{"sku": "b"}, {"sku": "b", "more": {"ce": 1}}, {"sku": "b", "text": "ü}{"}])
def test_both_modes_give_the_attributes(data: dict[str, Any]) -> None:
    binary, structured = to_binary_event(event(data=data)), to_structured_event(event(data=data))
    assert binary.value is not None
    assert structured.value is not None
    assert decode(SentValue.of(bytes(binary.value), dict(binary.headers))) == [CLICK]
    assert decode(bytes(structured.value)) == [CLICK]


def test_a_field_of_the_event_with_that_name_counts() -> None:
    sent = to_structured_event(event(data={"sku": "b", "ce": {"type": "shop.click", "subject": "own", "time": 5}}))
    assert decode(bytes(sent.value or b"")) == [Feedback("own", 5, "b", "click")]


def test_attributes_alone_can_be_an_event() -> None:
    rule = RULE | {"item_id": "ce.item"}
    assert decode(
        SentValue.of(
            b"{}",
            {"ce_specversion": b"1.0", "ce_type": b"shop.click", "ce_subject": b"u7", "ce_time": b"2026-03-01T12:00:00Z", "ce_item": b"b"},
        ),
        rule,
    ) == [CLICK]


def test_structured_events_in_base64_and_plain_records_are_read_too() -> None:
    sent = json.dumps(
        {"specversion": "1.0", "type": "shop.click", "subject": "u7", "time": "2026-03-01T12:00:00Z", "data_base64": "eyJza3UiOiJiIn0="}
    )
    assert decode(sent.encode()) == [CLICK]
    assert isinstance(decode(b'{"sku":"b"}')[0], MalformedEvent)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[1]",
        b"7",
        b'{"specversion":"1.0"}',
        SentValue.of(b"[1]", {"ce_specversion": b"1.0"}),
        SentValue.of(b"{", {"ce_specversion": b"\xff"}),
    ],
)
def test_what_is_no_event_is_refused(value: bytes) -> None:
    assert [type(found) for found in decode(value)] == [MalformedEvent]


def test_native_events_need_no_attributes() -> None:
    native = {"type": "feedback", "user_id": "u7", "ts": 1772366400000, "item_id": "b", "action": "click"}
    sent = to_binary_event(event(data=native))
    value = SentValue.of(bytes(sent.value or b""), dict(sent.headers))
    assert list(without_envelope("cloudevents", native_decoder(LIMITS))(value)) == [CLICK]
