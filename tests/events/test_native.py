"""The native schema: accepted and rejected events, and the typed parser agrees with the explainer."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.events import Event, EventLimits, Exposure, Feedback, Impression, MalformedEvent, native_decoder
from streammetrics.events.native import read_event
from streammetrics.events.outcomes import MALFORMED
from tests.events.samples import (
    EXPOSURE,
    FEEDBACK,
    IMPRESSION,
    exposure_objects,
    feedback_objects,
    ids,
    impression_objects,
    positions,
    sent,
    spliced,
)
from tests.support.tables import for_each

LIMITS = EventLimits(exposures=True)
decode = native_decoder(LIMITS)


def only(value: bytes | None) -> Event | MalformedEvent:
    (event,) = decode(value)
    return event


def reason(value: bytes | None) -> str:
    event = only(value)
    assert isinstance(event, MalformedEvent), event
    return event.reason


def impression(**changes: Any) -> Impression:
    event = only(sent(IMPRESSION, **changes))
    assert isinstance(event, Impression), event
    return event


def feedback(**changes: Any) -> Feedback:
    event = only(sent(FEEDBACK, **changes))
    assert isinstance(event, Feedback), event
    return event


def test_an_impression_with_all_fields():
    assert impression() == Impression(
        impression_id="r-81",
        user_id="u7",
        ts=1732183200123,
        items=("a", "b", "c"),
        experiments=(("ranker-v7", "treatment"),),
        segments=(("surface", "home"),),
        positions=None,
    )


def test_a_feedback_with_all_fields():
    assert feedback() == Feedback(user_id="u7", ts=1732183231877, item_id="b", action="watch", value=48.0, impression_id="r-81")


def test_optional_fields_may_be_null_or_absent():
    bare = impression(experiments=..., segments=...)
    assert bare == impression(experiments=None, segments=None, fragment=None)
    assert (bare.experiments, bare.segments) == ((), ())
    assert feedback(value=..., impression_id=...) == feedback(value=None, impression_id=None)


def test_empty_lists_one_item_lists_and_repeated_items_are_valid():
    assert impression(items=[]).items == ()
    assert impression(items=["a"]).items == ("a",)
    assert impression(items=["a", "b", "a"]).items == ("a", "b", "a")


def test_labels_are_sorted_by_name():
    assert impression(experiments={"z": "1", "a": "2"}).experiments == (("a", "2"), ("z", "1"))


def test_an_integer_value_is_a_number():
    value = feedback(value=48).value
    assert (value, type(value)) == (48.0, float)


def test_unknown_fields_are_ignored():
    assert only(spliced(FEEDBACK, "more", '{"ts":[1e999,{"user_id":7}]}')) == feedback()


def test_the_last_of_duplicate_keys_wins_even_if_the_first_is_invalid():
    assert only(b'{"type":"impression","ts":"never",' + sent(FEEDBACK)[1:]) == feedback()
    assert only(spliced(IMPRESSION, "experiments", '{"a":1,"a":"x"}')) == impression(experiments={"a": "x"})


def test_white_space_around_an_event_is_ignored():
    assert only(b" \r\n" + sent(FEEDBACK) + b"\n") == feedback()


def test_escaped_and_raw_text_are_equal():
    name = "caf\u00e9 \u7a93 \U0001f600"
    assert only(json.dumps(FEEDBACK | {"item_id": name}).encode()) == feedback(item_id=name)
    assert only(spliced(FEEDBACK, "type", '"feed\\u0062ack"')) == feedback()


def test_ids_are_not_normalised():
    assert feedback(item_id="e\u0301").item_id != feedback(item_id="\u00e9").item_id


# Positions


def test_positions_only_give_the_order():
    items = [{"id": "c", "position": 70}, {"id": "a", "position": 0}, {"id": "b", "position": 7}]
    assert impression(items=items) == impression(items=["a", "b", "c"])


def test_items_without_positions_keep_their_order_as_strings_or_objects():
    assert impression(items=[{"id": "b"}, "a", {"id": "c", "position": None}]).items == ("b", "a", "c")


def test_a_fragment_keeps_its_positions_ascending():
    part = impression(fragment=True, items=[{"id": "c", "position": 9}, {"id": "a", "position": 2}])
    assert (part.items, part.positions) == (("a", "c"), (2, 9))


def test_an_empty_fragment_is_a_fragment():
    assert impression(fragment=True, items=[]).positions == ()
    assert impression(fragment=False).positions is None


def test_items_may_have_teams():
    items = [{"id": "a", "team": "new"}, "b", {"id": "c", "team": "old"}, {"id": "d", "team": None}]
    assert impression(items=items).teams == ("new", "", "old", "")
    assert impression(items=["a", {"id": "b"}, {"id": "c", "team": None}]).teams == ()
    assert impression(items=[]).teams == ()


def test_a_team_stays_with_its_item_when_items_are_sorted():
    items = [{"id": "a", "team": "new", "position": 7}, {"id": "b", "position": 1}, {"id": "c", "team": "old", "position": 3}]
    for fragment in (False, True):
        event = impression(items=items, fragment=fragment)
        assert (event.items, event.teams) == (("b", "c", "a"), ("", "old", "new"))


@given(st.data(), positions, st.booleans())
def test_items_with_positions_may_be_sent_in_any_order(data: st.DataObject, places: list[int], fragment: bool):
    items = [{"id": data.draw(ids), "position": place} for place in places]
    shuffled = data.draw(st.permutations(items))
    event = impression(items=shuffled, fragment=fragment)
    assert event == impression(items=items, fragment=fragment)
    assert event.items == tuple(item["id"] for item in sorted(items, key=lambda item: item["position"]))
    assert event.positions == (tuple(sorted(places)) if fragment else None)


# Times


@for_each(
    [
        ("0", 0),
        ("253402300799999", 253402300799999),
        ('"1970-01-01T00:00:00Z"', 0),
        ('"9999-12-31T23:59:59.999999Z"', 253402300799999),
        ('"2024-11-21T10:00:00.123Z"', 1732183200123),
        ('"2024-11-21T10:00:00.123999999999Z"', 1732183200123),
        ('"2024-11-21T10:00:00,1Z"', 1732183200100),
        ('"2024-11-21t10:00:00z"', 1732183200000),
        ('"2024-11-21 10:00:00.000Z"', 1732183200000),
        ('"2024-11-21T10:00Z"', 1732183200000),
        ('"20241121T100000Z"', 1732183200000),
        ('"2024-11-21T12:30:00+02:30"', 1732183200000),
        ('"2024-11-21T12:30:00+0230"', 1732183200000),
        ('"2024-11-21T09:00:00-01"', 1732183200000),
        ('"2024-11-21T10:00:00-00:00"', 1732183200000),
        ('"1969-12-31T23:00:00-01:00"', 0),
        ('"2024-02-29T00:00:00Z"', 1709164800000),
    ]
)
def test_a_time_is_milliseconds_or_iso_with_a_zone(case: tuple[str, int]) -> None:
    text, ts = case
    event = only(spliced(FEEDBACK, "ts", text))
    assert isinstance(event, Feedback), event
    assert event.ts == ts


@for_each(
    [
        *("-1", "253402300800000", "1732183200123.0", "1.5", "1e3", "1E12", "true", "[]", "{}", "9" * 30, "9" * 5000),
        *('""', '"1732183200123"'),
        *('"2024-11-21T10:00:00"', '"2024-11-21"', '"2016-12-31T23:59:60Z"', '"2024-11-21T24:00:00Z"', '"2023-02-29T00:00:00Z"'),
        *('"2024-11-21T10:60:00Z"', '"2024-11-21T10:00:00+24:00"', '"2024-11-21T10:00:00+01:60"', '"0000-01-01T00:00:00Z"'),
        *('"1969-12-31T23:59:59.999Z"', '"9999-12-31T23:59:59-00:01"', '"2024-W47-4T10:00:00Z"', '"2024-11-21T10:00:00.Z"'),
        *('" 2024-11-21T10:00:00Z"', '"2024-11-21T10:00:00Z\\n"', '"\u0662024-11-21T10:00:00Z"', '"yesterday"'),
    ]
)
def test_any_other_time_is_malformed(text: str) -> None:
    assert reason(spliced(FEEDBACK, "ts", text)) == "bad_ts"


@for_each(
    [
        ("1772359200000000", "it looks like microseconds: divide by 1000"),
        ("1772359200000000000", "it looks like nanoseconds: divide by 1000000"),
        ("1772359200.123", "it looks like seconds: multiply by 1000 and cut off the fraction"),
        ('"1772359200000"', "it looks like milliseconds: send them as a number without a fraction"),
        ("1772359200000.5", "it looks like milliseconds: send them as a number without a fraction"),
        ('"yesterday"', "send a number, or a time such as 2026-01-31T09:00:00Z"),
        ("-5", "send milliseconds without a fraction or exponent"),
    ]
)
def test_a_refused_time_says_which_unit_it_seems_to_have(case: tuple[str, str]) -> None:
    text, advice = case
    (error,) = decode(spliced(FEEDBACK, "ts", text))
    assert isinstance(error, MalformedEvent)
    assert error.detail.endswith(f"; {advice}")


@pytest.mark.parametrize(("text", "advice"), [("1.5", "send milliseconds"), ('"2024-11-21T10:00:00"', "2026-01-31T09:00:00Z")])
def test_the_detail_of_a_malformed_time_shows_a_valid_form(text: str, advice: str):
    event = only(spliced(FEEDBACK, "ts", text))
    assert isinstance(event, MalformedEvent)
    assert advice in event.detail.rpartition(";")[2]


# Rejected events


@pytest.mark.parametrize("value", [None, b"", b" ", b"\r\n\t"])
def test_absent_and_blank_values_are_empty(value: bytes | None):
    assert reason(value) == "empty"


@for_each(
    [
        *(b"{", b"}", b"[]", b"7", b"null", b'"impression"', sent(FEEDBACK)[:-1], sent(FEEDBACK) + b"x"),
        *(sent(FEEDBACK) * 2, b"\xef\xbb\xbf" + sent(FEEDBACK), sent(FEEDBACK).decode().encode("utf-16"), b"\x00" + sent(FEEDBACK)),
        *(spliced(FEEDBACK, "value", text) for text in ("NaN", "Infinity", "-Infinity", "01", "'1'", "1.")),
        *(spliced(FEEDBACK, "unknown_field", text) for text in ("NaN", "Infinity", "-Infinity", "01", "'1'", "1.")),
        *(spliced(FEEDBACK, field, '"\\ud83d"') for field in ("item_id", "unknown_field")),
        *(spliced(FEEDBACK, field, '"\\udc00 \\ud83d"') for field in ("item_id", "unknown_field")),
        *(spliced(FEEDBACK, field, '"\x01"') for field in ("item_id", "unknown_field")),
        *(spliced(FEEDBACK, field, '"~"').replace(b"~", b"\xff") for field in ("item_id", "unknown_field")),
        spliced(FEEDBACK, "unknown_field", '"~"').replace(b"~", b"\xed\xa0\x80"),
        sent(FEEDBACK)[:-1] + b',"\xff":1}',
    ]
)
def test_anything_but_a_json_object_in_utf8_is_bad_json(value: bytes) -> None:
    assert reason(value) == "bad_json"


@for_each(
    [
        (FEEDBACK, "type", "7", "bad_type"),
        (FEEDBACK, "type", '"Feedback"', "bad_type"),
        (FEEDBACK, "type", '"click"', "bad_type"),
        *((FEEDBACK, field, "null", "missing_field") for field in ("type", "user_id", "ts", "item_id", "action")),
        *((IMPRESSION, field, "null", "missing_field") for field in ("impression_id", "user_id", "ts", "items")),
        *((FEEDBACK, field, text, "bad_id") for field in ("user_id", "item_id", "impression_id") for text in ('""', "7", "true", "[]")),
        *((FEEDBACK, "item_id", text, "bad_id") for text in ('"\\u0000"', '"a\\tb"', '"\\u007f"', '"\x7f"', '"\\u0085"', '"\x9f"')),
        (FEEDBACK, "item_id", f'"{"x" * 513}"', "bad_id"),
        *((FEEDBACK, "action", text, "bad_label") for text in ('""', "7", "[]", '"a\\nb"', f'"{"x" * 129}"')),
        *((FEEDBACK, "value", text, "bad_value") for text in ("1e999", "-1e999", "9" * 400, "true", '"48"', "[]")),
        *((IMPRESSION, "items", text, "bad_id") for text in ("[7]", '["a",null]', '[""]', '["a","b\\u0001"]', '["\x80"]')),
        *((IMPRESSION, "items", text, "bad_id") for text in ('[["a"]]', '[{"id":7}]', '[{"id":"\x7f"}]')),
        *((IMPRESSION, "items", text, "missing_field") for text in ("[{}]", '[{"id":null}]', '[{"position":1}]')),
        *((IMPRESSION, "items", text, "bad_value") for text in ('"abc"', "{}", "7")),
        *(
            (IMPRESSION, "items", f'[{{"id":"a","position":{position}}}]', "bad_position")
            for position in ("-1", "true", "1.0", "1e2", '"1"', "9223372036854775808", "9" * 5000)
        ),
        (IMPRESSION, "items", '[{"id":"a","position":1},{"id":"b","position":1}]', "bad_position"),
        (IMPRESSION, "items", '[{"id":"a","position":1},{"id":"b"}]', "bad_position"),
        (IMPRESSION, "items", '[{"id":"a","position":1},"b"]', "bad_position"),
        (IMPRESSION, "fragment", "true", "bad_position"),
        *((IMPRESSION, "fragment", text, "bad_value") for text in ("1", '"true"', "[]")),
        *(
            (IMPRESSION, "items", f'["a",{{"id":"b","team":{text}}}]', "bad_label")
            for text in ('""', "7", "true", "[]", "{}", '"a\\nb"', '"\u007f"', f'"{"x" * 129}"')
        ),
    ]
)
def test_each_broken_rule_has_its_reason(case: tuple[dict[str, Any], str, str, str]) -> None:
    event, field, text, expected = case
    assert reason(spliced(event, field, text)) == expected


@for_each([(event, field) for event in (IMPRESSION, FEEDBACK) for field in event])
def test_required_fields_must_be_present(case: tuple[dict[str, Any], str]) -> None:
    event, field = case
    decoded_event = only(sent(event, **{field: ...}))
    optional = ("experiments", "segments") if event is IMPRESSION else ("value", "impression_id")
    assert isinstance(decoded_event, MalformedEvent) != (field in optional)
    assert not isinstance(decoded_event, MalformedEvent) or decoded_event.reason == "missing_field"


@for_each(
    product(
        ["experiments", "segments"],
        [
            ('"b":null', ()),
            ('"b":{"x":7}', ("label_bad_type",)),
            ('"b":["x"]', ("label_bad_type",)),
            ('"":"x"', ("label_empty",)),
            ('"b":"\\u001f"', ("label_bad_text",)),
            ('"b\\u007f":"x"', ("label_bad_text",)),
            (f'"b":"{"x" * 129}"', ("label_too_long",)),
            (f'"{"x" * 129}":"x"', ("label_too_long",)),
            ('"b":{},"c":null,"d":[],"":"x"', ("label_bad_type", "label_bad_type", "label_empty")),
            ('"b":"x","b":{}', ("label_bad_type",)),
        ],
    )
)
def test_a_bad_label_costs_only_that_label(case: tuple[str, tuple[str, tuple[str, ...]]]) -> None:
    field, (bad, dropped) = case
    event = only(spliced(IMPRESSION, field, f'{{{bad},"a":"x"}}'))
    assert isinstance(event, Impression)
    assert getattr(event, field) == (("a", "x"),)
    nulls = tuple(f"null_variant:{name}" for name in "bc" if field == "experiments" and f'"{name}":null' in bad)
    assert event.label_notes == dropped + nulls
    assert event == impression(**{field: {"a": "x"}}) or dropped or nulls


@for_each(product(["experiments", "segments"], ["[]", '"a"', "7", "true"]))
def test_labels_that_are_no_object_are_dropped(case: tuple[str, str]) -> None:
    field, text = case
    event = only(spliced(IMPRESSION, field, text))
    assert isinstance(event, Impression)
    assert (getattr(event, field), event.label_notes) == ((), ("label_bad_type",))


@pytest.mark.parametrize("sent_as", ["0", "1", "-3", "1.5", "true", "false"])
def test_a_variant_may_be_a_number_or_a_boolean(sent_as: str):
    event = only(spliced(IMPRESSION, "experiments", f'{{"a": {sent_as} ,"b":"x"}}'))
    assert isinstance(event, Impression)
    assert (event.experiments, event.label_notes) == ((("a", sent_as), ("b", "x")), ("variant_as_text",))
    (exposed,) = native_decoder(EventLimits(exposures=True))(spliced(EXPOSURE, "variant", sent_as))
    assert isinstance(exposed, Exposure)
    assert exposed.variant == sent_as


def test_a_variant_that_is_too_long_a_number_is_dropped_and_an_exposure_with_one_refused():
    event = only(spliced(IMPRESSION, "experiments", f'{{"a":{"1" * 129}}}'))
    assert isinstance(event, Impression)
    assert (event.experiments, event.label_notes) == ((), ("label_too_long", "variant_as_text"))
    (exposed,) = native_decoder(EventLimits(exposures=True))(spliced(EXPOSURE, "variant", "1" * 129))
    assert isinstance(exposed, MalformedEvent)
    assert exposed.reason == "bad_label"


def test_a_segment_that_is_a_number_or_a_boolean_is_dropped():
    event = only(spliced(IMPRESSION, "segments", '{"a":7,"b":true,"c":"x"}'))
    assert isinstance(event, Impression)
    assert (event.segments, event.label_notes) == ((("c", "x"),), ("label_bad_type", "label_bad_type"))


def test_a_null_variant_is_no_label_and_its_experiment_is_noted():
    event = impression(experiments={"b": None, "a": None, "c": "x"})
    assert (event.experiments, event.label_notes) == ((("c", "x"),), ("null_variant:a", "null_variant:b"))
    mixed = only(spliced(IMPRESSION, "experiments", '{"a":null,"b":1}'))
    assert isinstance(mixed, Impression)
    assert (mixed.experiments, mixed.label_notes) == ((("b", "1"),), ("variant_as_text", "null_variant:a"))


def test_an_empty_variant_is_dropped():
    event = impression(experiments={"a": "", "b": "x"})
    assert (event.experiments, event.label_notes) == ((("b", "x"),), ("label_empty",))


@pytest.mark.parametrize("field", ["experiments", "segments"])
def test_of_too_many_labels_the_first_by_name_stay(field: str):
    narrow = native_decoder(EventLimits(experiments_max=2, segments_max=2))
    for names in (["a", "b", "c", "d"], ["d", "c", "b", "a"]):
        (event,) = narrow(sent(IMPRESSION | {"experiments": None, "segments": None}, **{field: dict.fromkeys(names, "x")}))
        assert isinstance(event, Impression)
        assert getattr(event, field) == (("a", "x"), ("b", "x"))
        assert event.label_notes == (f"too_many_{field}",) * 2
    (event,) = narrow(sent(IMPRESSION | {"experiments": None, "segments": None}, **{field: {"a": None, "b": "x", "c": "x"}}))
    assert isinstance(event, Impression)
    noted = ("null_variant:a",) if field == "experiments" else ()
    assert (getattr(event, field), event.label_notes) == ((("b", "x"), ("c", "x")), noted)


def test_a_segment_may_be_empty():
    assert impression(segments={"surface": ""}).segments == (("surface", ""),)


# Limits


@pytest.mark.parametrize(
    ("event", "changes", "beyond", "expected"),
    [
        (IMPRESSION, {"items": ["i"] * 3}, {"items": ["i"] * 4}, "too_many_items"),
        (IMPRESSION, {"items": [{"id": "i"}] * 3}, {"items": [{"id": "i"}] * 4}, "too_many_items"),
        (FEEDBACK, {"user_id": "\U0001f600" * 5}, {"user_id": "\U0001f600" * 6}, "bad_id"),
        (FEEDBACK, {"action": "watch"}, {"action": "watchy"}, "bad_label"),
    ],
)
def test_events_at_a_limit_are_accepted_and_beyond_it_rejected(
    event: dict[str, Any], changes: dict[str, Any], beyond: dict[str, Any], expected: str
):
    narrow = native_decoder(EventLimits(items_max=3, experiments_max=2, segments_max=2, id_chars_max=5, label_chars_max=5))
    roomy = event | ({"experiments": None, "segments": None} if event is IMPRESSION else {})
    assert not isinstance(narrow(sent(roomy, **changes))[0], MalformedEvent)
    (refused,) = narrow(sent(roomy, **beyond))
    assert isinstance(refused, MalformedEvent)
    assert refused.reason == expected


def test_an_event_may_have_at_most_event_bytes_max_bytes():
    value = sent(FEEDBACK)
    narrow = native_decoder(EventLimits(event_bytes_max=len(value)))
    assert narrow(value) == (feedback(),)
    (refused,) = narrow(value + b" ")
    assert isinstance(refused, MalformedEvent)
    assert refused.reason == "oversized"


def test_the_detail_of_an_oversized_event_has_its_size_unless_it_may_be_cut():
    narrow = native_decoder(EventLimits(event_bytes_max=100))
    details = [event.detail for length in (101, 102) for event in narrow(b" " * (length - 1) + b"{")]
    assert [detail.partition(";")[0] for detail in details] == [
        "an event may have at most 100 bytes, but this one has more",
        "an event may have at most 100 bytes, but this one has 102",
    ]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_accepted_up_to_its_limit_in_any_field(opening: str, closing: str):
    def nested(levels: int) -> str:
        return opening * levels + "1" + closing * levels

    assert only(spliced(FEEDBACK, "unknown_field", nested(255))) == feedback()
    for levels in (256, 900, 40_000):
        assert reason(spliced(FEEDBACK, "unknown_field", nested(levels))) == "bad_json"
    assert reason(opening.encode() * 40_000) == "bad_json"


def test_many_item_objects_are_not_deep():
    items = [{"id": f"i{place}", "position": place, "x": {"y": [1]}} for place in range(600)]
    assert len(impression(items=items).items) == 600


def test_an_item_object_counts_as_a_level():
    within = "[" * 253 + "]" * 253
    others = ',{"id":"b"}' * 300
    bare = IMPRESSION | {"experiments": None, "segments": None}
    assert only(spliced(bare, "items", f'[{{"id":"a","x":{within}}}{others}]')) == only(sent(bare, items=["a", *["b"] * 300]))
    assert reason(spliced(bare, "items", f'[{{"id":"a","x":[{within}]}}{others}]')) == "bad_json"


def test_brackets_in_strings_are_not_deep():
    assert impression(items=["[{" * 200]).items == ("[{" * 200,)
    assert impression(items=['\\"[{' * 100]).items == ('\\"[{' * 100,)


def test_the_detail_has_the_rule_the_shortened_value_and_the_advice():
    event = only(sent(FEEDBACK, item_id="\u0007" + "x" * 5000))
    assert isinstance(event, MalformedEvent)
    assert "item_id" in event.detail
    assert "512" in event.detail
    assert "x" * 60 in event.detail
    assert "x" * 100 not in event.detail
    assert event.detail.isprintable()


def test_a_malformed_event_keeps_no_stack_frames_alive():
    event = only(b"{")
    assert isinstance(event, MalformedEvent)
    assert (event.__traceback__, event.__context__, event.__cause__) == (None, None, None)


# Events of different forms in turn


def test_events_of_different_forms_may_follow_each_other():
    forms = [
        sent(FEEDBACK),
        sent(FEEDBACK, ts="2024-11-21T10:00:00.123Z"),
        sent(IMPRESSION),
        sent(IMPRESSION, ts="2024-11-21T10:00:00.123Z"),
        sent(IMPRESSION, items=[{"id": "c", "position": 7}, {"id": "a", "position": 2, "team": "new"}]),
        sent(IMPRESSION, items=[{"id": "c", "position": 7}], fragment=True),
        sent(IMPRESSION, items=["a", {"id": "b"}]),
        sent(IMPRESSION, items=[]),
        sent(IMPRESSION, items=[], fragment=True),
    ]
    refused = [sent(FEEDBACK, user_id=7), sent(FEEDBACK, item_id="\x7f"), sent(IMPRESSION, fragment=True), b"{", b""]
    for before in [*forms, *refused]:
        for value in forms:
            only(before)
            assert only(value) == read_event(value, LIMITS)
        for value in refused:
            only(before)
            assert isinstance(only(value), MalformedEvent)


def test_every_form_of_feedback_gives_a_plain_feedback():
    for ts in (1732183200123, "2024-11-21T10:00:00.123Z"):
        assert type(feedback(ts=ts)) is Feedback


@for_each(product([3, 9, 30], [3, 9, 30], ["user_id", "item_id", "impression_id", "action"], ["x", "\u00e9", "\U0001f600"]))
def test_each_string_of_a_feedback_is_checked_against_its_own_limit(case: tuple[int, int, str, str]) -> None:
    ids_max, labels_max, field, char = case
    limits = EventLimits(id_chars_max=ids_max, label_chars_max=labels_max)
    narrow = native_decoder(limits)
    most = labels_max if field == "action" else ids_max
    shortest = {"type": "feedback", "user_id": "u", "ts": 0, "item_id": "i", "action": "a"}
    for value in (..., 1.5):
        at, beyond = (sent(shortest, value=value, **{field: char * chars}) for chars in (most, most + 1))
        assert narrow(at) == (read_event(at, limits),)
        assert isinstance(narrow(beyond)[0], MalformedEvent)


# Properties


@given(st.binary() | st.none())
@example(b"\xff" * 40)
def test_no_input_makes_the_decoder_raise(value: bytes | None):
    event = only(value)
    assert not isinstance(event, MalformedEvent) or event.reason in MALFORMED


@given(impression_objects | feedback_objects | exposure_objects, st.data())
def test_both_decoders_agree_on_damaged_events(event: dict[str, Any], data: st.DataObject):
    value = bytearray(json.dumps(event, ensure_ascii=data.draw(st.booleans())).encode())
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(value) - 1))
        damage = data.draw(st.sampled_from([b"", b'"', b"\\", b"\\u0000", b"[", b"}", b"\xc2\x85", b"9", b"null"]))
        value[place : place + data.draw(st.integers(0, 2))] = damage
    assert_both_decoders_agree(bytes(value))


any_json = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.sampled_from(["", "a", "\x7f", "\u0085", "x" * 200, "2024-11-21T10:00:00Z"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "position", "team", "a", ""]), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([IMPRESSION, FEEDBACK, EXPOSURE]), st.data(), any_json)
def test_both_decoders_agree_on_any_value_in_any_field(event: dict[str, Any], data: st.DataObject, value: object):
    field = data.draw(st.sampled_from([*event, "fragment", "unknown_field"]))
    assert_both_decoders_agree(json.dumps(event | {field: value}).encode())


def assert_both_decoders_agree(value: bytes) -> None:
    event = only(value)
    try:
        reference: Event | MalformedEvent = read_event(value, LIMITS)
    except MalformedEvent as error:
        reference = error
    if isinstance(event, MalformedEvent):
        assert isinstance(reference, MalformedEvent)
        assert value.strip() == b"" or event.reason == reference.reason
    else:
        assert event == reference


@given(impression_objects)
def test_valid_impressions_are_decoded(event: dict[str, Any]):
    expected = Impression(
        impression_id=event["impression_id"],
        user_id=event["user_id"],
        ts=event["ts"],
        items=tuple(event["items"]),
        experiments=tuple(sorted((event.get("experiments") or {}).items())),
        segments=tuple(sorted((event.get("segments") or {}).items())),
    )
    assert only(json.dumps(event).encode()) == only(json.dumps(event, ensure_ascii=False).encode()) == expected


@given(feedback_objects)
def test_valid_feedback_is_decoded(event: dict[str, Any]):
    expected = Feedback(event["user_id"], event["ts"], event["item_id"], event["action"], event.get("value"), event.get("impression_id"))
    assert only(json.dumps(event).encode()) == only(json.dumps(event, ensure_ascii=False).encode()) == expected


@given(exposure_objects)
def test_valid_exposures_are_decoded(event: dict[str, Any]):
    expected = Exposure(event["user_id"], event["ts"], event["experiment"], event["variant"])
    assert only(json.dumps(event).encode()) == only(json.dumps(event, ensure_ascii=False).encode()) == expected


@for_each(
    [
        ({"variant": ...}, "missing_field"),
        ({"experiment": None}, "missing_field"),
        ({"variant": ""}, "bad_label"),
        ({"experiment": "x" * 129}, "bad_label"),
        ({"variant": [True]}, "bad_label"),
        ({"user_id": 7}, "bad_id"),
        ({"user_id": "x" * 513}, "bad_id"),
        ({"ts": "yesterday"}, "bad_ts"),
    ]
)
def test_each_broken_rule_of_an_exposure_has_its_reason(case: tuple[dict[str, Any], str]) -> None:
    changes, expected = case
    assert reason(sent(EXPOSURE, **changes)) == expected


def test_without_exposures_they_are_refused_with_the_setting_that_allows_them():
    (event,) = native_decoder(EventLimits())(sent(EXPOSURE))
    assert isinstance(event, MalformedEvent)
    assert (event.reason, event.unknown_type) == ("bad_type", "exposure")
    assert "type must be impression or feedback" in event.detail
    assert event.detail.endswith("for exposures, set exposures.enabled = true")


NUMERIC = EventLimits(numeric_ids=True, exposures=True)


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        (IMPRESSION, {"impression_id": 1, "user_id": 42, "items": [7, 8, 9]}),
        (IMPRESSION, {"user_id": 0, "items": [{"id": 7, "position": 2}, {"id": "x", "position": 1}]}),
        (FEEDBACK, {"user_id": 42, "item_id": -8, "impression_id": 1}),
        (FEEDBACK, {"user_id": 10**30}),
        (EXPOSURE, {"user_id": 42}),
    ],
)
def test_with_numeric_ids_a_whole_number_is_its_decimal_text(event: dict[str, Any], changes: dict[str, Any]) -> None:
    def as_text(change: Any) -> Any:
        if isinstance(change, list):
            return [as_text(event) if not isinstance(event, dict) else event | {"id": str(event["id"])} for event in change]
        return str(change)

    texts = {name: as_text(change) for name, change in changes.items()}
    decode = native_decoder(NUMERIC)
    assert decode(sent(event, **changes)) == decode(sent(event, **texts)) == native_decoder(LIMITS)(sent(event, **texts))
    assert decode(sent(event, **changes)) == (read_event(sent(event, **changes), NUMERIC),)


@pytest.mark.parametrize("user_id", [1.5, True, [], {}, 10**600])
def test_with_numeric_ids_other_values_are_rejected(user_id: object) -> None:
    (error,) = native_decoder(NUMERIC)(sent(FEEDBACK, user_id=user_id))
    assert isinstance(error, MalformedEvent)
    assert error.reason == "bad_id"


def test_a_numeric_id_is_rejected_with_the_setting_that_allows_it() -> None:
    error = only(sent(FEEDBACK, user_id=7))
    assert isinstance(error, MalformedEvent)
    assert error.detail == "user_id must be a string; got 7; send ids as strings, or set events.numeric_ids = true for whole numbers"
