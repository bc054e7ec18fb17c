"""Noticing that the group has given this member's `group_instance_id` to another process. Nothing here talks to a broker.

It leans on private names of kafka-python. Where they have changed, the client tells of it with the next commit of offsets only.
"""

from __future__ import annotations

import threading
from typing import Any

import structlog
from kafka import KafkaConsumer
from kafka.errors import FencedInstanceIdError

log = structlog.get_logger("streammetrics.kafka")


def note_fencing(consumer: KafkaConsumer) -> threading.Event:
    """An event that is set when another process takes this member's place.

    The client hears of it with a heartbeat, sends no more of them, and says nothing: it reads on what is another's by now.
    """
    fenced = threading.Event()
    try:
        coordinator = consumer._coordinator
        send = coordinator._send_heartbeat_request
    except AttributeError as error:
        log.warning("who takes this member's place is noticed late: the client's inner names have changed", reason=repr(error))
        return fenced

    async def send_and_note() -> Any:
        try:
            return await send()
        except FencedInstanceIdError:
            fenced.set()
            raise

    coordinator._send_heartbeat_request = send_and_note
    return fenced
