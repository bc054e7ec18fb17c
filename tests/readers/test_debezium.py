"""Debezium: the row after a change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streammetrics.events import Feedback, Impression
from streammetrics.readers import debezium, segment
from streammetrics.readers.debezium import UNAVAILABLE, read
from tests.readers.reading import events_of
from tests.readers.samples import RECORDS

ROW = {"type": "feedback", "user_id": "u7", "ts": 5, "item_id": "b", "action": "click"}
CLICK = Feedback("u7", 5, "b", "click")


@pytest.mark.parametrize(
    "change",
    [
        {"before": None, "after": ROW, "op": "c"},
        {"schema": {}, "payload": {"before": ROW, "after": ROW, "op": "u"}},
        {"after": json.dumps(ROW), "op": "r"},
        {"after": ROW},
        {"after": {**ROW, "value": UNAVAILABLE}, "op": "u"},
    ],
)
def test_the_row_is_an_event(change: dict[str, Any]) -> None:
    assert events_of(read, change) == [CLICK]


@pytest.mark.parametrize("value", [b"", {"before": ROW, "after": None, "op": "d"}, {"payload": {"op": "t"}}])
def test_a_change_without_a_row_is_ignored(value: object) -> None:
    assert events_of(read, value) == ["ignored"]


@pytest.mark.parametrize("value", [ROW, {"payload": 7}, [1], {"op": "c", "after": 7}])
def test_what_is_no_change_is_refused(value: object) -> None:
    assert events_of(read, value) == ["reader"]


def test_another_reader_reads_the_row() -> None:
    change = {"op": "c", "after": RECORDS["segment"][0]}
    (event,) = events_of(lambda record: segment.read(record.of(debezium.row(record))), change)
    assert isinstance(event, Impression)
