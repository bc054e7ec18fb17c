"""Amazon Personalize: rows of interactions with their lists."""

from __future__ import annotations

from streammetrics.events import Feedback, Impression
from streammetrics.readers.personalize import read
from tests.readers.reading import events_of
from tests.readers.samples import NOON, ROW

LISTED = ROW | {"IMPRESSION": "a|b"}


def test_a_row_is_a_list_and_its_feedback() -> None:
    name = "u/1772366400"
    assert events_of(read, LISTED) == [Impression(name, "u", NOON, ("a", "b")), Feedback("u", NOON, "b", "watch", 31.0, name)]
    named = LISTED | {"RECOMMENDATION_ID": "r1", "IMPRESSION": ["a", "b"], "TIMESTAMP": 1772366400}
    assert [event.impression_id for event in events_of(read, named) if isinstance(event, Impression | Feedback)] == ["r1", "r1"]


def test_a_row_without_a_list_is_feedback() -> None:
    alone = LISTED | {"IMPRESSION": "", "EVENT_TYPE": "", "EVENT_VALUE": ""}
    assert events_of(read, alone) == [Feedback("u", NOON, "b", "click")]
    assert events_of(read, LISTED | {"TIMESTAMP": "noon"}) == events_of(read, [LISTED]) == ["reader"]
