"""Mappings find the attributes of CloudEvents, in structured and in binary mode, as the official library writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

from streammetrics.events import EventLimits, Feedback, MalformedEvent, native_decoder, topic_decoder
from streammetrics.events.envelopes import without_envelope
from streammetrics.events.mappings.rules import parse_mappings
from streammetrics.events.sent_value import SentValue
from tests.support.tables import for_each

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


@for_each(
    [
        b"",
        b"{",
        b"[1]",
        b"7",
        b'{"specversion":"1.0"}',
        SentValue.of(b"[1]", {"ce_specversion": b"1.0"}),
        SentValue.of(b"{", {"ce_specversion": b"\xff"}),
    ]
)
def test_what_is_no_event_is_refused(value: bytes) -> None:
    assert [type(found) for found in decode(value)] == [MalformedEvent]


def test_native_events_need_no_attributes() -> None:
    native = {"type": "feedback", "user_id": "u7", "ts": 1772366400000, "item_id": "b", "action": "click"}
    sent = to_binary_event(event(data=native))
    value = SentValue.of(bytes(sent.value or b""), dict(sent.headers))
    assert list(without_envelope("cloudevents", native_decoder(LIMITS))(value)) == [CLICK]


class TestConformanceSuite:
    """The forms of events in the JSON and Kafka parts of the CloudEvents project's own conformance suite."""

    MS = int(datetime(2018, 4, 5, 17, 31, tzinfo=UTC).timestamp() * 1000)

    def structured(self, **attributes: Any) -> bytes:
        named = {"specversion": "1.0", "id": "1", "type": "shop.click", "source": "#fragment", "subject": "u7", "data": {"sku": "b"}}
        return json.dumps(named | {"time": "2018-04-05T17:31:00Z"} | attributes).encode()

    @pytest.mark.parametrize(
        "time", ["2018-04-05T17:31:00Z", "2018-04-05T17:31:00.000000000Z", "2018-04-05T18:31:00+01:00", "2018-04-05T16:31:00-01:00"]
    )
    def test_valid_times(self, time: str) -> None:
        assert decode(self.structured(time=time)) == [Feedback("u7", self.MS, "b", "click")]

    @pytest.mark.parametrize(
        "time",
        [
            "lunchtime",
            "2018-04-05T18:31:00X",
            "2018-04-05T18:31:00+25:00",
            "2018-04-05T18:31:00+xx:00",
        ],
    )
    def test_invalid_times(self, time: str) -> None:
        (found,) = decode(self.structured(time=time))
        assert isinstance(found, MalformedEvent)
        assert (found.reason, time in found.detail) == ("bad_ts", True)

    @pytest.mark.parametrize("time", ["2018-04-05T17:31Z", "2018-04-05T22:31:00+05"])
    def test_shorter_times_of_iso_8601_are_read_though_the_suite_forbids_them(self, time: str) -> None:
        assert decode(self.structured(time=time)) == [Feedback("u7", self.MS, "b", "click")]

    def test_optional_attributes_may_be_null_and_extensions_have_any_type(self) -> None:
        optional = {"datacontenttype": None, "dataschema": None}
        extensions = {"extinteger": 10, "extboolean": True, "exturi": "https://cloudevents.io", "extbinary": "TWE="}
        assert decode(self.structured(**optional, **extensions)) == [Feedback("u7", self.MS, "b", "click")]

    def test_data_and_data_base64_together_are_refused(self) -> None:
        (found,) = decode(self.structured(data_base64="eyJza3UiOiAiYyJ9"))
        assert isinstance(found, MalformedEvent)
        assert "data_base64" in found.detail

    def test_data_that_is_no_json_object_is_refused(self) -> None:
        (found,) = decode(self.structured(datacontenttype="text/plain", data="Simple text"))
        assert isinstance(found, MalformedEvent)

    @pytest.mark.parametrize("content_type", ["application/cloudevents+json", "application/cloudevents+json; charset=utf-8"])
    def test_structured_mode_with_its_header(self, content_type: str) -> None:
        sent = SentValue.of(self.structured(), {"content-type": content_type.encode()})
        assert decode(sent) == [Feedback("u7", self.MS, "b", "click")]
