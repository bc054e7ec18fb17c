"""The cheap depth check of JSON text never contradicts the exact one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events.json_text import NESTING_MAX, is_shallow, too_deep

SHORTEST = {"[": ("[", "]"), "{": ('{"":', "}")}


def nested(kinds: str, innermost: str = "", within: str = "") -> bytes:
    """Return the shortest JSON with one level per bracket of `kinds` around `innermost`."""
    opening = "".join(SHORTEST[kind][0] for kind in kinds)
    closing = "".join(SHORTEST[kind][1] for kind in reversed(kinds))
    return f"{within}{opening}{innermost}{closing}".encode()


@pytest.mark.parametrize("kinds", ["[", "{", "[{", "{[", "[[{", "{{["])
@pytest.mark.parametrize("levels", range(NESTING_MAX - 2, NESTING_MAX + 4))
@pytest.mark.parametrize("innermost", ["{}", "[]", "[{}]"])
@pytest.mark.parametrize("spaces", ["", " "])
def test_deep_json_is_never_called_shallow(kinds: str, levels: int, innermost: str, spaces: str):
    value = nested((kinds * levels)[:levels], innermost, spaces)
    json.loads(value)
    assert not (too_deep(value) and is_shallow(value))


@given(st.text("[{", min_size=200, max_size=300), st.sampled_from(["{}", "[]", "1"]), st.text("{}[] x", max_size=40))
def test_deep_json_is_never_called_shallow_for_any_brackets(kinds: str, innermost: str, text: str):
    for value in (
        nested(kinds, innermost),
        nested(kinds, json.dumps([text, innermost])),
        b'{"a":' + nested(kinds, innermost) + b',"b":{}}',
    ):
        assert not (too_deep(value) and is_shallow(value))


@pytest.mark.parametrize("items", [1, 12, 40, 1000])
@pytest.mark.parametrize("extra", ["", ',"page":{"shown":[1,2],"at":{"x":1}}'])
def test_long_lists_of_strings_are_called_shallow(items: int, extra: str):
    value = '{"items":' + json.dumps(["i" * 35] * items) + ',"experiments":{"a":"x"},"segments":{"b":"y"}' + extra + "}"
    assert is_shallow(value.encode())
