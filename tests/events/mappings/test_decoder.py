"""Mapped records become the events that the mappings describe, and errors name the path and the value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events import Event, EventLimits, Feedback, Impression, MalformedEvent, decoder
from streammetrics.events.mappings.decoder import mapped_decoder
from streammetrics.events.mappings.explainer import IGNORED_RECORD, Explainer
from streammetrics.events.mappings.rules import parse_mappings
from streammetrics.events.outcomes import MALFORMED
from tests.support.tables import for_each

LIMITS = EventLimits(items_max=5)
LIST: dict[str, Any] = {"kind": "impression", "user_id": "user", "ts": "time", "impression_id": "id", "items": "skus"}
CLICK: dict[str, Any] = {"kind": "feedback", "user_id": "user", "ts": "time", "item_id": "sku", "action": {"value": "click"}}
SHOWN = {"user": "u", "time": 5, "id": "r", "skus": ["a", "b"]}
CLICKED = {"user": "u", "time": 5, "sku": "a"}


def decoded(tables: list[dict[str, Any]], record: dict[str, Any]) -> list[Event | MalformedEvent]:
    """Decode a record, and check that the typed parser and the explainer agree."""
    rules, value = parse_mappings(tables), json.dumps(record).encode()
    formats = {"native": decoder("native", LIMITS)}
    found = list(mapped_decoder(rules, LIMITS, formats)(value))
    assert str(list(Explainer(rules, LIMITS, formats, [None] * len(rules))(value))) == str(found)
    return found


def only(table: dict[str, Any], record: dict[str, Any]) -> Any:
    (event,) = decoded([table], record)
    return event


def why(table: dict[str, Any], record: dict[str, Any]) -> tuple[str, str]:
    event = only(table, record)
    assert isinstance(event, MalformedEvent)
    return event.reason, event.detail


def test_a_list_comes_from_an_array_of_strings() -> None:
    assert only(LIST, SHOWN) == Impression("r", "u", 5, ("a", "b"))


def test_a_list_comes_from_objects_in_the_order_of_their_positions() -> None:
    objects = [{"sku": "a", "rank": 9}, {"sku": "b", "rank": "2"}]
    assert only(LIST | {"item_id": "sku", "item_position": "rank"}, SHOWN | {"skus": objects}).items == ("b", "a")


def test_items_may_have_teams() -> None:
    objects = [{"sku": "a", "ranker": "new"}, {"sku": "b"}]
    assert only(LIST | {"item_id": "sku", "item_team": "ranker"}, SHOWN | {"skus": objects}).teams == ("new", "")


def test_ids_in_one_text_are_separated() -> None:
    assert only(LIST | {"item_separator": "|"}, SHOWN | {"skus": "a | b|"}).items == ("a", "b")


def test_one_item_of_each_record_is_a_fragment() -> None:
    table = {key: value for key, value in LIST.items() if key != "items"}
    found = only(table | {"item_id": "sku", "item_position": "rank", "fragment": True}, SHOWN | {"sku": "a", "rank": 3})
    assert (found.items, found.positions) == (("a",), (3,))


@pytest.mark.parametrize(
    ("page_start", "record", "positions"),
    [
        ("from", {"from": 10}, (10, 11)),
        ("from", {}, (0, 1)),
        ({"page": "page", "size": 20}, {"page": 3}, (40, 41)),
        ({"page": "page", "size": 20}, {"page": "1"}, (0, 1)),
        ({"page": "page", "size": "per_page", "first": 0}, {"page": 1, "per_page": 2}, (2, 3)),
    ],
)
def test_a_page_is_a_part_of_a_list_after_the_items_of_earlier_pages(page_start: object, record: Any, positions: tuple[int, ...]) -> None:
    found = only(LIST | {"page_start": page_start}, SHOWN | record)
    assert (found.items, found.positions) == (("a", "b"), positions)


def test_places_that_begin_again_on_each_page_are_moved() -> None:
    table = LIST | {"item_id": "sku", "item_position": "rank", "page_start": "from"}
    found = only(table, SHOWN | {"skus": [{"sku": "a", "rank": 2}, {"sku": "b", "rank": 1}], "from": 2})
    assert (found.items, found.positions) == (("b", "a"), (3, 4))


def test_places_of_pages_may_be_ranks() -> None:
    rules = parse_mappings([LIST | {"page_start": "from"}, LIST | {"item_id": "sku", "item_position": "rank", "page_start": "from"}])
    ranks = EventLimits(items_max=5, first_place=1)
    for rule, skus in zip(rules, (["a", "b"], [{"sku": "a", "rank": 1}, {"sku": "b", "rank": 2}]), strict=True):
        decode = mapped_decoder([rule], ranks, {})
        of_page = [decode(json.dumps(SHOWN | {"skus": skus, "from": start}).encode())[0] for start in (3, 4)]
        assert isinstance(of_page[0], Impression)
        assert isinstance(of_page[1], MalformedEvent)
        assert (of_page[0].positions, of_page[1].reason) == ((3, 4), "bad_position")


@pytest.mark.parametrize(
    ("record", "reason", "words"),
    [
        ({"page": 0}, "bad_position", "page_start (page): the items of a page must have places in 0"),
        ({"page": 1.5}, "bad_position", "page_start (page) must be a whole number"),
        ({"page": 2}, "missing_field", "page_start (page), size (size) is required"),
    ],
)
def test_a_page_that_cannot_be_is_refused(record: Any, reason: str, words: str) -> None:
    found = why(LIST | {"page_start": {"page": "page", "size": "size"}}, SHOWN | record)
    assert found[0] == reason
    assert words in found[1]


@pytest.mark.parametrize(
    ("ts", "record"),
    [
        ("{date}T{time}{offset}", {"date": "2026-03-01", "time": "12:00", "offset": "+01:00"}),
        ("{at}{zone}", {"at": "2026-03-01 12:00:00", "zone": "+0100"}),
        ("{date}T{time}Z", {"date": "20260301", "time": "110000"}),
    ],
)
def test_a_time_may_be_in_two_fields(ts: str, record: Any) -> None:
    assert only(CLICK | {"ts": ts}, CLICKED | record).ts == 1_772_362_800_000


def test_a_feedback_comes_from_single_fields() -> None:
    table = CLICK | {"impression_id": "list", "value": "seconds", "action": "what"}
    assert only(table, CLICKED | {"list": "r", "seconds": "1.5", "what": "watch"}) == Feedback("u", 5, "a", "watch", 1.5, "r")


def test_an_array_gives_several_feedbacks() -> None:
    table = CLICK | {"items": "lines", "item_id": "sku", "item_value": "price", "item_action": "what"}
    record = CLICKED | {"lines": [{"sku": "a", "price": 3, "what": "buy"}, {"sku": 7}]}
    assert decoded([table], record) == [Feedback("u", 5, "a", "buy", 3.0), Feedback("u", 5, "7", "click")]


def test_one_record_gives_a_list_and_its_feedback() -> None:
    assert decoded([LIST, CLICK], SHOWN | CLICKED) == [Impression("r", "u", 5, ("a", "b")), Feedback("u", 5, "a", "click")]


def test_a_malformed_part_does_not_affect_the_other_events_of_a_record() -> None:
    shown, clicked = decoded([LIST, CLICK], SHOWN | CLICKED | {"sku": []})
    assert isinstance(shown, Impression)
    assert isinstance(clicked, MalformedEvent)


def test_the_first_alternative_that_is_present_is_used() -> None:
    table = CLICK | {"user_id": ["login", "user"]}
    assert [only(table, CLICKED | {"login": login}).user_id for login in ("l", "", None)] == ["l", "u", "u"]


def test_an_id_is_composed() -> None:
    assert only(LIST | {"impression_id": "{user}/{time}"}, SHOWN).impression_id == "u/5"


def test_texts_are_renamed() -> None:
    table = CLICK | {"action": {"path": "what", "rename": {"Product Clicked": "click"}}}
    assert [only(table, CLICKED | {"what": what}).action for what in ("Product Clicked", "buy")] == ["click", "buy"]


def test_given_texts_count_as_absent() -> None:
    table = CLICK | {"user_id": ["login", "user"], "absent": ["(not set)"]}
    assert only(table, CLICKED | {"login": "(not set)"}).user_id == "u"


def test_whole_numbers_become_decimal_text() -> None:
    assert only(LIST, SHOWN | {"user": 7, "id": 0, "skus": [1, "b"]}) == Impression("0", "7", 5, ("1", "b"))


@for_each(
    [
        ("ms", 1772359200123, 1772359200123),
        ("ms", "1772359200123", 1772359200123),
        ("ms", 1772359200123.9, 1772359200123),
        ("s", 1772359200, 1772359200000),
        ("s", 1772359200.1239, 1772359200123),
        ("us", "1772359200123999", 1772359200123),
        ("ns", 1772359200123999999, 1772359200123),
        ("s", "2026-03-01T10:00:00.123Z", 1772359200123),
        ("utc", "2026-03-01 10:00:00.123", 1772359200123),
    ]
)
def test_times_have_a_unit_or_are_iso(case: tuple[str, object, int]) -> None:
    unit, found, ts = case
    assert only(CLICK | {"ts_unit": unit}, CLICKED | {"time": found}).ts == ts


def test_experiments_and_segments_come_from_paths_or_objects() -> None:
    table = LIST | {"experiments": "ab", "segments": {"page": "page", "new": "is_new", "none": "absent"}}
    found = only(table, SHOWN | {"ab": {"ranker": "b"}, "page": 2, "is_new": True})
    assert found.experiments == (("ranker", "b"),)
    assert found.segments == (("new", "true"), ("page", "2"))


def test_a_bad_label_costs_only_that_label() -> None:
    found = only(LIST | {"segments": {"a": "x", "b": "y"}}, SHOWN | {"x": [], "y": "z"})
    assert (found.segments, found.label_notes) == ((("b", "z"),), ("label_bad_type",))


@for_each(
    [
        ({"a": "x"}, {"a": "x"}, True),
        ({"a": "x"}, {"a": ["x"]}, False),
        ({"a": ["x", "y"]}, {"a": "y"}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": True}, True),
        ({"a": {"not": "x"}}, {"a": "y"}, True),
        ({"a": {"not": "x"}}, {"a": "x"}, False),
        ({"a": {"present": True}}, {"a": ""}, False),
        ({"a": {"present": False}}, {}, True),
        ({"a.b": "x", "c": "y"}, {"a": {"b": "x"}, "c": "y"}, True),
        ({"a.b": "x", "c": "y"}, {"a": {"b": "x"}}, False),
    ]
)
def test_a_condition_selects_records(case: tuple[dict[str, Any], dict[str, Any], bool]) -> None:
    when, record, holds = case
    (found,) = decoded([CLICK | {"when": when}], CLICKED | record)
    assert isinstance(found, Feedback) is holds


def test_other_records_are_ignored_only_if_no_other_mapping_applies() -> None:
    tables = [CLICK | {"when": {"event": "click"}}, {"kind": "ignore"}]
    assert decoded(tables, CLICKED | {"event": "page"}) == list(IGNORED_RECORD)
    assert decoded(tables, CLICKED | {"event": "click"}) == [Feedback("u", 5, "a", "click")]


def test_native_events_pass_through() -> None:
    tables = [{"kind": "native", "when": {"type": ["impression", "feedback"]}}, {"kind": "ignore"}]
    record = {"type": "feedback", "user_id": "u", "ts": 5, "item_id": "a", "action": "click"}
    assert decoded(tables, record) == [Feedback("u", 5, "a", "click")]


def test_a_record_without_a_mapping_names_the_values_of_the_conditions() -> None:
    assert why(CLICK | {"when": {"event": "click", "a.b": "x"}}, {"event": "page"}) == (
        "bad_type",
        'no mapping applies to this record: event is "page", a.b is absent; add a mapping for it, or one with kind = "ignore"',
    )


@for_each(
    [
        (LIST, {"user": None}, "missing_field", "user_id (user) is required"),
        (LIST, {"user": {}}, "bad_id", "user_id (user) must be a text or a whole number; got {}"),
        (LIST, {"user": "a\n"}, "bad_id", "user_id (user) must have 1 to 512 characters and no control characters"),
        (LIST, {"id": ""}, "missing_field", "impression_id (id) is required"),
        (LIST, {"time": "noon"}, "bad_ts", 'got "noon"'),
        (LIST, {"time": -1}, "bad_ts", "ts (time) must be milliseconds since 1970"),
        (LIST, {"time": None}, "missing_field", "ts (time) is required"),
        (LIST, {"skus": None}, "missing_field", "items (skus) is required"),
        (LIST, {"skus": "a|b"}, "bad_value", "items (skus) must be an array"),
        (LIST, {"skus": ["a", ""]}, "missing_field", "items (skus[1]) is required"),
        (LIST, {"skus": ["a", 1.5]}, "bad_id", "items (skus[1]) must be a text or a whole number; got 1.5"),
        (LIST, {"skus": ["a"] * 6}, "too_many_items", "at most 5 items"),
        (LIST | {"item_id": "sku"}, {"skus": [{"sku": "a"}, {"id": "b"}]}, "missing_field", "items (skus[1].sku) is required"),
        (LIST | {"item_position": "p", "item_id": "i"}, {"skus": [{"i": "a", "p": "x"}]}, "bad_position", "item_position (p)"),
        (LIST | {"item_position": "p", "item_id": "i"}, {"skus": [{"i": "a", "p": 1}, {"i": "b", "p": 1}]}, "bad_position", "distinct"),
        (CLICK | {"action": "what"}, {"sku": "a"}, "missing_field", "action (what) is required"),
        (CLICK | {"value": "v"}, {"sku": "a", "v": "many"}, "bad_value", 'value (v) must be a finite number; got "many"'),
    ]
)
def test_errors_name_the_path_and_the_value(case: tuple[dict[str, Any], dict[str, Any], str, str]) -> None:
    table, change, reason, text = case
    found, detail = why(table, SHOWN | change)
    assert found == reason
    assert detail.startswith("mapping 1: ")
    assert text in detail


@for_each([None, b"", b"  ", b"[1]", b"{", b'{"user":"\xff"}', b"{" * 300, b'{"a":' * 300 + b"1" + b"}" * 300])
def test_records_that_are_no_object_are_malformed(value: bytes | None) -> None:
    (found,) = mapped_decoder(parse_mappings([LIST]), LIMITS, {})(value)
    assert isinstance(found, MalformedEvent)
    assert found.reason in ("empty", "bad_json")


def test_the_size_limit_applies_to_the_record() -> None:
    (found,) = mapped_decoder(parse_mappings([LIST]), EventLimits(event_bytes_max=10), {})(json.dumps(SHOWN).encode())
    assert isinstance(found, MalformedEvent)
    assert found.reason == "oversized"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3) | st.just("a"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "p", "x"]), inner, max_size=3),
    max_leaves=6,
)
TABLES = [
    LIST | {"item_id": ["id", "x"], "item_position": "p", "segments": {"s": "seg"}, "experiments": "ab", "when": {"kind": ["a", "b"]}},
    CLICK | {"value": "v", "impression_id": "{id}-{time}", "action": ["act", {"value": "click"}]},
    {"kind": "ignore", "when": {"user": {"present": False}}},
]


@given(st.dictionaries(st.sampled_from(["user", "time", "id", "skus", "sku", "seg", "ab", "kind", "v", "act"]), VALUES))
def test_no_record_makes_the_decoder_raise(record: dict[str, Any]) -> None:
    for event in decoded(TABLES, {"user": "u", "time": 5, "kind": "a"} | record):
        assert not isinstance(event, MalformedEvent) or event.reason in (*MALFORMED, "ignored")


@for_each(["1e999", "1e99999999999999999999", "-1e-99999999999999999999", "1e400", "1e30", "1.5e29", "-0.5"])
def test_absurd_numbers_are_malformed_where_they_are_used(number: str) -> None:
    tables = [LIST | {"segments": {"s": "s"}, "impression_id": "{id}"}, CLICK | {"value": "v"}]
    decode = mapped_decoder(parse_mappings(tables), LIMITS, {})
    sent = json.dumps(SHOWN | CLICKED)[:-1]
    assert [type(event) for event in decode(f'{sent},"unused":{number}}}'.encode())] == [Impression, Feedback]
    late = [event for event in decode(f'{sent},"time":{number},"v":{number}}}'.encode()) if isinstance(event, MalformedEvent)]
    assert {event.reason for event in late} <= {"bad_ts", "bad_value"}


def test_absent_items_and_positions_may_have_a_value() -> None:
    table = LIST | {"items": ["skus", "products", {"value": []}], "item_id": "sku", "item_position": ["place", {"value": 0}]}
    record = {name: value for name, value in SHOWN.items() if name != "skus"}
    assert only(table, record).items == ()
    assert only(table, record | {"products": [{"sku": "a", "place": 1}, {"sku": "b"}]}).items == ("b", "a")
    assert only(CLICK | {"value": ["seconds", {"value": 0}]}, CLICKED).value == 0


def test_a_list_without_any_position_is_refused_unless_its_order_counts() -> None:
    table, ordered = (LIST | {"item_id": "sku", "item_position": place} for place in ("place", ["place", {"order": True}]))
    misspelt, right = (SHOWN | {"skus": [{"sku": "a", name: 2}, {"sku": "b", name: 1}]} for name in ("places", "place"))
    reason, detail = why(table, misspelt)
    assert reason == "bad_position"
    assert "item_position (place) has no value in any item of the list; did you mean places?" in detail
    assert only(ordered, misspelt).items == ("a", "b")
    assert only(ordered, right).items == only(table, right).items == ("b", "a")
    assert only(table, SHOWN | {"skus": []}).items == ()


def test_paths_go_into_json_in_a_text() -> None:
    inside = {"id": "r", "skus": ["a", "b"], "ab": {"ranker": "new"}}
    table = LIST | {"impression_id": "p.id", "items": "p.skus", "experiments": {"ranker": "p.ab.ranker"}, "segments": "s"}
    expected = Impression("r", "u", 5, ("a", "b"), (("ranker", "new"),), (("page", "home"),))
    for text in (json.dumps(inside), inside):
        for segments in ({"page": "home"}, '{"page":"home"}'):
            assert only(table, {"user": "u", "time": 5, "p": text, "s": segments}) == expected
    assert only(LIST, SHOWN | {"skus": '["a","b"]'}).items == ("a", "b")
    assert why(table, {"user": "u", "time": 5, "p": "{broken"})[0] == "missing_field"


def test_whole_numbers_that_became_floats_are_ids() -> None:
    assert decoded([CLICK], CLICKED | {"user": 7.0, "sku": 42.0}) == decoded([CLICK], CLICKED | {"user": 7, "sku": 42})
    assert why(CLICK, CLICKED | {"sku": 1e17})[0] == "bad_id"


def test_an_array_of_records_is_a_batch() -> None:
    value = json.dumps([SHOWN, {"user": "u"}, SHOWN]).encode()
    first, refused, last = mapped_decoder(parse_mappings([LIST]), LIMITS, {})(value)
    assert first == last == Impression("r", "u", 5, ("a", "b"))
    assert isinstance(refused, MalformedEvent)
    assert refused.detail.startswith("event 2 of 3 in the record: mapping 1: impression_id (id) is required")
