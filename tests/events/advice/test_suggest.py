"""Proposed mappings are valid, and they read the samples that they were made from."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events import Event, EventLimits, Feedback, Impression, MalformedEvent
from streammetrics.events.advice.suggest import suggested_mappings
from streammetrics.events.mappings.decoder import mapped_decoder
from streammetrics.events.mappings.rules import parse_mappings
from tests.events.advice.invented_formats import FORMATS
from tests.support.tables import for_each

SHOP: list[dict[str, Any]] = [
    {"event": "results", "visitor": "v", "at": 1772366400, "search_id": "s", "hits": [{"sku": "a", "rank": 1}, {"sku": "b", "rank": 2}]},
    {"event": "click", "visitor": "v", "at": 1772366405, "search_id": "s", "product": {"sku": "b"}, "login": None},
    {"event": "page", "visitor": "v", "at": 1772366406, "url": "/"},
]


def events(records: list[dict[str, Any]]) -> list[Event | MalformedEvent]:
    tables = tomllib.loads(suggested_mappings(records).text)["events"]["mappings"]
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
    assert '# user_id = "…"  (required, and no field has a name for it)' in suggested_mappings([{"ts": 1, "skus": ["a", "b"]}]).text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "sku", "a b", 'q"', "ts"]), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", ["𐀀", "\x7f", "ü", '"', "\\", "\x01"])
def test_a_type_of_any_characters_is_a_toml_string(name: str) -> None:
    records = [{"event": "list", "skus": ["a", "b"]}, {"event": name}, {"event": ""}]
    _, table = tomllib.loads(suggested_mappings(records).text)["events"]["mappings"]
    assert table == {"kind": "ignore", "when": {"event": [name, ""]}}


def test_the_id_of_an_item_may_have_a_name_with_a_space() -> None:
    (shown,) = events([{"user": "u", "ts": 1772366400000, "rows": [{"a b": "x"}, {"a b": "y"}]}])
    assert isinstance(shown, Impression)
    assert shown.items == ("x", "y")


def test_records_that_are_neither_lists_nor_feedback_have_no_mapping() -> None:
    assert suggested_mappings([{"type": "page_view", "user_id": "u", "ts": 1}]).text.startswith("# No mapping can be proposed")


def test_actions_whose_name_says_what_they_are_are_renamed() -> None:
    text = suggested_mappings([{"event": "select_item", "user": "u", "ts": 1772366405000, "sku": "b"}, *SHOP], ["click"]).text
    tables = tomllib.loads(text)["events"]["mappings"]
    actions = {table["when"]["event"]: table["action"] for table in tables if table["kind"] == "feedback"}
    assert actions == {"select_item": {"path": "event", "rename": {"select_item": "click"}}, "click": "event"}


def test_an_order_is_no_list_and_its_id_is_not_that_of_a_list() -> None:
    order = {"event": "purchase", "visitor": "v", "at": 1772366409, "order": "o1", "lines": [{"sku": "a"}, {"sku": "b"}]}
    *_, first, second = events([*SHOP, order])
    assert (first, second) == tuple(Feedback("v", 1772366409000, item, "purchase", None, None) for item in "ab")


def test_the_mappings_of_one_topic_apply_to_it_alone_and_need_no_list() -> None:
    suggestion = suggested_mappings(SHOP[1:], ["click"], "clicks")
    tables = tomllib.loads(suggestion.text)["events"]["mappings"]
    assert (suggestion.is_whole, [table["topics"] for table in tables]) == (True, [["clicks"]] * 2)


def test_actions_are_found_by_their_values_and_lists_of_another_topic_by_the_name_of_their_id() -> None:
    records = [{"user": "u", "ts": 1772366400, "search_id": "s", "sku": "a", "what": what} for what in ("skip", "product_click", "skip")]
    (table,) = tomllib.loads(suggested_mappings(records, ["click", "skip"], "clicks").text)["events"]["mappings"]
    assert table["action"] == {"path": "what", "rename": {"product_click": "click"}}
    assert table["impression_id"] == "search_id"


def test_ids_that_are_joined_in_a_text_have_a_separator() -> None:
    rows = [{"queryId": "q1", "sessionId": "s1", "when": "2026-03-01T12:00:00Z", "items": "a1,b2"}, CSV_ROW]
    assert events(rows)[0] == Impression("q1", "s1", 1772366400000, ("a1", "b2"))


CSV_ROW = {"queryId": "q2", "sessionId": "s2", "when": "2026-03-01T12:00:01Z", "items": "c3"}


@given(st.lists(st.dictionaries(st.sampled_from(["event", "user", "ts", "items", "type", "x y"]), JSON), max_size=6))
def test_any_records_give_valid_toml(records: list[dict[str, Any]]) -> None:
    tomllib.loads(suggested_mappings(records).text)


def shown_lists(found: list[Event | MalformedEvent]) -> set[tuple[str, str, tuple[str, ...]]]:
    """Return the list id (empty for a composed one), the user and the items of each list. Parts of one list are joined."""
    items: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for event in found:
        if isinstance(event, Impression):
            places = event.positions or range(len(event.items))
            items.setdefault((event.impression_id, event.user_id), []).extend(zip(places, event.items, strict=True))
    return {("" if "/" in of else of, user, tuple(item for _, item in sorted(places))) for (of, user), places in items.items()}


@for_each(FORMATS)
def test_invented_formats_are_read_right_or_have_a_skeleton(name: str) -> None:
    records, (lists, reactions) = FORMATS[name]
    suggestion = suggested_mappings(records, ["click", "purchase", "watch"])
    assert suggestion.is_whole is bool(lists), suggestion.text
    if not lists:
        assert all(line.startswith("#") for line in suggestion.text.splitlines())
        assert all(f"#   {path}  such as " in suggestion.text for path in records[0])
        return
    found = events(records)
    assert shown_lists(found) == lists
    assert {(event.user_id, event.item_id) for event in found if isinstance(event, Feedback)} == reactions
    assert all(event.reason == "ignored" for event in found if isinstance(event, MalformedEvent))
