"""Notice that another process has taken this member's `group_instance_id`.

Works around: the broker reports it in reply to a heartbeat. The client then stops its heartbeats and tells its user nothing.
Without it: the process reads partitions that another process owns, until its next commit to Redis is refused.
Private names: `_coordinator`, `_send_heartbeat_request`.
Delete it when: `tests/connectors/kafka/patches/test_fencing.py::TestStillNeeded` fails.
"""

from __future__ import annotations

import threading
from typing import Any

import structlog
from kafka import KafkaConsumer
from kafka.errors import FencedInstanceIdError

log = structlog.get_logger("streammetrics.kafka")


def install(consumer: KafkaConsumer) -> threading.Event:
    """Return an event that is set when another process takes this member's place."""
    fenced = threading.Event()
    try:
        coordinator = consumer._coordinator
        send = coordinator._send_heartbeat_request
    except AttributeError as error:
        log.warning(
            "fencing is noticed late: kafka-python's private names have changed",
            effect="two processes with one group_instance_id both read until one's commit is refused",
            reason=repr(error),
        )
        return fenced

    async def send_and_note() -> Any:
        try:
            return await send()
        except FencedInstanceIdError:
            fenced.set()
            raise

    coordinator._send_heartbeat_request = send_and_note
    return fenced
