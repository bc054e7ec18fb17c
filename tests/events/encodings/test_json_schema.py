"""JSON behind a frame, and records that are checked by their JSON Schema. Nothing is ever fetched."""

from __future__ import annotations

import json

import pytest

from streammetrics.errors import MalformedEvent
from streammetrics.events.encodings.json_schema import checked_json_reader, json_reader
from streammetrics.events.encodings.schema_text import SchemaProblemError, SchemaText

SCHEMA = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["ts"], "properties": {"ts": {"minimum": 1}}}
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
FRAME = b"\x00\x00\x00\x00\x07"


def schema(content: object, **references: object) -> SchemaText:
    return SchemaText("JSON", json.dumps(content), {f"{name}.json": json.dumps(text) for name, text in references.items()})


def test_the_body_is_the_json() -> None:
    assert json_reader(5)(FRAME + b'{"ts":0}') == b'{"ts":0}'
    assert checked_json_reader(schema(SCHEMA), 5)(FRAME + b'{"ts":7}') == b'{"ts":7}'


@pytest.mark.parametrize(
    ("body", "says"), [(b"{}", '"ts" is a required property'), (b'{"ts":0}', "less than the minimum of 1 at ts"), (b"[]", "object")]
)
def test_a_record_that_does_not_follow_its_schema_is_refused(body: bytes, says: str) -> None:
    with pytest.raises(MalformedEvent, match=f"bad_encoding: the record is not valid by its JSON Schema: .*{says}"):
        checked_json_reader(schema(SCHEMA))(body)


@pytest.mark.parametrize("body", [b"{", b"\xff", b"", b"[" * 100_000])
def test_what_is_no_json_is_left_to_the_decoder_of_events(body: bytes) -> None:
    assert checked_json_reader(schema(SCHEMA))(body) == body


def test_references_are_found_among_those_given_and_nowhere_else() -> None:
    reader = checked_json_reader(schema({"properties": {"user": {"$ref": "user.json"}}}, user={"type": "string"}))
    assert reader(b'{"user":"u7"}') == b'{"user":"u7"}'
    with pytest.raises(MalformedEvent):
        reader(b'{"user":7}')
    with pytest.raises(SchemaProblemError, match=r"it refers to http://127.0.0.1:1/user.json, which is not among its references"):
        checked_json_reader(schema({"$ref": "http://127.0.0.1:1/user.json"}))


@pytest.mark.parametrize("text", ["{", "7", '{"type": "nothing"}', '{"$schema": "http://127.0.0.1:1/own"}'])
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaProblemError):
        checked_json_reader(SchemaText("JSON", text))


def doubling(depth: int) -> dict[str, object]:
    """A schema of `depth` parts, each of which refers twice to the next."""
    parts: dict[str, object] = {f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(depth)}
    return {"$defs": {**parts, f"a{depth}": {}}, "$ref": "#/$defs/a0"}


def test_a_small_schema_that_needs_endless_checks_is_refused() -> None:
    """Without the refusal, one record would hold the process for days."""
    assert checked_json_reader(schema(doubling(10)))(b"{}") == b"{}"
    with pytest.raises(SchemaProblemError, match=r"one value would need more than 100,000 checks"):
        checked_json_reader(schema(doubling(40)))
    inside = {"properties": {"a": {"anyOf": [{"$ref": "#/x~1y/0/z%7E0z"}, {}]}}, "x/y": [{"z~z": {"$ref": "#/$defs/a0"}}]}
    with pytest.raises(SchemaProblemError, match=r"one value would need more than 100,000 checks"):
        checked_json_reader(schema(inside | {"$defs": doubling(40)["$defs"]}))


