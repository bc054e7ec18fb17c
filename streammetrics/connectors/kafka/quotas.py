"""Quotas of the brokers that limit how much this client may read."""

from __future__ import annotations

from streammetrics.connectors.kafka.client import KafkaConnection, asking
from streammetrics.connectors.kafka.patches import client_quotas

READ_QUOTA = "consumer_byte_rate"
QUOTA_FIX = f"nothing is lost; raise {READ_QUOTA} for this client or its user, or let it take its time"


def read_quotas(settings: KafkaConnection) -> list[str]:
    """Return the quotas on reading that may apply to this client, as texts. Empty also where the user may not ask.

    Raises SourceError when no broker answers.
    """
    own = {"client-id": settings.client_id, "user": settings.sasl_username}
    with asking(settings, "its quotas") as admin:
        entries = client_quotas.described(admin)
    found = []
    for entry in entries:
        of = {each.entity_type: each.entity_name for each in entry.entity}  # no name: the default of all
        rate = next((each.value for each in entry.values if each.key == READ_QUOTA), None)
        if rate is not None and all(kind in own and name in (None, own[kind]) for kind, name in of.items()):
            whose = " and ".join(f"{kind} {name or '(default)'}" for kind, name in of.items())
            found.append(f"{rate:,.0f} bytes per second for {whose}")
    return found
