"""The log shows one refused event of each kind, with what is wrong with it."""

from __future__ import annotations

from structlog.testing import capture_logs

from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.source import Input
from streammetrics.runtime.consume.event_log import log_first_refusal


def test_a_refused_event_is_logged_with_its_place_and_what_is_wrong() -> None:
    with capture_logs() as logged:
        log_first_refusal(DeadLetter("bad_ts", "ts must be an integer", Input("shop", 3), 17, b"raw"))
    (line,) = logged
    del line["event"]
    assert line == {
        "log_level": "warning",
        "topic": "shop",
        "partition": 3,
        "offset": 17,
        "reason": "bad_ts",
        "detail": "ts must be an integer",
    }


def test_late_events_are_only_counted() -> None:
    with capture_logs() as logged:
        log_first_refusal(DeadLetter("late", "too old", Input("shop", 3), 17, b"raw"))
    assert logged == []
