"""The cheap depth check of JSON text never contradicts the exact one, nor the fast reader of times the general one."""

from __future__ import annotations

import json
from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.events.json_text import NESTING_MAX, is_shallow, iso_ms, too_deep
from tests.support.tables import for_each

SHORTEST = {"[": ("[", "]"), "{": ('{"":', "}")}


def nested(kinds: str, innermost: str = "", within: str = "") -> bytes:
    """Return the shortest JSON with one level per bracket of `kinds` around `innermost`."""
    opening = "".join(SHORTEST[kind][0] for kind in kinds)
    closing = "".join(SHORTEST[kind][1] for kind in reversed(kinds))
    return f"{within}{opening}{innermost}{closing}".encode()


@for_each(product(["[", "{", "[{", "{[", "[[{", "{{["], range(NESTING_MAX - 2, NESTING_MAX + 4), ["{}", "[]", "[{}]"], ["", " "]))
def test_deep_json_is_never_called_shallow(case: tuple[str, int, str, str]) -> None:
    kinds, levels, innermost, spaces = case
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


@for_each(product([1, 12, 40, 1000], ["", ',"page":{"shown":[1,2],"at":{"x":1}}']))
def test_long_lists_of_strings_are_called_shallow(case: tuple[int, str]) -> None:
    items, extra = case
    value = '{"items":' + json.dumps(["i" * 35] * items) + ',"experiments":{"a":"x"},"segments":{"b":"y"}' + extra + "}"
    assert is_shallow(value.encode())


ISO = st.from_regex(r"\d{4}-\d\d-\d\d[Tt ]\d\d:?\d\d(:?\d\d([.,]\d{0,8})?)?Z", fullmatch=True) | st.builds(
    lambda text, at, char: text[:at] + char + text[at + 1 :],
    st.sampled_from(["2026-03-01T12:00:00.123Z", "2026-03-01T12:00:00Z", "2026-12-31T23:59:59.999999999Z", "2026-W10-7T12:00:00Z"]),
    st.integers(0, 30),
    st.sampled_from(["", "0", "2", "4", "9", "-", ":", ".", ",", "T", "W", "Z", "+", " ", "\u0664"]),
)


@given(ISO)
@example("2024-11-21T10:00:00.Z")
@example("2026-12-31T23:59:59.999999:99Z")
@example("2024-11-21T24:00:00Z")
@example("2024-11-21T10:00:00.1234567Z")
@example("0000-01-01T00:00:00Z")
@example("2024-11-21T07Z")
def test_a_time_with_z_equals_the_same_time_with_an_offset(text: str):
    if text.endswith("Z"):
        assert iso_ms(text) == iso_ms(text[:-1] + "+00:00")
