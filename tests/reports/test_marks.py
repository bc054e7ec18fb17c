"""Tests of marks: what a request may say, and how many are kept."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.errors import CallerError
from streammetrics.reports.marks import MARKS_MAX, TEXT_CHARS_MAX, Mark, decode_marks, encode_marks, merged, parse_marks
from tests.support.tables import for_each

NOW_MS = 1_732_183_200_000
MARKS = st.builds(Mark, st.integers(0, 50), st.sampled_from(["deploy", "alert"]), st.text(max_size=3), st.text(max_size=2))


def body(content: Any) -> bytes:
    return json.dumps(content).encode()


@given(st.lists(MARKS), st.lists(MARKS), st.lists(MARKS))
def test_merging_is_associative_and_repeats_nothing(one: list[Mark], other: list[Mark], third: list[Mark]) -> None:
    assert merged(merged(one, other), third) == merged(one, merged(other, third))
    assert merged(one, one) == merged(one, [])


def test_the_newest_marks_are_kept() -> None:
    marks = merged([], (Mark(at, "deploy", "x") for at in range(MARKS_MAX + 5)))
    assert [marks[0].at_ms, marks[-1].at_ms, len(marks)] == [5, MARKS_MAX + 4, MARKS_MAX]


def test_stored_marks_are_read_again_and_others_are_none() -> None:
    marks = (Mark(1, "deploy", "a", "ranker"), Mark(2, "alert", "b"))
    assert decode_marks(encode_marks(marks)) == marks
    assert decode_marks(None) == decode_marks(b"[1]") == decode_marks(b"\xff") == ()


@pytest.mark.parametrize(
    ("content", "mark"),
    [
        ({"text": "ranker 7.2"}, Mark(NOW_MS, "deploy", "ranker 7.2")),
        ({"text": " a ", "experiment": "ranker-v7", "at": 5}, Mark(5, "deploy", "a", "ranker-v7")),
        ({"text": "a", "at": "2024-11-21T10:00:00+01:00"}, Mark(NOW_MS - 3_600_000, "deploy", "a")),
        ({"text": "a\u202eb"}, Mark(NOW_MS, "deploy", "a\ufffdb")),
    ],
)
def test_a_deploy_is_read(content: Any, mark: Mark) -> None:
    assert parse_marks(body(content), NOW_MS) == (mark,)


def test_the_alerts_of_a_message_of_alertmanager_are_read() -> None:
    alerts = [
        {
            "status": "firing",
            "labels": {"alertname": "A", "experiment": "ranker"},
            "annotations": {"summary": "it fell"},
            "startsAt": "2024-11-21T10:00:00.5Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "fingerprint": "f00d",
        },
        {
            "status": "resolved",
            "labels": {"alertname": "B"},
            "annotations": {},
            "startsAt": "2024-11-21T10:00:00Z",
            "endsAt": "2024-11-21T10:01:00Z",
        },
        {"status": "suppressed", "labels": {"alertname": "D"}},
        {"status": "firing", "labels": {"alertname": "C" * 500}},
    ]
    assert parse_marks(body({"version": "4", "alerts": alerts}), NOW_MS) == (
        Mark(NOW_MS + 500, "alert", "it fell", "ranker", alert="f00d"),
        Mark(NOW_MS, "alert", "B", ended_ms=NOW_MS + 60_000),
        Mark(NOW_MS, "alert", "C" * TEXT_CHARS_MAX),
    )


def alert(at: int, text: str = "it fell", ended: int | None = None, name: str = "f00d") -> Mark:
    return Mark(at, "alert", text, ended_ms=ended, alert=name)


@for_each(
    [
        ([alert(1, "5 tries"), alert(1, "9 tries")], [alert(1, "9 tries")]),
        ([alert(1), alert(1, ended=7)], [alert(1, ended=7)]),
        ([alert(1), alert(1, ended=7), alert(1, ended=7)], [alert(1, ended=7)]),
        ([alert(2), alert(1, ended=7)], [alert(1, ended=7)]),
        ([alert(1), alert(2, ended=7)], [alert(1, ended=7)]),
        ([alert(1, ended=7), alert(9)], [alert(1, ended=7), alert(9)]),
        ([alert(1, ended=7), alert(9), alert(9, ended=11)], [alert(1, ended=7), alert(9, ended=11)]),
        ([alert(1, ended=7), alert(1)], [alert(1)]),
        ([alert(1), alert(1, ended=7, name="other")], [alert(1), alert(1, ended=7, name="other")]),
    ]
)
def test_what_alertmanager_repeats_is_one_mark(case: tuple[list[Mark], list[Mark]]) -> None:
    messages, marks = case
    stored: tuple[Mark, ...] = ()
    for message in messages:
        stored = merged(stored, [message])
    assert sorted(stored, key=lambda mark: (mark.at_ms, mark.alert)) == marks
    assert merged([], messages) == stored


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.booleans(), st.sampled_from("ab"))))
def test_an_alert_is_never_in_two_marks_at_one_time(messages: list[tuple[int, int, bool, str]]) -> None:
    found = merged([], [alert(at, ended=at + lasts if over else None, name=name) for at, lasts, over, name in messages])
    for name in "ab":
        mine = [mark for mark in found if mark.alert == name]
        assert all(one.ended_ms is not None and one.ended_ms < other.at_ms for one, other in itertools.pairwise(mine))


@for_each(
    [
        (b"", "body: got no JSON; send a JSON object such as"),
        (b"[" * 100_000, "body: got no JSON"),
        (b"[]", "body: got list"),
        (body({}), "text: got nothing; allowed are texts of 1 to 120 characters"),
        (body({"text": "  "}), "text: got '  '"),
        (body({"text": "x" * 121}), "text: got 'xxx"),
        (body({"text": 5}), "text: got 5"),
        (body({"text": "a", "experiment": "x" * 121}), "experiment: got"),
        (body({"text": "a", "time": 5}), "body: got the field 'time'; send"),
        (body({"text": "a", "at": "soon"}), "at: got 'soon'; allowed are epoch milliseconds, or a time such as"),
        (body({"text": "a", "at": "2024-11-21T10:00:00"}), "at: got '2024-11-21T10:00:00'"),
        (body({"text": "a", "at": True}), "at: got 'True'"),
        (body({"text": "a", "at": -1}), "at: got -1"),
        (body({"text": "a", "at": NOW_MS + 86_400_001}), "at most a day ahead"),
        (body({"alerts": [{"status": "firing", "startsAt": "x"}]}), "startsAt: got 'x'"),
    ]
)
def test_anything_else_is_refused_with_what_is_allowed(case: tuple[bytes, str]) -> None:
    content, message = case
    with pytest.raises(CallerError) as caught:
        parse_marks(content, NOW_MS)
    assert message in str(caught.value)
