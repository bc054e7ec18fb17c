"""Recognizes JSON objects by their fields: envelopes around an event, and the event schemas of other systems. Pure; for messages only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, get_args

from streammetrics.events.advice.recognize_bytes import Recognized
from streammetrics.events.envelopes import Envelope
from streammetrics.events.mappings.rules import PRESETS

JsonObject = Mapping[str, Any]


class _Schema(NamedTuple):
    """A schema of another system: its name, what it is, and the rule that recognizes one of its objects."""

    name: str
    what: str
    matches: Callable[[JsonObject], bool]


def _has(*names: str) -> Callable[[JsonObject], bool]:
    return lambda fields: all(name in fields for name in names)


def _is_one_of(name: str, *values: str) -> Callable[[JsonObject], bool]:
    return lambda fields: isinstance(fields.get(name), str) and fields[name] in values


def is_native(fields: JsonObject) -> bool:
    """Return whether an object looks like an event of the native schema."""
    known = _is_one_of("type", "impression", "feedback", "exposure")(fields)
    return known and not fields.keys().isdisjoint(("user_id", "ts", "items", "item_id"))


def _inside(fields: JsonObject, name: str) -> JsonObject:
    found = fields.get(name)
    return found if isinstance(found, Mapping) else {}


def is_ubi_event(fields: JsonObject) -> bool:
    return "action_name" in fields and not fields.keys().isdisjoint(("client_id", "event_attributes", "query_id", "timestamp"))


def is_ubi_query(fields: JsonObject) -> bool:
    return "query_response_id" in fields or ("user_query" in fields and "query_id" in fields)


ENVELOPES: Final = get_args(Envelope)
"""The envelopes that the decoders can read."""
_SEGMENT_CALLS = ("track", "page", "screen", "identify", "group", "alias")
_SCHEMAS: Final = (
    _Schema("otel", "log records of OpenTelemetry", _has("timeUnixNano", "attributes")),
    _Schema("openfeature", "evaluations of OpenFeature", lambda fields: "feature_flag.key" in _inside(fields, "attributes")),
    _Schema(
        "segment",
        "Segment or RudderStack calls",
        lambda fields: _is_one_of("type", *_SEGMENT_CALLS)(fields) and not fields.keys().isdisjoint(("anonymousId", "userId", "messageId")),
    ),
    _Schema(
        "ga4",
        "events of Google Analytics 4",
        lambda fields: "event_name" in fields and not fields.keys().isdisjoint(("event_timestamp", "event_params", "user_pseudo_id")),
    ),
    _Schema("snowplow", "Snowplow events", _has("collector_tstamp", "event")),
    _Schema(
        "metarank",
        "Metarank events",
        lambda fields: _is_one_of("event", "ranking", "interaction", "item", "user")(fields) and "timestamp" in fields,
    ),
    _Schema(
        "algolia",
        "Algolia Insights events",
        lambda fields: "eventType" in fields and not fields.keys().isdisjoint(("userToken", "objectIDs")),
    ),
    _Schema(
        "amplitude",
        "Amplitude events",
        lambda fields: "event_type" in fields and not fields.keys().isdisjoint(("event_properties", "device_id", "amplitude_id")),
    ),
    _Schema(
        "posthog",
        "PostHog or Mixpanel events",
        lambda fields: "event" in fields and isinstance(fields.get("properties"), dict),
    ),
    _Schema(
        "elastic",
        "events of Elastic behavioral analytics",
        lambda fields: (
            isinstance(fields.get("event"), dict)
            and _is_one_of("action", "search", "search_click", "page_view", "pageview")(fields["event"])
        ),
    ),
    _Schema("personalize", "interactions of Amazon Personalize", _has("USER_ID", "ITEM_ID", "TIMESTAMP")),
    _Schema("ecs", "events of a log shipper (Elastic)", _has("@timestamp", "message")),
)
_MAPPING_ADVICE = "map them with [[events.mappings]]; streammetrics decode --suggest FILE proposes mappings"
_PATHS = (
    "data",
    "payload",
    "value",
    "event",
    "message",
    "body",
    "record",
    "after",
    "detail",
    "content",
    "properties",
    "log",
    "fields",
    "doc",
)
"""Fields in which envelopes carry an event."""


def describe_object(fields: JsonObject, schema: str) -> Recognized | None:
    """Return what a JSON object seems to be; None if it may be an event of the schema.

    >>> print(describe_object({"_index": "ubi_events", "_source": {"action_name": "click", "client_id": "c"}}, "ubi"))
    search hits or an index dump, with the event in _source: set events.envelope = "hits"
    >>> print(describe_object({"type": "impression", "user_id": "u"}, "ubi"))
    events of the native schema: set events.format = "native"
    """
    if is_native(fields):
        return None if schema == "native" else Recognized("native", "events of the native schema", 'set events.format = "native"')
    if is_ubi_event(fields):
        return None if schema == "ubi" else Recognized("ubi", "OpenSearch UBI events", 'set events.format = "ubi"')
    if is_ubi_query(fields):
        if schema == "ubi":
            return Recognized("ubi_queries", "UBI queries", 'set events.ubi_lists = "hit_ids" to read lists from the hits of queries')
        return Recognized("ubi", "OpenSearch UBI queries", 'set events.format = "ubi"')
    return _envelope(fields) or _other_schema(fields, schema) or _nested_event(fields)


def _other_schema(fields: JsonObject, schema: str) -> Recognized | None:
    for each in _SCHEMAS:
        if each.matches(fields):
            if each.name == schema:
                return None
            return Recognized(each.name, each.what, f'set events.format = "{each.name}"' if each.name in PRESETS else _MAPPING_ADVICE)
    return None


def _envelope(fields: JsonObject) -> Recognized | None:
    """Recognize well-known envelopes."""
    if "specversion" in fields:
        return _in_envelope("cloudevents", "CloudEvents envelopes", "data_base64" if "data_base64" in fields else "data", fields)
    if "schema" in fields and "payload" in fields:
        payload = fields["payload"]
        if isinstance(payload, dict) and "op" in payload:
            return _in_envelope("debezium", "Debezium change events", "payload.after", fields)
        return _in_envelope("connect", "Kafka Connect envelopes (schema and payload)", "payload", fields)
    if "op" in fields and ("after" in fields or "before" in fields):
        return _in_envelope("debezium", "Debezium change events", "after", fields)
    if "topic" in fields and "partition" in fields and "offset" in fields:
        return _in_envelope(
            "kcat", "envelopes of a Kafka consumer (such as kcat -J)", "payload" if "payload" in fields else "value", fields
        )
    if "_source" in fields:
        return _in_envelope("hits", "search hits or an index dump", "_source", fields)
    return _many(fields)


def _many(fields: JsonObject) -> Recognized | None:
    """Recognize envelopes of several events."""
    if "resourceLogs" in fields:
        return Recognized("otlp", "export requests of OpenTelemetry", 'set events.envelope = "otlp"')
    for name in ("batch", "events"):
        inner = fields.get(name)
        if isinstance(inner, list) and inner and all(isinstance(each, dict) for each in inner):
            return Recognized("batch", f"batches, with the events in {name}", 'set events.envelope = "batch"')
    hits = fields.get("hits")
    if isinstance(hits, dict) and "hits" in hits:
        return Recognized("hits", "a search response", "write its documents one per line (jq -c '.hits.hits[]._source')")
    return None


def _in_envelope(name: str, what: str, path: str, fields: JsonObject) -> Recognized:
    where = f"{what}, with the event in {path}"
    is_text = _json_text(_at(fields, path)) is not None
    if name in ENVELOPES:
        return Recognized(name, f"{where} as text" if is_text else where, f'set events.envelope = "{name}"')
    if path == "data_base64":
        return Recognized(name, where, "write only that, decoded (jq -c '.data_base64 | @base64d | fromjson')")
    if is_text:
        return Recognized(name, f"{where} as text", f"write only that, decoded (jq -c '.{path} | fromjson')")
    return Recognized(name, where, f"write only that (jq -c .{path})")


def _nested_event(fields: JsonObject) -> Recognized | None:
    """Recognize any other object that carries an event of a known schema in one of its fields."""
    for path, inner in _nested(fields):
        found = inner if isinstance(inner, dict | list) else _json_text(inner)
        if isinstance(found, list) and found and isinstance(found[0], dict) and (is_native(found[0]) or is_ubi_event(found[0])):
            return Recognized("batch", f"batches, with the events in {path}", f"write the events one per line (jq -c '.{path}[]')")
        if isinstance(found, dict) and (is_native(found) or is_ubi_event(found)):
            return _in_envelope("envelope", "envelopes", path, fields)
    return None


def _nested(fields: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object, then those of the objects in fields that usually carry an event."""
    yield from fields.items()
    for name in _PATHS:
        inner = fields.get(name)
        if isinstance(inner, dict):
            yield from ((f"{name}.{key}", value) for key, value in inner.items())


def _at(fields: JsonObject, path: str) -> Any:
    found: Any = fields
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _json_text(value: Any) -> Any:
    """Return what a string holds as JSON: an object or an array. None for anything else."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
