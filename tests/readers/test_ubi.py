"""OpenSearch UBI 1.3: documents under each setting, and `_bulk` text."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events import Event, EventLimits, Feedback, Impression, MalformedEvent
from streammetrics.events.outcomes import MALFORMED
from streammetrics.events.reader import Reader
from streammetrics.readers import ubi
from streammetrics.readers.ubi import NO_ITEM
from tests.events.samples import sent, spliced
from tests.readers.reading import LIMITS, events_of, parts_of
from tests.support.tables import for_each

BY_HITS = ubi.reader(lists_from="hit_ids")
SHOWN: dict[str, Any] = {
    "application": "shop",
    "action_name": "impression",
    "query_id": "q1",
    "session_id": "s1",
    "client_id": "c1",
    "user_id": "",
    "timestamp": "2024-11-21T10:00:00.123Z",
    "message": None,
    "event_attributes": {"object": {"object_id": "B07", "object_id_field": "asin"}, "position": {"ordinal": 4}},
}
CLICKED = SHOWN | {"action_name": "click"}
SEARCHED = SHOWN | {"action_name": "search", "event_attributes": None}
QUERY: dict[str, Any] = {
    "application": "shop",
    "query_id": "q1",
    "client_id": "c1",
    "user_query": "chair",
    "query_attributes": {},
    "query_response_hit_ids": ["B09", "B07"],
    "timestamp": "2024-11-21T12:00:00.123+0200",
}
ACTION_LINE = b'{"index": {"_index": "ubi_events", "_id": "1"}}'
SEEN = Impression("q1", "c1", 1732183200123, ("B07",), segments=(("application", "shop"),), positions=(4,))
CLICK = Feedback("c1", 1732183200123, "B07", "click", None, "q1")


def of(value: bytes, read: Reader = ubi.read, limits: EventLimits = LIMITS) -> list[Event | str]:
    """Return the events of a record, and why documents are refused. What is ignored on purpose is left out."""
    return [event for event in events_of(read, value, limits) if event != "ignored"]


def only(value: bytes, read: Reader = ubi.read) -> Event | str:
    (event,) = of(value, read)
    return event


def test_an_impression_of_an_object_is_a_fragment_of_one_item():
    assert only(sent(SHOWN)) == SEEN


def test_ordinals_may_start_at_zero():
    event = only(spliced(SHOWN, "event_attributes", '{"object":{"object_id":"B07"},"position":{"ordinal":0}}'))
    assert isinstance(event, Impression)
    assert event.positions == (0,)


def test_any_other_action_is_feedback():
    assert only(sent(CLICKED)) == CLICK


@for_each(
    product(
        [..., None, {}, {"object": None}, {"object": {}}, {"object": {"object_id": None}}, {"object": {"object_id": ""}}],
        ["search", "impression"],
    )
)
def test_an_event_without_an_object_is_feedback_on_no_item(case: tuple[object, str]) -> None:
    attributes, action = case
    event = only(sent(SEARCHED, action_name=action, event_attributes=attributes))
    assert event == Feedback("c1", 1732183200123, NO_ITEM, action, None, "q1")


@pytest.mark.parametrize("read", [ubi.read, BY_HITS])
def test_lists_may_not_show_the_reserved_item_id(read: Reader):
    attributes = {"object": {"object_id": NO_ITEM}, "position": {"ordinal": 1}}
    events = [*of(sent(SHOWN, event_attributes=attributes), read), *of(sent(QUERY, query_response_hit_ids=["a", NO_ITEM]), read)]
    assert events == ["reader"]


@pytest.mark.parametrize("query_id", [..., None, ""])
def test_only_feedback_may_lack_a_query_id(query_id: object):
    event = only(sent(CLICKED, query_id=query_id))
    assert isinstance(event, Feedback)
    assert event.impression_id is None
    assert only(sent(SHOWN, query_id=query_id)) == "missing_field"
    assert only(sent(QUERY, query_id=query_id), BY_HITS) == "missing_field"


def test_times_are_iso_or_epoch_milliseconds():
    assert only(sent(CLICKED, timestamp=1732183200123)) == only(sent(CLICKED, timestamp="2024-11-21T10:00:00.123+0000")) == CLICK
    assert only(sent(CLICKED, timestamp="2024-11-21T10:00:00")) == "bad_ts"


def test_an_integer_item_is_read_as_its_decimal_text():
    for text in ("0", "-0", "7", "123456789012345678901234567890"):
        event = only(spliced(CLICKED, "event_attributes", f'{{"object":{{"object_id":{text}}}}}'))
        assert isinstance(event, Feedback)
        assert event.item_id == str(int(text))
    mixed = spliced(QUERY, "query_response_hit_ids", '["7",8]')
    assert only(mixed, BY_HITS) == only(sent(QUERY, query_response_hit_ids=["7", "8"]), BY_HITS)


# Where lists come from


def test_with_item_level_impressions_a_query_is_no_event():
    assert of(sent(QUERY)) == []


def test_a_query_without_hits_is_an_empty_list_if_wanted():
    empty = sent(QUERY, query_response_hit_ids=[])
    assert of(empty, BY_HITS) == of(empty) == []
    whole = only(empty, ubi.reader(lists_from="hit_ids", empty_lists=True))
    assert (whole.items, whole.positions) == ((), None)
    fragment = only(empty, ubi.reader(empty_lists=True))
    assert fragment == msgspec.structs.replace(whole, positions=())
    assert of(sent(QUERY), ubi.reader(empty_lists=True)) == of(sent(QUERY, query_response_hit_ids=...), ubi.reader(empty_lists=True)) == []


def test_pages_of_a_query_are_parts_of_its_list():
    by_pages = ubi.reader(lists_from="hit_ids", page_start="from", empty_lists=True)
    pages = [sent(QUERY, query_attributes=attributes) for attributes in (..., {"from": 10})]
    events = [only(page, by_pages) for page in (*pages, sent(QUERY, query_response_hit_ids=[], query_attributes={"from": 20}))]
    assert [(impression.items, impression.positions) for impression in events] == [
        (("B09", "B07"), (0, 1)),
        (("B09", "B07"), (10, 11)),
        ((), ()),
    ]
    assert only(sent(QUERY, query_attributes={"from": "x"}), by_pages) == "reader"


def test_ordinals_that_begin_again_on_each_page_are_moved():
    attributes = {"object": {"object_id": "B07"}, "position": {"ordinal": 2}, "from": 10}
    event = only(sent(SHOWN, event_attributes=attributes), ubi.reader(page_start="from"))
    assert isinstance(event, Impression)
    assert event.positions == (12,)


def test_with_hit_ids_a_query_is_a_list_and_an_impression_is_no_event():
    assert only(sent(QUERY), BY_HITS) == Impression("q1", "c1", 1732183200123, ("B09", "B07"), segments=(("application", "shop"),))
    assert of(sent(SHOWN), BY_HITS) == []
    assert only(sent(CLICKED), BY_HITS) == CLICK


@pytest.mark.parametrize("hits", [[], None, ...])
def test_a_query_without_hits_is_no_event(hits: Any):
    assert of(sent(QUERY, query_response_hit_ids=hits), BY_HITS) == []


# Settings


@pytest.mark.parametrize(("field", "user"), [("client_id", "c1"), ("session_id", "s1")])
def test_the_user_is_the_chosen_field(field: Any, user: str):
    event = only(sent(CLICKED), ubi.reader(user=field))
    assert isinstance(event, Feedback)
    assert event.user_id == user


@pytest.mark.parametrize("attributes", [{}, {"object": {"object_id": "B07"}}])
def test_the_user_may_be_an_attribute_and_an_empty_user_is_absent(attributes: dict[str, Any]):
    by_user = ubi.reader(user="user_id")
    assert only(sent(CLICKED, event_attributes=attributes), by_user) == "missing_field"
    event = only(sent(CLICKED, event_attributes=attributes | {"user_id": "u"}), by_user)
    assert isinstance(event, Feedback)
    assert event.user_id == "u"


@pytest.mark.parametrize(
    ("document", "attributes", "lists_from"), [(SHOWN, "event_attributes", "impressions"), (QUERY, "query_attributes", "hit_ids")]
)
def test_experiments_and_segments_come_from_the_named_fields(document: dict[str, Any], attributes: str, lists_from: Any):
    read = ubi.reader(lists_from=lists_from, segments=("page", "application", "absent"), experiment="ranker")

    def labels(variants: object) -> Any:
        event = only(sent(document, **{attributes: document[attributes] | {"ranker": variants, "page": "home"}}), read)
        return (event.experiments, event.segments) if isinstance(event, Impression) else event

    segments = (("application", "shop"), ("page", "home"))
    assert labels("B") == ((("ranker", "B"),), segments)
    assert labels({"z": "1", "a": "2"}) == ((("a", "2"), ("z", "1")), segments)
    assert labels(None) == labels("") == labels({}) == ((), segments)
    assert labels(1) == ((("ranker", "1"),), segments)
    assert labels(False) == ((("ranker", "false"),), segments)
    assert labels(["B"]) == labels({"a": ""}) == labels({"a": None}) == ((), segments)
    variants, _ = labels({f"e{index:02}": "x" for index in range(17)})
    assert variants == tuple((f"e{index:02}", "x") for index in range(16))


def test_hits_are_read_under_their_former_name():
    former = {name: value for name, value in QUERY.items() if name != "query_response_hit_ids"}
    assert only(sent(former, query_response_object_ids=["a", "b"]), BY_HITS) == only(
        sent(QUERY, query_response_hit_ids=["a", "b"]), BY_HITS
    )


def test_a_bad_label_costs_only_that_label():
    read = ubi.reader(segments=("application", "page"), experiment="ranker")

    def found(**attributes: object) -> Any:
        event = only(sent(SHOWN, application=[7], event_attributes=SHOWN["event_attributes"] | attributes), read)
        return (event.experiments, event.segments, event.label_notes) if isinstance(event, Impression) else event

    assert found(ranker="B", page="home") == ((("ranker", "B"),), (("page", "home"),), ("label_bad_type",))
    assert found(ranker="x" * 129, page="home") == ((), (("page", "home"),), ("label_too_long", "label_bad_type"))
    assert found(ranker={"a": ["y"], "b": "x"}) == ((("b", "x"),), (), ("label_bad_type", "label_bad_type"))


def test_a_value_comes_from_the_named_field():
    dwell = ubi.reader(value="dwell_time")

    def value(event: Event | str) -> Any:
        return event.value if isinstance(event, Feedback) else event

    assert value(only(sent(CLICKED, event_attributes={"dwell_time": 12.5}), dwell)) == 12.5
    assert value(only(sent(CLICKED, dwell_time=0, event_attributes={"dwell_time": 12.5}), dwell)) == 0.0
    assert value(only(sent(CLICKED, dwell_time=3))) is None
    assert value(only(sent(CLICKED), dwell)) is None
    assert value(only(sent(CLICKED, dwell_time="long"), dwell)) == "bad_value"


def test_one_field_may_be_used_twice():
    event = only(sent(SHOWN), ubi.reader(segments=("client_id", "query_id")))
    assert isinstance(event, Impression)
    assert event.segments == (("client_id", "c1"), ("query_id", "q1"))


# Bulk text


@pytest.mark.parametrize("line", [ACTION_LINE, b'{"create":{}}', b'{"update":{"_id":"1"}}', b'{"delete":{"_id":"1"}}'])
def test_an_action_line_is_no_event(line: bytes):
    assert of(line) == of(line + b"\n") == []


def test_bulk_text_has_the_events_of_its_lines_in_order():
    text = b"\n".join([ACTION_LINE, sent(SHOWN), b"", ACTION_LINE, sent(QUERY), b"  ", ACTION_LINE + b"\r", sent(CLICKED) + b"\r", b""])
    assert of(text) == [SEEN, CLICK]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_bulk_text_with_a_malformed_line_is_refused_as_a_whole(place: int):
    lines = [sent(SHOWN), sent(CLICKED)]
    lines.insert(place, sent(CLICKED)[:-1])
    assert of(b"\n".join(lines)) == ["bad_json"]


def test_one_document_may_have_several_lines():
    assert only(b"\n" + json.dumps(CLICKED, indent=2).encode() + b"\n") == CLICK


def pretty(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=2).encode()


def test_a_document_of_several_lines_may_contain_a_line_that_is_a_document():
    value = pretty(CLICKED | {"message": [{}]})
    assert b"\n    {}\n" in value
    assert only(value) == CLICK


def test_an_oversized_document_of_several_lines_is_rejected_once():
    long = CLICKED | {"message": ["x" * 10] * 300 + [{}]}
    limits = EventLimits(event_bytes_max=2_000)
    assert of(sent(long), limits=limits) == of(pretty(long), limits=limits) == ["oversized"]


def test_a_broken_document_of_several_lines_is_rejected_once():
    assert of(pretty(CLICKED)[:-1]) == of(pretty(CLICKED)[1:]) == ["bad_json"]
    assert of(pretty(CLICKED)[:-1], limits=EventLimits(event_bytes_max=100)) == ["oversized"]


def test_the_size_limit_applies_to_the_record():
    limits = EventLimits(event_bytes_max=len(sent(SHOWN)))
    assert of(sent(SHOWN), limits=limits) == [SEEN]
    assert of(sent(SHOWN) + b"\n" + sent(CLICKED), limits=limits) == ["oversized"]


# Rejected documents


@pytest.mark.parametrize("value", [b"", b" \n\r\n "])
def test_absent_and_blank_values_are_empty(value: bytes):
    assert of(value) == ["empty"]


@for_each(
    [
        (b"{", "bad_json"),
        (b"[7]", "reader"),
        (spliced(CLICKED, "message", '"\\ud800"'), "bad_json"),
        (b"{}", "reader"),
        (b'{"timestamp":1}', "reader"),
        (sent(CLICKED, action_name=...), "reader"),
        (sent(CLICKED, action_name=""), "reader"),
        (sent(CLICKED, action_name="a\u0085"), "bad_label"),
        (sent(CLICKED, timestamp=...), "missing_field"),
        (sent(CLICKED, timestamp=-1), "bad_ts"),
        (sent(CLICKED, client_id=...), "missing_field"),
        (sent(CLICKED, client_id=7.5), "bad_id"),
        (sent(CLICKED, client_id="c\n"), "bad_id"),
        (sent(CLICKED, query_id=True), "bad_id"),
        (sent(CLICKED, event_attributes={"object": {"object_id": 1.5}}), "bad_id"),
        (sent(CLICKED, event_attributes={"object": {"object_id": True}}), "bad_id"),
        (sent(CLICKED, event_attributes={"object": {"object_id": 10**600}}), "bad_id"),
        (sent(SHOWN, event_attributes={"object": {"object_id": "B07"}}), "bad_position"),
        (sent(SHOWN, event_attributes={"object": {"object_id": "B07"}, "position": {"ordinal": -1}}), "bad_position"),
        (sent(SHOWN, event_attributes={"object": {"object_id": "B07"}, "position": {"ordinal": 1.5}}), "bad_position"),
        (sent(SHOWN, event_attributes={"object": {"object_id": "B07"}, "position": 4}), "reader"),
    ]
)
def test_each_broken_rule_has_its_reason(case: tuple[bytes, str]) -> None:
    value, expected = case
    assert only(value) == expected


@pytest.mark.parametrize(
    ("hits", "expected"),
    [("7", "reader"), ('["a",""]', "bad_id"), ('["a",1.5]', "bad_id"), (json.dumps(["a"] * 1001), "too_many_items")],
)
def test_hit_ids_follow_the_rules_of_items(hits: str, expected: str):
    assert only(spliced(QUERY, "query_response_hit_ids", hits), BY_HITS) == expected


def test_unused_fields_are_not_checked():
    assert only(sent(CLICKED, application=7, event_attributes={"object": {"object_id": "B07"}, "position": "left"})) == CLICK
    assert of(sent(QUERY, query_response_hit_ids=[7, None], timestamp="never")) == []


# Properties


@given(st.binary())
def test_no_input_makes_the_reader_raise(value: bytes):
    for part in parts_of(ubi.read, value):
        assert not isinstance(part, MalformedEvent) or part.reason in (*MALFORMED, "ignored")


values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.sampled_from(["", "a", "-", "\x7f", "x" * 200, "2024-11-21T10:00:00Z"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(
            st.sampled_from(["object", "object_id", "position", "ordinal", "user_id", "page", "ranker", "dwell"]), inner, max_size=4
        ),
    ),
    max_leaves=8,
)
options = st.fixed_dictionaries(
    {
        "lists_from": st.sampled_from(["impressions", "hit_ids"]),
        "empty_lists": st.booleans(),
        "user": st.sampled_from(["client_id", "user_id"]),
        "segments": st.sampled_from([(), ("application",), ("application", "page"), ("client_id",)]),
        "experiment": st.sampled_from(["", "ranker", "x" * 200]),
        "value": st.sampled_from(["", "dwell", "ordinal"]),
        "page_start": st.sampled_from(["", "page"]),
    }
)


@given(st.sampled_from([SHOWN, CLICKED, SEARCHED, QUERY]), st.data(), options)
def test_each_document_has_one_outcome(document: dict[str, Any], data: st.DataObject, chosen: dict[str, Any]) -> None:
    fields = st.sampled_from([*document, "page", "ranker", "dwell", "index"])
    changed = document | data.draw(st.dictionaries(fields, values, max_size=3))
    assert len(events_of(ubi.reader(**chosen), changed)) == 1


def documents() -> list[bytes]:
    click = {"action_name": "click", "client_id": "c", "query_id": "q", "timestamp": 5}
    return [json.dumps({**click, "event_attributes": {"object": {"object_id": item}}}).encode() for item in ("a", "b")]


@pytest.mark.parametrize(
    "form",
    [b"[%b,%b]", b" [ %b,\n  %b ]\n", b"[%b]\n[%b]\n", b"%b\n[%b]", b'{"_index":"ubi_events","_source":%b}\n{"_id":"7","_source":%b}'],
)
def test_arrays_and_search_hits_hold_their_documents(form: bytes) -> None:
    first, second = documents()
    assert of(form % (first, second)) == [*of(first), *of(second)]


def test_events_of_an_array_are_checked_one_by_one() -> None:
    first, second = documents()
    assert of(b"[%b,%b,%b]" % (first, sent(CLICKED, client_id=...), second)) == [*of(first), "missing_field", *of(second)]


@pytest.mark.parametrize(
    "value", [b"[" * 100_000, b'[{"action_name":', b'["\xff"]', b'{"_id":"1","_source":' * 1_000 + b"1" + b"}" * 1_000]
)
def test_damaged_arrays_and_hits_are_malformed(value: bytes) -> None:
    assert of(value) == ["bad_json"]


def test_a_document_that_only_has_a_field_named_source_is_read_as_itself() -> None:
    first, _ = documents()
    assert of(first[:-1] + b',"_source":{}}') == of(first)


def test_the_exposure_event_may_have_another_name() -> None:
    viewed = ubi.reader(exposure="view")
    assert isinstance(only(sent(SHOWN, action_name="view"), viewed), Impression)
    assert isinstance(only(sent(SHOWN), viewed), Feedback)


def test_a_rank_is_the_position_of_an_item_without_an_ordinal() -> None:
    attributes = {"object": {"object_id": "B07"}, "rank": 0}
    assert only(sent(SHOWN, event_attributes=attributes)) == only(spliced(SHOWN, "event_attributes", json.dumps(attributes, indent=1)))
    events = [only(sent(SHOWN, event_attributes=attributes | extra)) for extra in ({}, {"position": {}}, {"position": {"ordinal": 4}})]
    assert [event.positions for event in events if isinstance(event, Impression)] == [(0,), (0,), (4,)]


def test_hits_may_have_the_name_of_earlier_versions() -> None:
    older = sent(QUERY, query_response_hit_ids=..., query_response_object_ids=["B09", "B07"])
    assert only(older, BY_HITS) == only(sent(QUERY), BY_HITS)


@pytest.mark.parametrize("number", [0, 17, -3, 10**30])
def test_numeric_users_and_queries_are_read_as_decimal_text(number: int) -> None:
    event = only(sent(SHOWN, client_id=number, query_id=number))
    assert event == only(sent(SHOWN, client_id=str(number), query_id=str(number)))


def test_attributes_that_are_no_object_are_refused() -> None:
    assert of(sent(CLICKED, event_attributes=json.dumps(CLICKED["event_attributes"]))) == ["reader"]


def test_an_option_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="lists_from is 'hits'"):
        ubi.reader(lists_from="hits")
