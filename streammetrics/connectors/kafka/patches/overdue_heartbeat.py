"""Wait for records while the broker owes the answer to a heartbeat.

Works around: the client ends the wait of a poll when the next heartbeat is due, and repeats it until the poll's own timeout. Its
background task sends the heartbeats, one at a time, so the next one stays due until the last one is answered.
Without it: while a broker hangs, each poll repeats a wait of 0 ms all the time. That takes a whole core, and each wait leaves garbage.
Private names: `_coordinator`.
Delete it when: `tests/connectors/kafka/patches/test_overdue_heartbeat.py::TestStillNeeded` fails.
"""

from __future__ import annotations

from typing import Any

import structlog
from kafka import KafkaConsumer

log = structlog.get_logger("streammetrics.kafka")

WAIT_SECONDS_MIN = 0.1
"""A wait ends earlier when a fetch is answered, so records are never late by this."""


def install(consumer: KafkaConsumer) -> None:
    """Make polls wait for at least `WAIT_SECONDS_MIN`, or for their own timeout if that is shorter."""
    try:
        coordinator: Any = consumer._coordinator
        due_in = coordinator.time_to_next_poll
    except AttributeError as error:
        log.warning(
            "polls do not wait for a broker that hangs: kafka-python's private names have changed",
            effect="a worker takes a whole core meanwhile",
            reason=repr(error),
        )
        return
    coordinator.time_to_next_poll = lambda: max(WAIT_SECONDS_MIN, due_in())
