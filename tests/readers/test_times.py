"""Times as warehouses write them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from streammetrics.readers import times

NOON = 1_772_366_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01 12:00:00 UTC", NOON),
        ("2026-03-01 12:00:00.123456 UTC", NOON + 123),
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01 12:00:00 +00:00", NOON),
        ("2026-03-01 04:00:00-08", NOON),
        ("2026-03-01 04:00:00.5 -0800", NOON + 500),
        ("2026-03-01  12:00:00  GMT", NOON),
        (" 2026-03-01 12:00:00 UTC\n", NOON),
        ("20260301T120000Z", NOON),
    ],
)
def test_dates_and_times_with_a_zone(text: str, expected: int) -> None:
    assert times.text(text) == expected


def test_a_zone_is_only_for_times_that_have_none():
    assert times.text("2026-03-01 12:00:00", "Z") == NOON
    assert times.text("2026-03-01 04:00:00", "-08:00") == NOON
    assert times.text("2026-03-01 12:00:00 UTC", "-08:00") == NOON


@pytest.mark.parametrize("text", ["", "2026-03-01", "12:00:00", "2026-02-30 12:00:00 UTC", "2026-03-01 25:00:00Z", "1772366400", "now"])
def test_other_text_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is no date and time"):
        times.text(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_772_366_400, NOON),
        (1_772_366_400.123, NOON + 123),
        ("1772366400.9999", NOON + 999),
        (Decimal("1772366400.001"), NOON + 1),
    ],
)
def test_seconds(value: float | str | Decimal, expected: int) -> None:
    assert times.seconds(value) == expected


def test_micros_beyond_the_whole_numbers_of_a_double():
    assert times.micros(1_772_366_400_123_999) == times.micros("1772366400123999") == NOON + 123


@pytest.mark.parametrize("value", ["", "noon", float("nan"), float("inf"), True])
def test_what_is_no_number_is_no_time(value: object) -> None:
    with pytest.raises(ValueError, match="is no number"):
        times.seconds(value)  # type: ignore[arg-type]
