"""The JSON Schema accepts an event exactly if the decoder accepts it and keeps all its labels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from streammetrics.events import EventLimits, Impression, MalformedEvent, native_decoder
from tests.events.samples import EXPOSURE, FEEDBACK, IMPRESSION, exposure_objects, feedback_objects, impression_objects
from tests.support.event_schema import FILE, native_schema
from tests.support.tables import for_each

LIMITS = EventLimits(items_max=4, id_chars_max=20, label_chars_max=10, experiments_max=3, segments_max=3)
ODD: tuple[Any, ...] = (
    None,
    7,
    -1,
    1.5,
    True,
    "",
    "x",
    "a\tb",
    "x" * 11,
    "x" * 21,
    [],
    {},
    ["a"],
    {"a": "b"},
    {"": "b"},
    {"a": 7},
    {"a": None},
)
ITEMS: tuple[Any, ...] = (
    "a",
    "",
    7,
    {"id": "a"},
    {"id": "a", "position": 3},
    {"id": "b", "position": 4, "team": "x"},
    {"id": "c", "position": -1},
    {"id": "d", "position": None, "team": None},
    {"position": 5},
    {"id": "e", "position": 6, "team": ""},
)
TIMES = (
    "2026-03-01T12:00:00Z",
    "20260301T120000.25+0100",
    "2026-03-01 12:00:00,5-01",
    "2026-03-01T12:00Z",
    "2026-03-01T12:00:00",
    "2026-0301T12:00:00Z",
    "2026-03-01T24:00:00Z",
    "2026-03-01T12:0000Z",
    "2026-03-01T12:00:00Z\n",
    "yesterday",
    0,
    253_402_300_799_999,
    253_402_300_800_000,
)


def accepts(event: Any, limits: EventLimits) -> bool:
    (decoded_event,) = native_decoder(limits)(json.dumps(event).encode())
    return not isinstance(decoded_event, MalformedEvent) and not (isinstance(decoded_event, Impression) and decoded_event.label_notes)


def is_valid(event: Any, limits: EventLimits) -> bool:
    return Draft202012Validator(native_schema(limits)).is_valid(event)


def test_the_schema_is_a_schema() -> None:
    for limits in (EventLimits(), LIMITS, EventLimits(numeric_ids=True, first_place=1, exposures=True)):
        Draft202012Validator.check_schema(native_schema(limits))


@given(
    st.one_of(impression_objects, feedback_objects, exposure_objects),
    st.dictionaries(
        st.sampled_from([*IMPRESSION, *FEEDBACK, *EXPOSURE, "fragment"]),
        st.sampled_from([*ODD, *TIMES, "impression", "feedback", "exposure"]),
        max_size=2,
    ),
    st.sampled_from([LIMITS, EventLimits(numeric_ids=True), EventLimits(exposures=True, id_chars_max=20, label_chars_max=10)]),
)
def test_an_event_is_valid_exactly_if_it_is_accepted(event: dict[str, Any], changes: dict[str, Any], limits: EventLimits) -> None:
    changed = event | changes
    assert is_valid(changed, limits) == accepts(changed, limits), changed


@given(st.lists(st.sampled_from(ITEMS), max_size=5), st.sampled_from([None, False, True]), st.sampled_from([None, 0, 1]))
def test_items_are_valid_exactly_if_they_are_accepted(items: list[Any], fragment: bool | None, first: int | None) -> None:
    limits = EventLimits(items_max=4, first_place=first)
    places = [item["position"] for item in items if isinstance(item, dict) and item.get("position") is not None]
    event = IMPRESSION | {"items": items, "fragment": fragment}
    if len(set(places)) == len(places):  # JSON Schema cannot compare positions
        assert is_valid(event, limits) == accepts(event, limits), items


@for_each(TIMES)
def test_times_are_valid_exactly_if_they_are_accepted(ts: Any) -> None:
    assert is_valid(FEEDBACK | {"ts": ts}, LIMITS) == accepts(FEEDBACK | {"ts": ts}, LIMITS)


@pytest.mark.parametrize("event", [[], "impression", None, {"type": "view"}, {}])
def test_other_json_is_invalid(event: Any) -> None:
    assert not is_valid(event, LIMITS)


def test_the_file_is_the_schema_of_the_default_limits() -> None:
    wanted = json.dumps(native_schema(EventLimits(exposures=True)), indent=2) + "\n"
    assert FILE.read_text(encoding="utf-8") == wanted, "write it again: python -m tests.support.event_schema"
