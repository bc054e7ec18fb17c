"""What tests read, change and run inside a Kafka client, by private names of kafka-python."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from streammetrics.connectors.kafka.source import KafkaSource


def generation_of(source: KafkaSource) -> int:
    """Return the group's generation: every rebalance adds one."""
    return int(source._consumer._coordinator._generation.generation_id)


def join_has_ended(source: KafkaSource) -> bool:
    """Return whether no join is on its way."""
    join = source._consumer._coordinator._join_task
    return join is None or bool(join.is_done)


def stop_fetching(source: KafkaSource) -> None:
    """Leave the client like one whose fetches stay pending for ever. No real broker does this on demand."""
    source._consumer._fetcher._create_fetch_requests = dict


def vanish(source: KafkaSource) -> None:
    """Close the client's connections without leaving the group, like `kill -9`."""
    source._consumer._client.close()
    source._consumer = None


def finished(call: Coroutine[Any, Any, Any]) -> Any:
    """Run one of the client's coroutines and return its result, on a thread of its own: a browser may keep a loop on the main thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call).result()
