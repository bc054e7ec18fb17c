"""Tests of durations and start times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.config.times import parse_duration
from streammetrics.words.times import SPAN_MS_MAX
from tests.support.settings import problem_of
from tests.support.tables import for_each


@for_each(
    [
        ("1ms", "1ms", 1),
        ("90s", "90s", 90_000),
        ("60m", "60m", 3_600_000),
        ("1h", "1h", 3_600_000),
        ("366d", "366d", SPAN_MS_MAX),
        (1, "1ms", 1),
        (1500, "1500ms", 1500),
        ("90000", "90s", 90_000),
        (3_600_000, "1h", 3_600_000),
        (86_400_000, "1d", 86_400_000),
    ]
)
def test_a_duration_keeps_its_text(case: tuple[Any, Any, Any]) -> None:
    given, text, ms = case
    assert (parse_duration(given).text, parse_duration(given).ms) == (text, ms)


@for_each(["", "m", "-5m", "5 m", "5M", "1.5h", "5w", "0", "0s", "367d", "\u0665m", 0, -1, 1.5, True, None, [5]])
def test_an_invalid_duration_is_rejected(given: Any) -> None:
    with pytest.raises(ValueError, match="a duration"):
        parse_duration(given)


@given(st.integers(1, SPAN_MS_MAX))
def test_a_number_of_milliseconds_gets_an_equal_text(ms):
    duration = parse_duration(ms)
    assert (parse_duration(duration.text), duration.ms) == (duration, ms)


@for_each(
    [
        ("yesterday", "a time is ISO-8601"),
        ("2026-01-31T09:00:00", "a time needs a zone"),
        ("2026-01-31", "a time needs a zone"),
        (1_769_850_000, "did you mean seconds"),
        ("1769850000", "did you mean seconds"),
        (-1, "did you mean seconds"),
        (999_999_999_999_999, "must be before the year 10000"),
        (10**30, "must be before the year 10000"),
        ("1969-12-31T23:59:59Z", "must not be before 1970"),
        ("1970-01-01T00:30:00+01:00", "must not be before 1970"),
        (True, "true and false are not numbers"),
        (1.5, "a time is ISO-8601"),
        ("", "a time is ISO-8601"),
        ([], "a time is ISO-8601"),
    ]
)
def test_an_invalid_start_is_rejected_with_what_is_allowed(case: tuple[Any, Any]) -> None:
    given, rule = case
    problem = problem_of(kafka__start=given)
    assert problem.key == "kafka.start"
    assert problem.allowed.startswith("must be earliest, latest, or a time: ISO-8601 with a zone, or epoch milliseconds; ")
    assert rule in problem.allowed
