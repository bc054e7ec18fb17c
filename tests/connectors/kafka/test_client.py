"""What the Kafka clients of a process log: the cause of a failed start, and what only hints at one."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from structlog.testing import capture_logs
from structlog.typing import EventDict

from streammetrics.connectors.kafka.client import CALM_SECONDS, REPEAT_SECONDS_MAX, ClientLog

BEGAN = 1_000.0


def heard(*texts: str, at: float = BEGAN + 1) -> ClientLog:
    log = ClientLog()
    for line, text in enumerate(texts):
        record = logging.LogRecord("kafka.net", logging.ERROR, "connection.py", line, text, None, None)
        record.created = at
        log.emit(record)
    return log


def test_a_closed_connection_is_remembered_whatever_another_client_says_after_it() -> None:
    log = heard("<KafkaSSLTransport>: socket disconnected", "Connection failed: KafkaConnectionError: 111 ECONNREFUSED")
    assert log.was_closed(BEGAN)
    assert log.last_error(BEGAN) == "Connection failed: KafkaConnectionError: 111 ECONNREFUSED"


def test_what_tells_of_no_cause_counts_where_nothing_else_was_said() -> None:
    log = heard("Authentication failed", "<KafkaSSLTransport>: socket disconnected")
    assert log.last_error(BEGAN) == "Authentication failed"
    assert heard("<KafkaSSLTransport>: socket disconnected").last_error(BEGAN) == "<KafkaSSLTransport>: socket disconnected"


def test_what_was_logged_before_does_not_count() -> None:
    log = heard("<KafkaSSLTransport>: socket disconnected", "Authentication failed", at=BEGAN - 1)
    assert not log.was_closed(BEGAN)
    assert log.last_error(BEGAN) is None


def passed_on(times: Iterable[float], *texts: str) -> list[EventDict]:
    """What is passed on of a client that says all of these at each of the times."""
    log = ClientLog()
    with capture_logs() as lines:
        for at in times:
            for line, text in enumerate(texts):
                record = logging.LogRecord("kafka.net", logging.ERROR, "connection.py", line, text, None, None)
                record.created = at
                log.emit(record)
    return lines


def test_an_outage_of_two_hours_is_a_few_lines_of_each_kind_that_tell_how_many_there_were() -> None:
    lines = passed_on(range(7_200), "Connection failed", "Metadata refresh: failed")
    of_one = [line["held_back"] for line in lines if line["message"] == "Connection failed"]
    assert of_one[:4] == [0, 9, 19, 39]
    assert len(of_one) + sum(of_one) > 7_200 - REPEAT_SECONDS_MAX
    assert len(of_one) == len(lines) / 2 < 20


def test_in_an_outage_that_was_told_of_all_is_detail_and_still_remembered() -> None:
    log = ClientLog()
    with capture_logs() as lines:
        for log.quiet in (False, True, False):
            for line in range(3):
                record = logging.LogRecord("kafka.net", logging.ERROR, f"{log.quiet}{len(lines)}.py", line, "no answer", None, None)
                record.created = BEGAN
                log.emit(record)
    assert [entry["log_level"] for entry in lines] == ["error"] * 3 + ["debug"] * 3 + ["error"] * 3
    assert log.last_error(BEGAN) == "no answer"


def test_what_is_said_again_after_a_calm_is_news() -> None:
    again = 600 + CALM_SECONDS
    lines = passed_on([*range(600), again, again + 1, again + 10], "Connection failed")
    assert [line["held_back"] for line in lines[-2:]] == [289, 1]


def test_what_the_client_says_of_its_own_inside_is_not_passed_on() -> None:
    busy = "Task <kafka.net.selector.Task> ran for 0.106s (>0.100s threshold). It is blocking the event loop -- likely a tight sync loop"
    assert passed_on([0.0], busy, "Failed to build connection log_prefix", "Metadata refresh: failed Cancelled") == []
    assert ClientLog().last_error(0.0) is None
