"""Proposed mappings are valid, and they read the samples that they were made from."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events import Event, EventLimits, Feedback, Impression, MalformedEvent
from streammetrics.events.mappings.decoder import mapped_decoder
from streammetrics.events.mappings.rules import parse_mappings
from streammetrics.events.mappings.suggest import suggested_mappings

SHOP: list[dict[str, Any]] = [
    {"event": "results", "visitor": "v", "at": 1772366400, "search_id": "s", "hits": [{"sku": "a", "rank": 1}, {"sku": "b", "rank": 2}]},
    {"event": "click", "visitor": "v", "at": 1772366405, "search_id": "s", "product": {"sku": "b"}, "login": None},
    {"event": "page", "visitor": "v", "at": 1772366406, "url": "/"},
]


def events(records: list[dict[str, Any]]) -> list[Event | MalformedEvent]:
    tables = tomllib.loads(suggested_mappings(records))["events"]["mappings"]
    decode = mapped_decoder(parse_mappings(tables), EventLimits(), {})
    return [event for record in records for event in decode(json.dumps(record).encode())]


def test_lists_feedback_and_other_records_are_told_apart() -> None:
    shown, clicked, other = events(SHOP)
    assert shown == Impression("s", "v", 1772366400000, ("a", "b"))
    assert clicked == Feedback("v", 1772366405000, "b", "click", None, "s")
    assert isinstance(other, MalformedEvent)
    assert other.reason == "ignored"


def test_a_list_without_an_id_has_a_composed_one() -> None:
    (shown,) = events([{"user": "u", "ts": 1772366400000, "skus": ["a", "b"]}])
    assert shown == Impression("u/1772366400000", "u", 1772366400000, ("a", "b"))


def test_a_field_that_is_not_found_is_a_comment() -> None:
    assert '# user_id = "…"  (required, and no field has a name for it)' in suggested_mappings([{"ts": 1, "skus": ["a", "b"]}])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "sku", "a b", 'q"', "ts"]), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", ["𐀀", "\x7f", "ü", '"', "\\", "\x01"])
def test_a_type_of_any_characters_is_a_toml_string(name: str) -> None:
    records = [{"event": "list", "skus": ["a", "b"]}, {"event": name}, {"event": ""}]
    _, table = tomllib.loads(suggested_mappings(records))["events"]["mappings"]
    assert table == {"kind": "ignore", "when": {"event": [name, ""]}}


def test_records_that_are_neither_lists_nor_feedback_have_no_mapping() -> None:
    assert suggested_mappings([{"type": "page_view", "user_id": "u", "ts": 1}]).startswith("# No mapping can be proposed")


def test_actions_whose_name_says_what_they_are_are_renamed() -> None:
    text = suggested_mappings([{"event": "select_item", "user": "u", "ts": 1772366405000, "sku": "b"}, *SHOP], ["click"])
    tables = tomllib.loads(text)["events"]["mappings"]
    actions = {table["when"]["event"]: table["action"] for table in tables if table["kind"] == "feedback"}
    assert actions == {"select_item": {"path": "event", "rename": {"select_item": "click"}}, "click": "event"}


@given(st.lists(st.dictionaries(st.sampled_from(["event", "user", "ts", "items", "type", "x y"]), JSON), max_size=6))
def test_any_records_give_valid_toml(records: list[dict[str, Any]]) -> None:
    tomllib.loads(suggested_mappings(records))
