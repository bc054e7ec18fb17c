"""The simulated receiver of the webhook: all messages that reached it, in order."""

from __future__ import annotations

from typing import Any

import msgspec

from streammetrics.errors import SourceError
from tests.simulation.fate import Fate


class SimulatedReceiver:
    """Takes messages. `is_away`: it refuses them."""

    def __init__(self, fate: Fate) -> None:
        self.messages: list[dict[str, Any]] = []
        self.is_away = False
        self.may_repeat = False
        """Whether a message may come twice: its answer was lost, or its sender died or lost the store before it could note the answer."""
        self._fate = fate

    def send(self, body: bytes, key: str) -> None:
        self._fate.may_die()
        if self.is_away or self._fate.strikes("a message is not taken"):
            raise SourceError("the receiver answered 503")
        message = msgspec.json.decode(body)
        assert message["id"] == key
        self.messages.append(message)
        if self._fate.strikes("the answer to a message is lost"):
            self.may_repeat = True
            raise SourceError("the receiver does not answer")
        self._fate.may_die()
