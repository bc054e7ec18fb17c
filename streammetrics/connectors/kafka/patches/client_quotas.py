"""Ask a broker for the quotas of clients.

Works around: the admin client has no call for them, though the client knows the request.
Without it: `doctor` cannot name a quota that slows the workers down.
Private names: `_manager`.
Delete it when: `tests/connectors/kafka/patches/test_client_quotas.py::TestStillNeeded` fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from kafka import KafkaAdminClient
from kafka.protocol.admin.client_quotas import DescribeClientQuotasRequest

log = structlog.get_logger("streammetrics.kafka")


def described(admin: KafkaAdminClient) -> Sequence[Any]:
    """Return all entries, each with its `entity` and its `values`. Raises the client's KafkaError when the broker does not answer."""
    try:
        manager = admin._manager
    except AttributeError as error:
        log.warning(
            "quotas are not looked up: kafka-python's private names have changed", effect="doctor names no quota", reason=repr(error)
        )
        return ()
    answer = manager.run(manager.send, DescribeClientQuotasRequest(components=[], strict=False))
    return answer.entries or ()  # none without the right to see them
