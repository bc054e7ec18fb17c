"""Takes events out of envelopes, before a format's decoder: README.md has the kinds. Pure.

A record may also be an array of envelopes. A deletion of Debezium holds no event. Each of several log records (`otlp`) or elements
(`batch`) is an event. CloudEvents may have `data_base64` instead of `data`; their attributes are added to the event for mappings (see
`cloudevents`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events import cloudevents
from streammetrics.events.batches import decoded_batch, elements_of
from streammetrics.events.fields import is_text
from streammetrics.events.json_text import read_document
from streammetrics.events.malformed import malformed, without_traceback
from streammetrics.events.model import Event
from streammetrics.events.sent_value import SentValue

Envelope: TypeAlias = Literal["none", "connect", "debezium", "cloudevents", "hits", "kcat", "otlp", "batch"]
_Decode: TypeAlias = Callable[[bytes | None], Sequence[Event | MalformedEvent]]
EnvelopeFields: TypeAlias = Mapping[str, msgspec.Raw]

_string = msgspec.json.Decoder(str).decode
_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def without_envelope(envelope: Envelope, decode: _Decode, with_attributes: bool = False) -> _Decode:
    """Return a decoder of records in an envelope. `decode` decodes the event inside.

    `with_attributes` adds the attributes of a CloudEvent to the event, as `ce`, for mappings.

    >>> decode = without_envelope("kcat", lambda event: (event,))
    >>> decode(b'{"topic":"events","offset":7,"payload":"{\\\\"type\\\\":\\\\"feedback\\\\"}"}')
    (b'{"type":"feedback"}',)
    >>> decode(b'{"topic":"events"}')[0].detail
    'payload is required in the envelope kcat; got {"topic":"events"}; send it, or change events.envelope'
    """
    if envelope == "none":
        return decode
    if envelope == "cloudevents" and with_attributes:
        return _each(_with_attributes(decode))
    if envelope == "otlp":
        return _each(_otlp(decode))
    if envelope == "batch":
        return _each(_batch(decode), decode)
    event_of = _READERS[envelope]

    def read(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        if value is None or not value.strip():
            return () if envelope == "debezium" else decode(value)  # Debezium sends a tombstone after each deletion
        try:
            found = event_of(read_document(value), value)
        except MalformedEvent as error:
            return (without_traceback(error),)
        return () if found is None else decode(found)

    return _each(read)


def _each(read: _Decode, of_element: _Decode | None = None) -> _Decode:
    """Return a decoder that also reads arrays. `of_element` decodes their elements, if another one does."""
    decode = read if of_element is None else of_element

    def read_each(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        elements = elements_of(value)
        return read(value) if elements is None else decoded_batch(elements, decode)

    return read_each


UNCHANGED_COLUMN: Final = "__debezium_unavailable_value"
"""What Debezium sends for a large column that did not change and that the log does not have."""
_BATCHES: Final = ("batch", "events")


def _batch(decode: _Decode) -> _Decode:
    def read(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        if value is None or not value.strip():
            return decode(value)
        try:
            fields = read_document(value)
            raw = next((fields[name] for name in _BATCHES if name in fields), None)
            if raw is None:
                raise _missing(" or ".join(_BATCHES), "batch", value)
            elements = _array(raw)
        except MalformedEvent as error:
            return (without_traceback(error),)
        except msgspec.MsgspecError:
            rule = f"{' or '.join(_BATCHES)} must be an array in the envelope batch"
            return (without_traceback(malformed("bad_value", rule, value, "send an array, or change events.envelope")),)
        return decoded_batch([bytes(each) for each in elements], decode)

    return read


def _with_attributes(decode: _Decode) -> _Decode:
    def read(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        if value is None or not value.strip():
            return decode(value)
        headers = value.headers if type(value) is SentValue else {}
        if cloudevents.PREFIX + "specversion" in headers:
            return decode(cloudevents.with_header_attributes(bytes(value), headers))
        try:
            fields = read_document(value)
            event = _cloudevents(fields, value)
        except MalformedEvent as error:
            return (without_traceback(error),)
        return decode(cloudevents.with_attributes(event, fields) if "specversion" in fields else event)

    return read


class _ScopeLogs(msgspec.Struct, rename="camel"):
    log_records: list[msgspec.Raw] = []


class _ResourceLogs(msgspec.Struct, rename="camel"):
    scope_logs: list[_ScopeLogs] = []


class _ExportRequest(msgspec.Struct, rename="camel"):
    """An export request of logs, in OTLP JSON."""

    resource_logs: list[_ResourceLogs]


_export_request = msgspec.json.Decoder(_ExportRequest).decode


def _otlp(decode: _Decode) -> _Decode:
    """Return a decoder of export requests: each log record is an event. A request without log records holds no event."""

    def read(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        if value is None or not value.strip():
            return decode(value)
        try:
            read_document(value)  # it names what is wrong
            request = _export_request(value)
        except MalformedEvent as error:
            return (without_traceback(error),)
        except (msgspec.MsgspecError, ValueError) as error:
            rule = f"the envelope otlp needs resourceLogs with scopeLogs and logRecords: {error}"
            return (without_traceback(malformed("bad_value", rule, value, "send OTLP JSON, or change events.envelope")),)
        logs = [record for resource in request.resource_logs for scope in resource.scope_logs for record in scope.log_records]
        return [event for record in logs for event in decode(bytes(record))]

    return read


def _connect(fields: EnvelopeFields, value: bytes) -> bytes:
    return _event(_needed(fields, "payload", "connect", value), "payload")


def _kcat(fields: EnvelopeFields, value: bytes) -> bytes:
    return _event(_needed(fields, "payload", "kcat", value), "payload")


def _hits(fields: EnvelopeFields, value: bytes) -> bytes:
    return _event(_needed(fields, "_source", "hits", value), "_source")


def _debezium(fields: EnvelopeFields, value: bytes) -> bytes | None:
    """Return the row after the change; None for a deletion and for other changes without a row."""
    payload = fields.get("payload")
    if payload is not None and "op" not in fields:
        fields = read_document(bytes(payload))
    after = fields.get("after")
    if after is None and "op" not in fields:
        raise _missing("after", "debezium", value)
    return None if after is None or is_text(after, b"null") else _event(after, "after")


def _cloudevents(fields: EnvelopeFields, value: bytes) -> bytes:
    if "specversion" not in fields:
        return value
    encoded = fields.get("data_base64")
    if encoded is None:
        return _event(_needed(fields, "data", "cloudevents", value), "data")
    if "data" in fields:
        raise malformed("bad_value", "a CloudEvent has either data or data_base64, and this one has both", value, "send one of them")
    try:
        return base64.b64decode(_string(encoded), validate=True)
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise malformed("bad_value", "data_base64 must be base64 text", encoded, "send valid base64, or the event as data") from None


_READERS: Final[Mapping[str, Callable[[EnvelopeFields, bytes], bytes | None]]] = {
    "connect": _connect,
    "debezium": _debezium,
    "cloudevents": _cloudevents,
    "hits": _hits,
    "kcat": _kcat,
}


def _event(raw: msgspec.Raw, name: str) -> bytes:
    """Return the JSON of an event, which may be in a text. A null event is empty."""
    found = bytes(raw)
    if found.startswith(b'"'):
        try:
            return _string(found).encode()
        except (msgspec.MsgspecError, ValueError):
            raise malformed("bad_json", f"{name} must be valid text", raw, "send the event as a JSON object") from None
    return b"" if found == b"null" else found


def _needed(fields: EnvelopeFields, name: str, envelope: str, value: bytes) -> msgspec.Raw:
    raw = fields.get(name)
    if raw is None:
        raise _missing(name, envelope, value)
    return raw


def _missing(name: str, envelope: str, value: bytes) -> MalformedEvent:
    return malformed("missing_field", f"{name} is required in the envelope {envelope}", value, "send it, or change events.envelope")
