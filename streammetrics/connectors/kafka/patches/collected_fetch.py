"""Let the brokers collect records for as long as the reader can do without them.

Works around: how long a broker may hold a fetch is fixed when the client is built.
Without it: numbers are the same. Brokers answer ten times a second, which costs a third more processor time per event in live traffic.
Private names: `_fetcher`.
Delete it when: `tests/connectors/kafka/patches/test_collected_fetch.py::TestStillNeeded` fails.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
from kafka import KafkaConsumer

log = structlog.get_logger("streammetrics.kafka")


def install(consumer: KafkaConsumer) -> Callable[[int], None]:
    """Return a function that sets how long (ms) brokers may hold the fetches that are sent from now on."""
    try:
        settings = consumer._fetcher.config
        settings["fetch_max_wait_ms"] = int(settings["fetch_max_wait_ms"])
    except (AttributeError, KeyError, TypeError) as error:
        log.warning(
            "records are fetched too often: kafka-python's private names have changed",
            effect="live traffic takes more processor time",
            reason=repr(error),
        )
        return lambda wait_ms: None

    def hold(wait_ms: int) -> None:
        settings["fetch_max_wait_ms"] = wait_ms

    return hold
