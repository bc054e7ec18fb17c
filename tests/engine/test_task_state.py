"""What names the rules that state was made by."""

from __future__ import annotations

import pytest

from streammetrics.engine.rules import EngineRules
from streammetrics.events.grades import parse_grades


def described(*segments: str) -> str:
    return EngineRules(topics=("events",), grades=parse_grades("click=1"), segments=segments).describe()


def test_plain_names_of_segments_stand_as_they_are() -> None:
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
def test_other_segments_are_other_rules_whatever_their_names(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert described(*one) != described(*other)
