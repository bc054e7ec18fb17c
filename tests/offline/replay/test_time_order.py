"""Where late records are in a file, and when a file counts as out of order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.offline.replay import time_order
from streammetrics.offline.replay.time_order import LatePlaces


def places_of(numbers: list[int], lines: int) -> LatePlaces:
    places = LatePlaces()
    for number in numbers:
        places.add(number)
    places.lines = lines
    return places


@given(numbers=st.lists(st.integers(1, 100_000), unique=True, max_size=200).map(sorted), split=st.lists(st.booleans(), min_size=200))
def test_the_places_of_several_processes_are_those_of_one(numbers: list[int], split: list[bool]) -> None:
    ones = [number for number, is_one in zip(numbers, split, strict=False) if is_one]
    others = [number for number in numbers if number not in ones]
    for first, second in ((ones, others), (others, ones)):
        merged = places_of(first, 100_000)
        merged.merge(places_of(second, 90_000))
        whole = places_of(numbers, 100_000)
        assert (merged.has_late_stretch, merged.lines) == (whole.has_late_stretch, 100_000)


def test_late_records_at_the_end_are_a_stretch_and_spread_ones_are_not() -> None:
    lines = 1_000_000
    assert places_of(list(range(lines - 10_000, lines)), lines).has_late_stretch
    assert places_of(list(range(500_000, 510_000)), lines).has_late_stretch
    assert not places_of(list(range(lines - 4_000, lines)), lines).has_late_stretch, "less than half of a hundredth"
    assert not places_of(list(range(1, lines, 25)), lines).has_late_stretch, "4 % everywhere"


def test_the_few_events_of_one_sender_are_no_stretch_of_a_small_file() -> None:
    assert not places_of(list(range(101, 110)), 300).has_late_stretch
    assert places_of(list(range(101, 130)), 300).has_late_stretch


def test_a_file_of_any_length_has_a_bounded_number_of_parts() -> None:
    places = LatePlaces()
    for number in range(0, 10**9, 10**6):
        places.add(number)
    assert len(places._counts) <= time_order.PARTS_MAX
    assert sum(places._counts) == 1_000
