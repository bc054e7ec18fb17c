"""Readers: what they yield follows the native schema, and a record that they cannot read is refused with the line that failed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.events import TS_MAX, Event, EventLimits, Feedback, Impression, MalformedEvent, native_decoder
from streammetrics.events.reader import EVENTS_MAX, reader_decoder
from streammetrics.events.record import Later, Record, SentValue, ignore
from tests.events.samples import EXPOSURE, FEEDBACK, IMPRESSION, exposure_objects, feedback_objects, ids, impression_objects

LIMITS = EventLimits(exposures=True, id_chars_max=12, label_chars_max=8, items_max=6, experiments_max=3, segments_max=3)
PLACES = EventLimits(first_place=1, items_max=6, numeric_ids=True)


def read_as(*events: Any, limits: EventLimits = LIMITS) -> Sequence[Event | MalformedEvent]:
    return reader_decoder(lambda record: events, native_decoder(limits, of_reader=True), limits)(b"{}")


def only(event: Any, limits: EventLimits = LIMITS) -> Event | MalformedEvent:
    (decoded,) = read_as(event, limits=limits)
    return decoded


def refusal(event: Any) -> str:
    decoded_event = only(event)
    assert isinstance(decoded_event, MalformedEvent), decoded_event
    return f"{decoded_event.reason}: {decoded_event.detail}"


odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=14),
    st.sampled_from(["2026-03-01T12:00:00Z", "2026-03-01T12:00:00", "\x85", "\u00a0", "\ud800", "", "a" * 13, "a" * 9]),
    st.lists(st.none() | st.integers() | ids, max_size=3),
    st.dictionaries(st.text(max_size=9), st.none() | st.booleans() | st.integers() | st.text(max_size=9), max_size=4),
)
items = st.lists(
    ids
    | odd
    | st.fixed_dictionaries(
        {"id": ids | odd}, optional={"position": st.none() | st.integers(-1, 8) | odd, "team": st.none() | st.text(max_size=9)}
    ),
    max_size=7,
)


@st.composite
def changed_events(draw: st.DrawFn) -> dict[str, Any]:
    """An event of some kind with some fields replaced, removed or added."""
    event = dict(draw(impression_objects | feedback_objects | exposure_objects))
    fields = sorted({*IMPRESSION, *FEEDBACK, *EXPOSURE, "fragment"})
    for name in draw(st.lists(st.sampled_from(fields), max_size=2)):
        if draw(st.booleans()):
            event[name] = draw(items if name == "items" else odd)
        else:
            event.pop(name, None)
    return event


class TestNativeRules:
    @given(event=changed_events(), limits=st.sampled_from([LIMITS, PLACES]))
    @example(event=IMPRESSION | {"items": [{"id": "a", "position": 2}, {"id": "b", "position": 1, "team": "x"}]}, limits=LIMITS)
    @example(event=IMPRESSION | {"items": [{"id": "a", "position": 1}, {"id": "b", "position": 1}]}, limits=LIMITS)
    @example(event=IMPRESSION | {"items": [{"id": "a", "position": 4}], "fragment": True}, limits=PLACES)
    @example(event=IMPRESSION | {"items": ["a", {"id": "b"}]}, limits=LIMITS)
    @example(event=IMPRESSION | {"items": ["a"], "fragment": True}, limits=LIMITS)
    @example(event=IMPRESSION | {"experiments": {"a": 1, "b": True, "c": "x", "d": "y"}}, limits=LIMITS)
    @example(event=FEEDBACK | {"action": "a" * 9}, limits=LIMITS)
    @example(event=FEEDBACK | {"item_id": "a" * 12, "user_id": "b" * 12}, limits=LIMITS)
    @example(event=FEEDBACK | {"ts": TS_MAX + 1}, limits=LIMITS)
    @example(event=FEEDBACK | {"value": 2**1025}, limits=LIMITS)
    @example(event=FEEDBACK | {"impression_id": ""}, limits=LIMITS)
    def test_a_yielded_event_is_what_its_json_would_be(self, event: dict[str, Any], limits: EventLimits) -> None:
        try:
            text = json.dumps(event, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            assert only(event, limits).reason == "reader"  # type: ignore[union-attr]
            return
        expected, through_reader = native_decoder(limits)(text)[0], only(event, limits)
        if isinstance(expected, MalformedEvent) and isinstance(through_reader, MalformedEvent):
            assert through_reader.reason in (expected.reason, "reader")
        else:
            assert through_reader == expected

    def test_equal_labels_are_one_object(self):
        first, second = (only(dict(IMPRESSION), LIMITS) for _ in range(2))
        decode = reader_decoder(lambda record: [IMPRESSION, dict(IMPRESSION)], native_decoder(LIMITS, of_reader=True), LIMITS)
        first, second = decode(b"{}")
        assert isinstance(first, Impression)
        assert isinstance(second, Impression)
        assert first.experiments is second.experiments

    @pytest.mark.parametrize(
        ("ts", "expected"),
        [
            (datetime(2026, 3, 1, 12, tzinfo=UTC), 1_772_366_400_000),
            (datetime(2026, 3, 1, 12, 0, 0, 1_999, timezone(timedelta(hours=1))), 1_772_362_800_001),
            ("2026-03-01T12:00:00+01:00", 1_772_362_800_000),
            (np.int64(1_772_366_400_000), 1_772_366_400_000),
        ],
    )
    def test_times_in_the_forms_of_python(self, ts: object, expected: int) -> None:
        assert only(FEEDBACK | {"ts": ts}) == only(FEEDBACK | {"ts": expected})

    def test_numbers_of_numpy_and_decimals_are_numbers(self):
        expected = only(FEEDBACK | {"value": 9.5})
        assert isinstance(expected, Feedback)
        assert only(FEEDBACK | {"value": np.float32(9.5)}) == only(FEEDBACK | {"value": Decimal("9.5")}) == expected
        assert only(FEEDBACK | {"user_id": np.str_("u7"), "value": 9.5}) == expected


class TestRefusals:
    @pytest.mark.parametrize(
        ("event", "detail"),
        [
            (FEEDBACK | {"user_id": b"u7"}, "reader: the reader yields user_id as bytes; got b'u7'; decode it: .decode()"),
            (IMPRESSION | {"items": {"a"}}, "reader: the reader yields items as set; got {'a'}; use text, numbers, lists and dicts"),
            (IMPRESSION | {"items": ["a", {"id": b"b"}]}, "reader: the reader yields items[1].id as bytes; got b'b'; decode it: .decode()"),
            (FEEDBACK | {"value": float("nan")}, "bad_value: value must be a finite number; got nan; leave the field out"),
            (
                FEEDBACK | {"ts": datetime(2026, 3, 1)},
                "bad_ts: ts is a datetime without a time zone; got 2026-03-01 00:00:00; say which zone it has, such as"
                " moment.replace(tzinfo=UTC)",
            ),
            ({"user_id": "u7"}, "missing_field: type is required and must not be null; send type"),
            ("click", 'reader: the reader yields \'click\', no event; yield a dict such as {"type": "feedback", …}'),
            (None, 'reader: the reader yields None, no event; yield a dict such as {"type": "feedback", …}'),
        ],
    )
    def test_what_is_no_event_says_so(self, event: object, detail: str) -> None:
        assert refusal(event) == detail

    @pytest.mark.parametrize("result", [{"type": "feedback"}, ignore("page"), "text"])
    def test_a_reader_that_returns_one_event_is_told_to_yield_it(self, result: object) -> None:
        (event,) = reader_decoder(lambda record: result, native_decoder(LIMITS, of_reader=True), LIMITS)(b"x")  # type: ignore[arg-type,return-value]
        assert isinstance(event, MalformedEvent)
        assert f"TypeError: the reader returns {type(result).__name__}, not events; yield the event" in event.detail

    def test_each_refused_event_of_a_record_says_which_one_it_is(self):
        event = read_as(FEEDBACK, FEEDBACK | {"ts": "never"}, ignore("page"))
        assert [type(part) for part in event] == [Feedback, MalformedEvent, MalformedEvent]
        assert [part.reason for part in event if isinstance(part, MalformedEvent)] == ["bad_ts", "ignored"]
        assert "event 2 of 3 in the record: ts must be" in str(event[1])

    def test_a_reader_that_never_ends_is_stopped(self):
        def endless(record: Record) -> Iterator[Any]:
            while True:
                yield FEEDBACK

        (event,) = reader_decoder(endless, native_decoder(LIMITS, of_reader=True), LIMITS)(b"x")
        assert str(event) == f"reader: the reader yields more than {EVENTS_MAX:,} events for one record; does it end?"


class TestRaise:
    def read(self, record: Record) -> Iterator[Any]:
        yield FEEDBACK
        yield FEEDBACK | {"item_id": record.json()["sku"]}

    def decode(self, value: bytes | None) -> Sequence[Event | MalformedEvent]:
        return reader_decoder(self.read, native_decoder(LIMITS, of_reader=True), LIMITS, file=__file__)(value)

    def test_nothing_of_the_record_counts_and_the_line_is_named(self):
        line = self.read.__func__.__code__.co_firstlineno + 2  # type: ignore[attr-defined]
        (event,) = self.decode(b'{"item":"b"}')
        assert str(event) == (
            f"""reader: KeyError: 'sku', test_reader.py:{line}; got {{"item":"b"}}; correct the reader, or let it yield ignore(…)"""
        )

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            (b"{", "bad_json"),
            (b'{"sku":"\xff"}', "bad_json"),
            (b'{"sku":"\\ud800"}', "bad_json"),
            (b'{"sku":NaN}', "bad_json"),
            (b"[" * 257 + b"]" * 257, "bad_json"),
            (b'{"sku":' + b"[" * 300 + b"]" * 300 + b"}", "bad_json"),
            (b"", "empty"),
            (b" \n", "empty"),
            (None, "empty"),
            (b"[]", "reader"),
            (b'{"sku":"' + b"a" * 300_000 + b'"}', "oversized"),
        ],
    )
    def test_a_record_without_json_has_the_reason_that_native_events_have(self, value: bytes | None, reason: str) -> None:
        (event,) = self.decode(value)
        assert isinstance(event, MalformedEvent)
        assert event.reason == reason

    @pytest.mark.parametrize("error", [SystemExit(3), RecursionError(), MemoryError(), StopIteration(), AssertionError("x")])
    def test_no_error_stops_the_worker(self, error: BaseException) -> None:
        def read(record: Record) -> Any:
            raise error

        (event,) = reader_decoder(read, native_decoder(LIMITS, of_reader=True), LIMITS)(b"x")
        assert isinstance(event, MalformedEvent)
        assert (event.reason, event.__traceback__) == ("reader", None)

    def test_later_passes(self):
        def read(record: Record) -> Any:
            raise Later("the registry is away")

        with pytest.raises(Later, match="the registry is away"):
            reader_decoder(read, native_decoder(LIMITS, of_reader=True), LIMITS)(b"x")


class TestIgnored:
    def test_a_reader_that_yields_nothing_ignores_the_record(self):
        for result in (None, [], iter(())):
            (event,) = reader_decoder(lambda record, result=result: result, native_decoder(LIMITS, of_reader=True), LIMITS)(b"x")  # type: ignore[misc]
            assert str(event) == "ignored: no reason given"

    def test_the_reason_is_kept(self):
        assert refusal(ignore("page view")) == "ignored: page view"


class TestRecord:
    def test_the_record_of_kafka_has_key_headers_timestamp_and_topic(self):
        seen: list[Record] = []
        sent = SentValue.of(b'{"a":1}', {"trace": b"t"}, key=b"u7", timestamp_ms=5)
        reader_decoder(seen.append, native_decoder(LIMITS, of_reader=True), LIMITS, "clicks")(sent)  # type: ignore[arg-type]
        assert seen == [Record(b'{"a":1}', b"u7", 5, {"trace": b"t"}, "clicks")]

    def test_whole_numbers_of_any_size_are_exact(self):
        assert Record(b"[9007199254740993,123456789012345678901]").json() == [9007199254740993, 123456789012345678901]

    def test_a_row_is_an_object(self):
        assert Record(b'{"sku":"b"}').row() == {"sku": "b"}
        with pytest.raises(ValueError, match="no row of named columns but a JSON array"):
            Record(b"[1]").row()

    def test_json_is_parsed_once(self):
        record = Record(b'{"a":[]}')
        assert record.json() is record.json()

    def test_another_reader_gets_what_an_envelope_holds(self):
        record = Record(b'{"payload":{"a":1}}', b"k", 5, topic="t")
        inner = record.of(record.json()["payload"])
        assert (inner.json(), inner.key, inner.timestamp_ms, inner.topic) == ({"a": 1}, b"k", 5, "t")
