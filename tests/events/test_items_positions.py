"""Positions that are places: a list may begin below the top and have gaps. All decoders read them alike."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.errors import MalformedEvent
from streammetrics.events import EventLimits, Impression, native_decoder
from streammetrics.events.native import read_event
from streammetrics.events.reader import reader_decoder

NOON = 1772366400000
PLACES = EventLimits(first_place=1, items_max=20)


def native(items: list[Any], limits: EventLimits = PLACES, **more: Any) -> Impression | MalformedEvent:
    event = {"type": "impression", "impression_id": "p2", "user_id": "u", "ts": NOON, "items": items, **more}
    (decoded_event,) = native_decoder(limits)(json.dumps(event).encode())
    assert isinstance(decoded_event, Impression | MalformedEvent)
    return decoded_event


def yielded(items: list[Any], limits: EventLimits = PLACES) -> Impression | MalformedEvent:
    event = {"type": "impression", "impression_id": "p2", "user_id": "u", "ts": NOON, "items": items}
    (yielded_event,) = reader_decoder(lambda record: [event], native_decoder(limits, of_reader=True), limits)(b"{}")
    assert isinstance(yielded_event, Impression | MalformedEvent)
    return yielded_event


def at(*places: int) -> list[dict[str, Any]]:
    return [{"id": f"i{place}", "position": place} for place in places]


@pytest.mark.parametrize("read", [native, yielded])
def test_empty_places_are_kept(read: Any) -> None:
    assert read(at(11, 12, 13)).items == ("",) * 10 + ("i11", "i12", "i13")
    assert read(at(3, 1)).items == ("i1", "", "i3")
    assert read(at(0, 2), EventLimits(first_place=0)).items == ("i0", "", "i2")
    assert read(at(3, 1), EventLimits()).items == ("i1", "i3")
    assert read(at()).items == ()


@pytest.mark.parametrize("read", [native, yielded])
@pytest.mark.parametrize("position", [0, 21])
def test_a_position_that_is_no_place_is_refused(read: Any, position: int) -> None:
    decoded = read(at(position))
    assert decoded.reason == "bad_position"
    assert f"a position must be a place from 1 to 20; got {position}; see events.positions" in decoded.detail


def test_lists_without_positions_begin_at_the_top() -> None:
    event = native(["a", "b"])
    assert isinstance(event, Impression)
    assert (event.items, event.positions) == (("a", "b"), None)


def test_teams_have_the_places_of_their_items() -> None:
    event = native([{"id": "b", "position": 4, "team": "x"}, {"id": "a", "position": 2}])
    assert isinstance(event, Impression)
    assert (event.items, event.teams) == (("", "a", "", "b"), ("", "", "", "x"))


def test_positions_of_fragments_begin_at_0() -> None:
    event = native(at(11, 13), fragment=True)
    assert isinstance(event, Impression)
    assert (event.items, event.positions) == (("i11", "i13"), (10, 12))


@given(st.lists(st.integers(0, 22), max_size=4), st.booleans(), st.sampled_from([None, 0, 1]))
def test_the_typed_parser_reads_places_as_the_explainer_does(places: list[int], fragment: bool, first: int | None) -> None:
    limits = EventLimits(first_place=first, items_max=20)
    event = {"type": "impression", "impression_id": "p", "user_id": "u", "ts": NOON, "items": at(*places), "fragment": fragment}
    value = json.dumps(event).encode()
    (decoded_event,) = native_decoder(limits)(value)
    if isinstance(decoded_event, MalformedEvent):
        with pytest.raises(MalformedEvent, match=re.escape(decoded_event.detail)):
            read_event(value, limits)
        return
    assert decoded_event == read_event(value, limits)
    if first is not None and not fragment:
        assert isinstance(decoded_event, Impression)
        assert [place + first for place, item in enumerate(decoded_event.items) if item] == sorted(places)
