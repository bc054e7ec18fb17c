"""Close a producer that still has records to send.

Works around: `KafkaProducer.close(timeout)` raises KafkaTimeoutError when records are left after the timeout. It does not stop its
threads then.
Without it: each such producer leaves threads and connections behind, and they try to send for ever.
Private names: `_sender`.
Delete it when: `tests/connectors/kafka/patches/test_stuck_producer.py::TestStillNeeded` fails.
"""

from __future__ import annotations

import contextlib
from typing import Any

import structlog
from kafka.errors import KafkaError

log = structlog.get_logger("streammetrics.kafka")

CLOSE_SECONDS = 1


def close(producer: Any) -> None:
    """Wait a second for the records on their way, drop the rest, and stop the producer's threads."""
    try:
        producer.close(timeout=CLOSE_SECONDS)
    except KafkaError:
        try:
            sender = producer._sender
        except AttributeError as error:
            log.warning(
                "a producer cannot be stopped: kafka-python's private names have changed",
                effect="its threads keep trying to send",
                reason=repr(error),
            )
            return
        sender.force_close()
        sender.join(CLOSE_SECONDS)
        with contextlib.suppress(KafkaError):
            producer.close(timeout=CLOSE_SECONDS)
