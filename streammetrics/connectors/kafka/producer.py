"""How a producer is let go."""

from __future__ import annotations

import contextlib
from typing import Any

from kafka.errors import KafkaError

CLOSE_SECONDS = 1


def close_producer(producer: Any) -> None:
    """Wait a moment for what is under way, and give up the rest, with every thread that would try on.

    Where something is still to be sent after that moment, the client's own `close` says so and leaves its threads at work for ever.
    """
    try:
        producer.close(timeout=CLOSE_SECONDS)
    except KafkaError:
        producer._sender.force_close()
        producer._sender.join(CLOSE_SECONDS)
        with contextlib.suppress(KafkaError):
            producer.close(timeout=CLOSE_SECONDS)
