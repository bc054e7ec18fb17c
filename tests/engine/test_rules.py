"""Tests of the line that describes the rules."""

from __future__ import annotations

import pytest

from streammetrics.engine.rules import EngineRules
from streammetrics.events.grades import parse_grades


def described(*segments: str) -> str:
    return EngineRules(topics=("events",), grades=parse_grades("click=1"), segments=segments).describe()


def test_plain_segment_names_are_not_quoted() -> None:
    assert " segments[surface,app version,größe,page.kind] events[native]" in described("surface", "app version", "größe", "page.kind")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a,b",), ("a", "b")),
        (('"a,b"',), ("a,b",)),
        (("a", "b] events[native"), ("a,b] events[native",)),
        (('a"', 'b"'), ('a","b"',)),
    ],
)
def test_different_segments_never_read_the_same(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert described(*one) != described(*other)
