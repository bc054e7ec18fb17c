"""Outages are logged in two lines, and end the worker after `retry_seconds_max`."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from streammetrics.errors import StoreError
from streammetrics.runtime.retry import CALM_SECONDS, Outage, Trouble

UNREACHABLE = StoreError("no answer")


def test_an_outage_is_logged_in_two_lines_although_some_calls_succeed() -> None:
    outage = Outage("store")
    with capture_logs() as lines:
        for second in range(0, 600, 2):
            outage.failed(UNREACHABLE, second, 0)
            outage.succeeded(second + 0.5)
            outage.succeeded(second + 1.5)
        for second in range(600, 620):
            outage.succeeded(second)
    assert lines == [
        {"event": "store unavailable, trying again", "error": "no answer", "log_level": "warning"},
        {"event": "store available again", "failures": 300, "log_level": "info"},
    ]


def test_the_next_outage_is_logged_again() -> None:
    outage = Outage("store")
    with capture_logs() as lines:
        for began in (0.0, 100.0):
            outage.failed(UNREACHABLE, began, 0)
            outage.succeeded(began + 1)
            outage.succeeded(began + 1 + CALM_SECONDS)
            outage.succeeded(began + 2 + CALM_SECONDS)
    assert [line["log_level"] for line in lines] == ["warning", "info"] * 2


def test_trouble_lasts_from_the_first_failure_to_the_first_success() -> None:
    outage = Outage("store")
    outage.failed(UNREACHABLE, 10.0, 0)
    outage.failed(UNREACHABLE, 20.0, 0)
    assert outage.trouble == Trouble(10.0, 2, "no answer")
    outage.succeeded(21.0)
    assert outage.trouble is None
    outage.failed(UNREACHABLE, 22.0, 0)
    assert outage.trouble == Trouble(22.0, 1, "no answer")


def test_only_an_outage_without_any_success_for_so_long_raises() -> None:
    outage = Outage("store")
    for second in range(0, 100, 10):
        outage.failed(UNREACHABLE, second, 30.0)
        outage.succeeded(second + 1)
    outage.failed(UNREACHABLE, 100.0, 30.0)
    outage.failed(UNREACHABLE, 130.0, 30.0)
    with pytest.raises(StoreError, match="no answer"):
        outage.failed(UNREACHABLE, 131.0, 30.0)