def test_references_to_other_schemas_and_to_anchors_count() -> None:
    with pytest.raises(SchemaProblemError, match=r"one value would need more than 100,000 checks"):
        checked_json_reader(schema({"$ref": "other.json"}, other=doubling(40)))
    with pytest.raises(SchemaProblemError, match=r"one value would need more than 100,000 checks"):
        checked_json_reader(schema({"$ref": "http://shop/other.json#/$defs/a0"}, other=doubling(40)))
    parts = {f"a{at}": {"$anchor": f"a{at}", "oneOf": [{"$ref": f"#a{at + 1}"}] * 2} for at in range(40)}
    anchored = {"$schema": DRAFT_2020, "$ref": "#a0", "$defs": {**parts, "end": {"$anchor": "a40"}}}
    with pytest.raises(SchemaProblemError, match=r"one value would need more than 100,000 checks"):
        checked_json_reader(schema(anchored))
    with pytest.raises(SchemaProblemError, match=r"one value would need more than 100,000 checks"):
        checked_json_reader(schema({"$schema": DRAFT_2020, "$ref": "in", "$defs": {"in": {"$id": "http://shop/in", **doubling(40)}}}))


BRANCHING = {
    "anyOf": {"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": [name]} for name in "xy"]},
    "oneOf": {"oneOf": [{"properties": {"a": {"$ref": "#"}}, "type": "object"}, {"additionalProperties": {"$ref": "#"}}]},
    "allOf": {"type": "object", "allOf": [{"properties": {"a": {"$ref": "#"}}}, {"patternProperties": {"": {"$ref": "#"}}}]},
    "apart": {"$ref": "other.json"},
}


@pytest.mark.parametrize("name", BRANCHING)
def test_a_schema_that_branches_at_each_level_of_a_record_names_no_place_in_a_deep_one(name: str) -> None:
    """Without the bound, it took 6 seconds to say what is wrong with a record of 14 levels, and twice as long for each level more."""
    other = {
        "anyOf": [{"properties": {"a": {"$ref": "other.json"}}, "type": "object"}, {"items": {"$ref": "other.json"}, "type": "array"}] * 2
    }
    reader = checked_json_reader(schema(BRANCHING[name], other=other))
    for depth in (1, 14, 60):
        with pytest.raises(MalformedEvent) as refused:
            reader(b'{"a":' * depth + b"7" + b"}" * depth)
        assert ("too many branches, to say what is wrong" in refused.value.detail) is (depth > 1)


def test_a_schema_that_refers_to_itself_once_names_the_place_in_a_deep_record() -> None:
    tree = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    with pytest.raises(MalformedEvent, match=r'7 is not of type "object" at (a/){59}a;'):
        checked_json_reader(schema(tree))(b'{"a":' * 60 + b"7" + b"}" * 60)


def test_parts_that_check_different_values_may_refer_to_each_other_as_often_as_they_like() -> None:
    parts = {f"a{at}": {"properties": {f"p{each}": {"$ref": f"#/$defs/a{(at + each) % 9}"} for each in range(9)}} for at in range(9)}
    assert checked_json_reader(schema({"$defs": parts, "$ref": "#/$defs/a0"}))(b'{"p1":{"p2":{"p3":{}}}}') == b'{"p1":{"p2":{"p3":{}}}}'


@pytest.mark.parametrize("part", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"properties": {"a": {"$ref": "#"}}}])
def test_a_schema_that_contains_itself_ends(part: dict[str, object]) -> None:
    for body in (b"{}", b'{"a":' * 500 + b"{}" + b"}" * 500):
        assert checked_json_reader(schema(part))(body) == body


def test_a_deep_record_that_does_not_follow_its_schema_is_refused() -> None:
    with pytest.raises(MalformedEvent, match=r"nested too deeply, .* to say what is wrong"):
        checked_json_reader(schema({"type": "array"}))(b'{"a":' * 500 + b"{}" + b"}" * 500)


@pytest.mark.parametrize("text", ['{"not":' * 5_000 + "{}" + "}" * 5_000, '{"allOf":[' * 400 + "{}" + "]}" * 400])
def test_a_schema_that_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(SchemaProblemError, match=r"nested too deeply|Recursion limit"):
        checked_json_reader(SchemaText("JSON", text))
