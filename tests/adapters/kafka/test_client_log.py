"""What the Kafka clients of a process log: the cause of a failed start, and what only hints at one."""

from __future__ import annotations

import logging

from streammetrics.adapters.kafka.client import ClientLog

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
