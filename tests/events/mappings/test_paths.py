"""Paths are parsed, and find their values in plain objects."""

from __future__ import annotations

import pytest

from streammetrics.events.mappings.paths import parse_path, walker
from tests.support.tables import for_each

RECORD = {"a": {"b": [{"key": "x", "value": 1}, {"key": "y", "value": 2}], "c.d": "dotted"}, "e": 5}


@for_each(
    [
        ("e", 5),
        ("a.b[1].value", 2),
        ("a.b[key=y].value", 2),
        ("a.b[key=z].value", None),
        ("a.b[7].value", None),
        ('a."c.d"', "dotted"),
        ("a.missing.deeper", None),
        ("e.no_object", None),
    ]
)
def test_a_path_finds_its_value_or_nothing(case: tuple[str, object]) -> None:
    path, expected = case
    assert walker(parse_path(path).steps)(RECORD) == expected


@for_each(["", "a..b", ".a", "a.", "[0]", "a[x]", "a[-1]", "a]b", "a{b}", ".".join(["a"] * 17)])
def test_text_that_is_no_path_is_rejected(path: str) -> None:
    with pytest.raises(ValueError, match=r"path"):
        parse_path(path)
