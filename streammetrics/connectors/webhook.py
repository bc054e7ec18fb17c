"""Sends a message to the receiver of a webhook, signed.

The signature is HMAC-SHA256 with the shared secret over `TIMESTAMP.BODY`, in hexadecimal. The timestamp (epoch seconds) is part of it, so
that a receiver can refuse a message that was recorded and sent again much later. A message that is tried again has the same
`Idempotency-Key` and a new timestamp.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

from streammetrics.connectors.http_client import HttpClient, HttpError
from streammetrics.version import __version__

SIGNATURE_HEADER = "x-streammetrics-signature"
TIMESTAMP_HEADER = "x-streammetrics-timestamp"


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return the value of the signature header.

    >>> signature("secret", 1_732_183_200, b"{}")
    'v1=bcdad1d3a7429d5c32e5b8cbfbf2aa60b9bf1453edaa52747a4d910f78c963ac'
    """
    digest = hmac.new(secret.encode(), b"%d.%s" % (timestamp, body), hashlib.sha256)
    return f"v1={digest.hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookReceiver:
    """The receiver at an http or https URL. `wall_ms` is the time of day (epoch ms). Without a secret, messages are not signed."""

    url: str = field(repr=False)
    client: HttpClient
    wall_ms: Callable[[], int]
    secret: str | None = field(default=None, repr=False)

    def send(self, body: bytes, key: str) -> None:
        """Send a message. `key` identifies it. Raises HttpError unless the receiver answers with a status of 200 to 299."""
        timestamp = self.wall_ms() // 1_000
        headers = {
            "content-type": "application/json",
            "user-agent": f"streammetrics/{__version__}",
            "idempotency-key": key,
            TIMESTAMP_HEADER: str(timestamp),
        }
        if self.secret is not None:
            headers[SIGNATURE_HEADER] = signature(self.secret, timestamp, body)
        answer = self.client.request("POST", self.url, headers, body)
        if not 200 <= answer.status < 300:
            raise HttpError(f"the receiver answered {answer.status}")
