"""Events in envelopes are the events themselves."""

from __future__ import annotations

import base64
import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events import EventLimits, MalformedEvent, native_decoder, ubi_decoder
from streammetrics.events.envelopes import Envelope, without_envelope
from tests.events.samples import FEEDBACK, IMPRESSION, sent
from tests.support.tables import for_each

native = native_decoder(EventLimits())
ENVELOPES: tuple[Envelope, ...] = ("connect", "debezium", "cloudevents", "kcat")


def wrapped(envelope: dict[str, Any]) -> bytes:
    return json.dumps(envelope).encode()


def cloud(**fields: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "7", "source": "/shop", "type": "shown", **fields}


CASES: list[tuple[Envelope, Any]] = [
    ("connect", lambda event: {"schema": {"type": "struct"}, "payload": event}),
    ("connect", lambda event: {"schema": None, "payload": json.dumps(event)}),
    ("debezium", lambda event: {"before": None, "after": event, "op": "c"}),
    ("debezium", lambda event: {"schema": {}, "payload": {"before": event, "after": event, "op": "u"}}),
    ("debezium", lambda event: {"after": json.dumps(event), "op": "r"}),
    ("cloudevents", lambda event: cloud(datacontenttype="application/json", data=event)),
    ("cloudevents", lambda event: cloud(data=json.dumps(event))),
    ("cloudevents", lambda event: cloud(data_base64=base64.b64encode(json.dumps(event).encode()).decode())),
    ("cloudevents", lambda event: event),
    ("kcat", lambda event: {"topic": "events", "partition": 0, "offset": 7, "key": None, "payload": json.dumps(event)}),
    ("batch", lambda event: {"batch": [event], "sentAt": 5}),
    ("batch", lambda event: {"events": [event]}),
    ("batch", lambda event: [event]),
    ("cloudevents", lambda event: [cloud(data=event)]),
    ("none", lambda event: [event]),
    ("otlp", lambda event: {"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {}, "logRecords": [event]}]}]}),
    ("hits", lambda event: {"_index": "events", "_id": "1", "_source": event}),
    ("kcat", lambda event: {"topic": "events", "payload": event}),
]


@for_each(product([IMPRESSION, FEEDBACK, {**FEEDBACK, "item_id": 'ü"\\'}, {"type": "other"}], CASES))
def test_an_event_in_an_envelope_is_the_event(case: tuple[dict[str, Any], tuple[Envelope, Any]]) -> None:
    event, (envelope, wrap) = case
    inside = sent(event)
    found, expected = without_envelope(envelope, native)(wrapped(wrap(event))), native(inside)
    assert [getattr(each, "reason", each) for each in found] == [getattr(each, "reason", each) for each in expected]


@pytest.mark.parametrize("value", [None, b"", wrapped({"before": FEEDBACK, "after": None, "op": "d"}), wrapped({"payload": {"op": "t"}})])
def test_a_change_without_a_row_holds_no_event(value: bytes | None) -> None:
    assert without_envelope("debezium", native)(value) == ()


@pytest.mark.parametrize("envelope", ["connect", "cloudevents", "kcat"])
def test_an_absent_record_is_refused_as_without_envelope(envelope: Envelope) -> None:
    assert [each.reason for each in without_envelope(envelope, native)(None) if isinstance(each, MalformedEvent)] == ["empty"]


@for_each(
    [
        ("connect", FEEDBACK, "missing_field", "payload is required in the envelope connect"),
        ("debezium", FEEDBACK, "missing_field", "after is required in the envelope debezium"),
        ("cloudevents", cloud(), "missing_field", "data is required in the envelope cloudevents"),
        ("cloudevents", cloud(data_base64="?"), "bad_value", "data_base64 must be base64 text"),
        ("kcat", {"topic": "t", "payload": None}, "empty", "must contain an event"),
        ("kcat", [1], "bad_json", "must be a JSON object"),
        ("otlp", FEEDBACK, "bad_value", "the envelope otlp needs resourceLogs with scopeLogs and logRecords: Object missing required"),
        ("otlp", {"resourceLogs": [{"scopeLogs": 7}]}, "bad_value", "$.resourceLogs[0].scopeLogs"),
        ("otlp", [1], "bad_json", "must be a JSON object"),
        ("debezium", {"payload": 7}, "bad_json", "must be a JSON object"),
    ]
)
def test_a_wrong_envelope_is_refused_with_what_is_missing(case: tuple[Envelope, Any, str, str]) -> None:
    envelope, value, reason, words = case
    (found,) = without_envelope(envelope, native)(wrapped(value))
    assert isinstance(found, MalformedEvent)
    assert (found.reason, words in found.detail) == (reason, True)


def test_an_export_request_holds_all_its_log_records_in_order() -> None:
    logs = [{"scopeLogs": [{"logRecords": [IMPRESSION]}, {}]}, {"scopeLogs": [{"logRecords": [{"type": "other"}, FEEDBACK]}]}]
    found = without_envelope("otlp", native)(wrapped({"resourceLogs": logs}))
    assert [getattr(each, "reason", each) for each in found] == [*native(sent(IMPRESSION)), "bad_type", *native(sent(FEEDBACK))]
    assert without_envelope("otlp", native)(wrapped({"resourceLogs": []})) == []


def test_no_envelope_leaves_the_decoder_alone() -> None:
    assert without_envelope("none", native) is native


def test_an_envelope_may_hold_several_ubi_documents() -> None:
    document = {"action_name": "click", "client_id": "c", "query_id": "q", "timestamp": 1}
    found = without_envelope("kcat", ubi_decoder(EventLimits()))(wrapped({"payload": json.dumps([document, document])}))
    assert len(found) == 2


@given(
    envelope=st.sampled_from(ENVELOPES),
    value=st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["payload", "after", "op", "data", "data_base64", "specversion", "x"]), inner, max_size=4)
        ),
        max_leaves=6,
    ).map(lambda value: json.dumps(value).encode()),
)
def test_no_bytes_raise(envelope: Envelope, value: bytes) -> None:
    assert all(isinstance(each, MalformedEvent) for each in without_envelope(envelope, native)(value))


@pytest.mark.parametrize("records", [[IMPRESSION, {"type": "page"}, FEEDBACK], [IMPRESSION, None, FEEDBACK]])
def test_each_event_of_a_batch_has_its_own_outcome(records: list[Any]) -> None:
    first, refused, last = without_envelope("batch", native)(wrapped({"batch": records}))
    assert (first, last) == (*native(sent(IMPRESSION)), *native(sent(FEEDBACK)))
    assert isinstance(refused, MalformedEvent)
    assert refused.detail.startswith("event 2 of 3 in the record: ")


@pytest.mark.parametrize(
    ("record", "reason"), [({"records": []}, "missing_field"), ({"batch": {}}, "bad_value"), ([], "bad_json"), ([1], "bad_json")]
)
def test_what_is_no_batch_is_refused(record: Any, reason: str) -> None:
    (refused,) = without_envelope("batch", native)(wrapped(record))
    assert isinstance(refused, MalformedEvent)
    assert refused.reason == reason


def test_an_empty_batch_holds_no_event() -> None:
    assert not without_envelope("batch", native)(wrapped({"events": []}))
