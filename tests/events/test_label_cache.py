"""The label cache: it changes no result, equal labels are one object, and its size is bounded."""

from __future__ import annotations

import json
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events import Event, EventLimits, Impression, MalformedEvent, label_cache, native_decoder
from streammetrics.events.label_cache import LabelSets
from streammetrics.events.native import read_event
from tests.events.samples import IMPRESSION, sent, texts
from tests.support.tables import for_each

LIMITS = EventLimits()
BARE = sent(IMPRESSION, experiments=..., segments=...)


def label_sets(experiments: str, segments: str) -> bytes:
    return BARE[:-1] + f',"experiments":{experiments},"segments":{segments}}}'.encode()


def raws(experiments: str, segments: str) -> tuple[msgspec.Raw, msgspec.Raw]:
    return msgspec.Raw(experiments.encode()), msgspec.Raw(segments.encode())


def reference(value: bytes) -> Event | str:
    try:
        return read_event(value, LIMITS)
    except MalformedEvent as error:
        return error.reason


@pytest.mark.parametrize(
    "spelling",
    [
        '{"a":"x","b":"y"}',
        '{"b":"y","a":"x"}',
        '{ "a" : "x" ,\n"b":"y" }',
        '{"\\u0061":"x","b":"\\u0079"}',
        '{"a":"z","b":"y","a":"x"}',
    ],
)
def test_equal_labels_are_one_object_in_any_spelling(spelling: str):
    decode = native_decoder(LIMITS)
    (first,), (other,) = decode(label_sets('{"a":"x","b":"y"}', '{"s":"t"}')), decode(label_sets(spelling, '{"s":"\\u0074"}'))
    assert isinstance(first, Impression)
    assert isinstance(other, Impression)
    assert first.experiments == (("a", "x"), ("b", "y"))
    assert first.segments == (("s", "t"),)
    assert other.experiments is first.experiments
    assert other.segments is first.segments


def test_lists_of_item_objects_share_the_same_labels():
    decode = native_decoder(LIMITS)
    (first,), (other,) = decode(sent(IMPRESSION)), decode(sent(IMPRESSION, items=[{"id": "a"}], ts="2024-11-21T10:00:00Z"))
    assert isinstance(first, Impression)
    assert isinstance(other, Impression)
    assert other.experiments is first.experiments


@pytest.mark.parametrize("nothing", ["null", "{}", "{ }"])
def test_absent_null_and_empty_labels_are_equal(nothing: str):
    decode = native_decoder(LIMITS)
    assert decode(label_sets(nothing, nothing)) == decode(BARE) == (reference(BARE),)


def test_experiments_and_segments_are_never_confused():
    decode = native_decoder(LIMITS)
    forms = [None, "null", "{}", '{"a":"x"}', '{"a":"x","b":"y"}', '{"b":"{}"}', '{"a":"}{"}', '{"a":"null"}']
    pairs = [(one, other) for one in forms for other in forms]
    for experiments, segments in [*pairs, *reversed(pairs)]:
        parts = {"experiments": experiments, "segments": segments}
        value = BARE[:-1] + "".join(f',"{name}":{text}' for name, text in parts.items() if text is not None).encode() + b"}"
        assert decode(value) == (reference(value),)


@for_each(
    [
        *('{"a":"x","b":7}', '{"a":"x","":"y"}', '{"a":"x\\u0000"}', '{"a":"x\\u0085"}', '{"a":"x\x7f"}', '{"a":"x\x85"}', '{"a":""}'),
        *('{"a":{"a":"x"}}', '["a","x"]', '"a"', "7", "true", '{"a":null}', '{"a":"' + "x" * 129 + '"}'),
        json.dumps({f"a{index}": "x" for index in range(17)}),
    ]
)
def test_labels_that_are_not_plain_give_the_same_list_every_time(invalid: str) -> None:
    decode = native_decoder(LIMITS)
    for _ in range(2):
        assert decode(label_sets('{"a":"x"}', "{}")) == (reference(label_sets('{"a":"x"}', "{}")),)
        for value in (label_sets(invalid, "{}"), label_sets("{}", invalid)):
            (event,) = decode(value)
            assert isinstance(event, Impression)
            assert event == reference(value)


def test_labels_with_invalid_utf8_are_rejected():
    decode = native_decoder(LIMITS)
    for value in (label_sets('{"a":"~"}', "{}"), label_sets("{}", '{"~":"x"}')):
        (refused,) = decode(value.replace(b"~", b"\xff"))
        assert isinstance(refused, MalformedEvent)
        assert refused.reason == "bad_json"


def test_an_empty_value_is_a_segment_and_no_variant():
    sets = LabelSets(LIMITS)
    assert sets.of(*raws("{}", '{"a":""}')) == ((), (("a", ""),), ())
    assert sets.of(*raws('{"a":""}', "{}")) == ((), (), ("label_empty",))


def test_dropped_labels_are_cached_with_the_labels_that_stay():
    sets = LabelSets(LIMITS)
    for invalid, reason in (("{}", "label_bad_type"), ('"\\u0000"', "label_bad_text"), ('"' + "x" * 129 + '"', "label_too_long")):
        pair = raws(f'{{"a":{invalid},"b":"x"}}', "{}")
        assert sets.of(*pair) is sets.of(*pair) == ((("b", "x"),), (), (reason,))


def test_labels_that_are_not_json_text_are_not_cached():
    sets = LabelSets(LIMITS)
    for invalid in ('{"a":"\\ud800"}', '{"\\ud800":"a"}'):
        for pair in (raws(invalid, "{}"), raws("{}", invalid)):
            with pytest.raises((ValueError, msgspec.MsgspecError)):
                sets.of(*pair)
    assert not sets.cached


def test_the_cache_has_at_most_sets_max_label_sets(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(label_cache, "SETS_MAX", 5)
    sets, most = LabelSets(LIMITS), 0
    for number in range(23):
        assert sets.of(*raws(f'{{"a":"{number}"}}', "{}")) == ((("a", str(number)),), (), ())
        most = max(most, len(sets.cached), len(sets._cache._shared))
    assert most == 5


def test_the_cache_has_at_most_bytes_max_bytes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(label_cache, "BYTES_MAX", 1000)
    sets, most, spaces = LabelSets(LIMITS), 0, random.Random(1)
    for _ in range(200):
        sets.of(*raws('{"a":"x"}' + " " * spaces.randrange(300), "{}"))
        most = max(most, sum(map(len, sets.cached)))
    assert 600 < most <= 1000


def test_clearing_the_cache_changes_no_result(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(label_cache, "SETS_MAX", 3)
    decode, chance = native_decoder(LIMITS), random.Random(2)
    for _ in range(100):
        value = label_sets(f'{{"a":"{chance.randrange(5)}"}}', f'{{"b":"{chance.randrange(5)}"}}')
        assert decode(value) == (reference(value),)


label_objects = st.dictionaries(
    texts(3, chars_min=0) | st.sampled_from(["a", "b"]), st.sampled_from(["x", "y", "", "\x7f", 7, None]), max_size=3
)


@given(st.lists(st.tuples(label_objects, label_objects, st.booleans()), max_size=12))
def test_earlier_events_change_no_labels(sequence: list[tuple[dict[str, object], dict[str, object], bool]]):
    decode = native_decoder(LIMITS)
    for experiments, segments, ascii_only in sequence:
        value = json.dumps(IMPRESSION | {"experiments": experiments, "segments": segments}, ensure_ascii=ascii_only).encode()
        (event,), expected = decode(value), reference(value)
        assert (event.reason if isinstance(event, MalformedEvent) else event) == expected
