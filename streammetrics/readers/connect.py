"""Kafka Connect: JSON with schemas. By itself, it reads payloads that are native events. For other payloads:

    from streammetrics.readers import connect, segment

    def read(record):
        yield from segment.read(record.of(connect.payload(record)))

https://kafka.apache.org/documentation/#connect
"""

import json
from collections.abc import Iterator
from typing import Any

from streammetrics.readers import Record


def read(record: Record) -> Iterator[Any]:
    yield payload(record)


def payload(record: Record) -> Any:
    return content(record.json()["payload"])


def content(value: Any) -> Any:
    """Return an event that may be in a text: single-column rows often hold JSON."""
    return json.loads(value) if isinstance(value, str) else value
