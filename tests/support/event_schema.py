"""Writes the JSON Schema of native events, for producers and for tools that check events before they are sent.

It follows the rules in `native` and the limits in the settings. It also refuses labels that would be dropped, because a producer wants
to know them. JSON Schema cannot express a few rules; the description in the schema names them.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

from streammetrics.events.fields import POSITION_MAX
from streammetrics.events.model import TS_MAX, EventLimits
from tests.support.paths import ROOT

SchemaObject: TypeAlias = dict[str, Any]

FILE: Final = ROOT / "streammetrics" / "events" / "event.schema.json"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
BEYOND: Final = (
    "Not expressed here: an event has at most {bytes} bytes in UTF-8 and nests at most 256 levels; positions in a list are distinct; "
    "numbers are finite; whole numbers are written without a fraction or an exponent; a date exists in the calendar."
)
_CONTROL: Final = "[\\u0000-\\u001f\\u007f-\\u009f]"
_DATE: Final = "[0-9]{4}(-[0-9]{2}-[0-9]{2}|[0-9]{4})"
_CLOCK: Final = "([01][0-9]|2[0-3])(:[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?|[0-5][0-9]([0-5][0-9]([.,][0-9]+)?)?)"
_ZONE: Final = "([Zz]|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"


def native_schema(limits: EventLimits) -> SchemaObject:
    """Return the JSON Schema (draft 2020-12) of native events under these limits.

    >>> schema = native_schema(EventLimits(items_max=20))
    >>> schema["$defs"]["impression"]["properties"]["items"]["anyOf"][0]["maxItems"]
    20
    """
    return {
        "$schema": DIALECT,
        "title": "Events of streammetrics",
        "description": f"{_what(limits)} {BEYOND.format(bytes=limits.event_bytes_max)}",
        "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in ("impression", "feedback", *(["exposure"] if limits.exposures else []))],
        "$defs": {
            "impression": _impression(limits),
            "feedback": _feedback(),
            **({"exposure": _exposure()} if limits.exposures else {}),
            "id": _id(limits),
            "label": _text(1, limits.label_chars_max),
            "time": {
                "description": "Epoch milliseconds, or ISO-8601 with a zone.",
                "anyOf": [
                    {"type": "integer", "minimum": 0, "maximum": TS_MAX},
                    {"type": "string", "pattern": f"^{_DATE}[Tt ]{_CLOCK}{_ZONE}$", "not": {"pattern": _CONTROL}},
                ],
            },
        },
    }


def _impression(limits: EventLimits) -> SchemaObject:
    variants = _labels("Experiment -> variant. Null: the list is not in this experiment.", limits.experiments_max, _ref("label"), limits)
    values = _labels("Segment -> value, such as surface -> home.", limits.segments_max, _text(0, limits.label_chars_max), limits)
    schema = _event(
        {
            "type": {"const": "impression"},
            "impression_id": _ref("id", "Names the list within the user's session."),
            "user_id": _ref("id", "The user, who is also the key of the Kafka record."),
            "ts": _ref("time"),
            "items": {
                "description": "The list, best item first. Positions sort the items.",
                "anyOf": [_items(limits, placed=False), _items(limits, placed=True)],
            },
            "experiments": variants,
            "segments": values,
            "fragment": {"description": "True: only a part of the list. Every item then has a position.", "type": ["boolean", "null"]},
        },
        ("impression_id", "items"),
    )
    schema["if"] = {"properties": {"fragment": {"const": True}}, "required": ["fragment"]}
    schema["then"] = {"properties": {"items": _items(limits, placed=True)}}
    return schema


def _feedback() -> SchemaObject:
    return _event(
        {
            "type": {"const": "feedback"},
            "user_id": _ref("id", "The user, who is also the key of the Kafka record."),
            "ts": _ref("time"),
            "item_id": _ref("id"),
            "action": _ref("label", "What the user did. join.grades says what it is worth."),
            "value": {"description": "A number, such as the seconds watched.", "type": ["number", "null"]},
            "impression_id": {
                "description": "The list. Without it, the latest earlier list that shows the item.",
                "anyOf": [_ref("id"), {"type": "null"}],
            },
        },
        ("item_id", "action"),
    )


def _what(limits: EventLimits) -> str:
    if limits.exposures:
        return "One impression (a ranked list shown to a user), one feedback, or one exposure (the variant that a user was given)."
    return "One impression (a ranked list shown to a user) or one feedback."


def _exposure() -> SchemaObject:
    return _event(
        {
            "type": {"const": "exposure"},
            "user_id": _ref("id", "The user, who is also the key of the Kafka record."),
            "ts": _ref("time"),
            "experiment": _ref("label", "The experiment, such as the key of a feature flag."),
            "variant": _ref("label", "The variant that the user was given."),
        },
        ("experiment", "variant"),
    )


def _event(properties: SchemaObject, required: tuple[str, ...]) -> SchemaObject:
    return {"type": "object", "required": ["type", "user_id", "ts", *required], "properties": properties}


def _items(limits: EventLimits, *, placed: bool) -> SchemaObject:
    """Return the schema of a list whose items all have a position, or none has."""
    position: SchemaObject = {"type": "integer", "minimum": 0, "maximum": POSITION_MAX} if placed else {"type": "null"}
    if placed and limits.first_place is not None:
        position |= {"minimum": limits.first_place, "maximum": limits.first_place + limits.items_max - 1}
    team = {"anyOf": [_ref("label", "The ranker of an interleaved list that drafted the item."), {"type": "null"}]}
    item = {
        "type": "object",
        "required": ["id", "position"] if placed else ["id"],
        "properties": {"id": _ref("id"), "position": position, "team": team},
    }
    return {"type": "array", "maxItems": limits.items_max, "items": item if placed else {"anyOf": [_ref("id"), item]}}


def _labels(description: str, most: int, value: SchemaObject, limits: EventLimits) -> SchemaObject:
    return {
        "description": description,
        "type": ["object", "null"],
        "maxProperties": most,
        "propertyNames": _text(1, limits.label_chars_max),
        "additionalProperties": {"anyOf": [value, {"type": "null"}]},
    }


def _id(limits: EventLimits) -> SchemaObject:
    text = {"description": "An id. Ids are compared exactly.", **_text(1, limits.id_chars_max)}
    return {"anyOf": [text, {"type": "integer"}]} if limits.numeric_ids else text


def _text(least: int, most: int) -> SchemaObject:
    return {"type": "string", "minLength": least, "maxLength": most, "not": {"pattern": _CONTROL}}


def _ref(name: str, description: str = "") -> SchemaObject:
    return {"$ref": f"#/$defs/{name}"} | ({"description": description} if description else {})


if __name__ == "__main__":
    FILE.write_text(json.dumps(native_schema(EventLimits(exposures=True)), indent=2) + "\n", encoding="utf-8")
