"""Tests of the handler for the Kafka clients' own log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from structlog.testing import capture_logs
from structlog.typing import EventDict

from streammetrics.connectors.kafka.client import CALM_SECONDS, REPEAT_SECONDS_MAX, ClientLog, client_log

BEGAN = 1_000.0


def error_record(text: str, line: int, at: float) -> logging.LogRecord:
    record = logging.LogRecord("kafka.net", logging.ERROR, "connection.py", line, text, None, None)
    record.created = at
    return record


def log_of(*texts: str, at: float = BEGAN + 1) -> ClientLog:
    log = ClientLog()
    for line, text in enumerate(texts):
        log.emit(error_record(text, line, at))
    return log


def test_a_closed_connection_is_remembered_after_other_errors() -> None:
    log = log_of("<KafkaSSLTransport>: socket disconnected", "Connection failed: KafkaConnectionError: 111 ECONNREFUSED")
    assert log.was_closed(BEGAN)
    assert log.last_error(BEGAN) == "Connection failed: KafkaConnectionError: 111 ECONNREFUSED"


def test_an_error_that_names_a_cause_is_preferred() -> None:
    log = log_of("Authentication failed", "<KafkaSSLTransport>: socket disconnected")
    assert log.last_error(BEGAN) == "Authentication failed"
    assert log_of("<KafkaSSLTransport>: socket disconnected").last_error(BEGAN) == "<KafkaSSLTransport>: socket disconnected"


def test_errors_before_the_given_time_are_ignored() -> None:
    log = log_of("<KafkaSSLTransport>: socket disconnected", "Authentication failed", at=BEGAN - 1)
    assert not log.was_closed(BEGAN)
    assert log.last_error(BEGAN) is None


def lines_of(times: Iterable[float], *texts: str) -> list[EventDict]:
    """Return what is logged when a client logs all texts at each of the times."""
    log = ClientLog()
    with capture_logs() as lines:
        for at in times:
            for line, text in enumerate(texts):
                log.emit(error_record(text, line, at))
    return lines


def test_an_outage_of_two_hours_logs_few_lines_per_message_with_the_number_held_back() -> None:
    lines = lines_of(range(7_200), "Connection failed", "Metadata refresh: failed")
    held_back = [line["held_back"] for line in lines if line["message"] == "Connection failed"]
    assert held_back[:4] == [0, 9, 19, 39]
    assert len(held_back) + sum(held_back) > 7_200 - REPEAT_SECONDS_MAX
    assert len(held_back) == len(lines) / 2 < 20


def test_messages_in_a_reported_outage_have_debug_level_and_are_remembered() -> None:
    log = ClientLog()
    with capture_logs() as lines:
        for log.quiet in (False, True, False):
            for line in range(3):
                record = error_record("no answer", line, BEGAN)
                record.pathname = f"{log.quiet}{len(lines)}.py"
                log.emit(record)
    assert [entry["log_level"] for entry in lines] == ["error"] * 3 + ["debug"] * 3 + ["error"] * 3
    assert log.last_error(BEGAN) == "no answer"


def test_a_message_is_logged_at_once_after_a_calm() -> None:
    again = 600 + CALM_SECONDS
    lines = lines_of([*range(600), again, again + 1, again + 10], "Connection failed")
    assert [line["held_back"] for line in lines[-2:]] == [289, 1]


def test_messages_about_the_clients_internals_are_dropped() -> None:
    busy = "Task <kafka.net.selector.Task> ran for 0.106s (>0.100s threshold). It is blocking the event loop -- likely a tight sync loop"
    assert lines_of([0.0], busy, "Failed to build connection log_prefix", "Metadata refresh: failed Cancelled") == []
    assert ClientLog().last_error(0.0) is None


def test_a_flood_through_the_clients_logger_is_logged_once_and_its_last_error_is_kept() -> None:
    log, began = client_log(), time.time()
    with capture_logs() as lines:
        for number in range(300):
            logging.getLogger("kafka.net.flood").error("node %d is gone", number)
    assert [line["message"] for line in lines] == ["node 0 is gone"]
    assert log.last_error(began) == "node 299 is gone"


def test_info_messages_which_may_contain_passwords_are_off() -> None:
    client_log()
    assert not logging.getLogger("kafka.admin.client").isEnabledFor(logging.INFO)
