"""Quotas of the brokers that limit how much this client may read: which are set, and whether one holds the client back now."""

from __future__ import annotations

import time
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.admin.client_quotas import DescribeClientQuotasRequest

from streammetrics.connectors.kafka.client import KafkaConnection, asking

READ_QUOTA = "consumer_byte_rate"
QUOTA_FIX = f"nothing is lost; raise {READ_QUOTA} for this client or its user, or let it take its time"


def held_back_seconds(consumer: Any) -> float:
    """Return how long the brokers still hold a client back; 0 if they do not. They read no request of its connection meanwhile."""
    manager = getattr(consumer, "_manager", None)
    ends = [getattr(connection, "_throttle_time", 0) for connection in list(getattr(manager, "_conns", {}).values())]
    return max(0.0, max(ends, default=0) - time.monotonic())


def read_quotas(settings: KafkaConnection) -> list[str]:
    """Return the quotas on reading that may apply to this client, as texts. Empty also where the user may not ask.

    Raises SourceError when no broker answers.
    """
    own = {"client-id": settings.client_id, "user": settings.sasl_username}
    with asking(settings, "its quotas") as admin:
        try:
            answer = admin._manager.run(admin._manager.send, DescribeClientQuotasRequest(components=[], strict=False))
        except (KafkaError, AttributeError):
            return []
    found = []
    for entry in answer.entries or ():
        of = {each.entity_type: each.entity_name for each in entry.entity}  # no name: the default of all
        rate = next((each.value for each in entry.values if each.key == READ_QUOTA), None)
        if rate is not None and all(kind in own and name in (None, own[kind]) for kind, name in of.items()):
            whose = " and ".join(f"{kind} {name or '(default)'}" for kind, name in of.items())
            found.append(f"{rate:,.0f} bytes per second for {whose}")
    return found
