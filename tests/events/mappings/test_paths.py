"""Paths find the same values in plain objects and in parsed structs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streammetrics.events.mappings.paths import DictAccess, Shape, parse_path

RECORD = {"a": {"b": [{"key": "x", "value": 1}, {"key": "y", "value": 2}], "c.d": "dotted"}, "e": 5}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("e", 5),
        ("a.b[1].value", 2),
        ("a.b[key=y].value", 2),
        ("a.b[key=z].value", None),
        ("a.b[7].value", None),
        ('a."c.d"', "dotted"),
        ("a.missing.deeper", None),
        ("e.no_object", None),
    ],
)
def test_a_path_finds_its_value_or_nothing(path: str, expected: object) -> None:
    assert DictAccess().get(parse_path(path))(RECORD) == expected


@pytest.mark.parametrize("path", ["e", "a.b[1].value", "a.b[key=y].value", 'a."c.d"'])
def test_a_struct_gives_the_same_values_as_plain_objects(path: str) -> None:
    shape, parsed = Shape(), parse_path(path)
    shape.get(parsed)
    record: Any = msgspec.json.decode(msgspec.json.encode(RECORD), type=shape.struct())
    assert shape.access().get(parsed)(record) == DictAccess().get(parsed)(RECORD)


def test_a_field_that_is_needed_whole_and_in_parts_has_no_struct() -> None:
    shape = Shape()
    shape.get(parse_path("a"))
    shape.get(parse_path("a.b"))
    assert shape.struct() is None


@pytest.mark.parametrize("path", ["", "a..b", ".a", "a.", "[0]", "a[x]", "a[-1]", "a]b", "a{b}", ".".join(["a"] * 17)])
def test_text_that_is_no_path_is_rejected(path: str) -> None:
    with pytest.raises(ValueError, match=r"path"):
        parse_path(path)
