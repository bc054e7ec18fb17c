"""Notices what the client never says: brokers that cannot be reached, and a client that stays deaf while they answer.

Pure: it is told what was seen and when, in seconds of any monotonic clock, and says what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streammetrics.connectors.base import Input, SourceHealth

LOOK_SECONDS = 3.0
LOOK_AGAIN_SECONDS = 1.0
"""How often to look while brokers are away, so that their return is noticed soon."""
STALL_SECONDS = 20.0
"""Longer than a request may take (10 s) and 10 s more, so that a slow fetch is not taken for a deaf client."""
STALL_SECONDS_PER_INPUT = 0.5
"""One client serves its inputs in turn, a fetched chunk each: with many, each waits longer for its turn."""
HUNG_SECONDS = 60.0
"""A broker that accepts connections but answers nothing is given this long before the client itself is suspected."""
NEWS_SECONDS = 60.0
"""What has not failed for so long is news when it fails again; a client whose connections are reset fails ten times a second."""
AWAY_SECONDS = 5.0
"""Nobody polled for this long: the service was busy elsewhere, and unmoved positions mean nothing."""


class LivenessMonitor:
    """Times and positions of one source, whose client may be replaced.

    >>> dog, place = LivenessMonitor(now=0.0), Input("clicks", 0)
    >>> [bool(dog.heard(float(now), {place: 5}, {place: 3})) for now in range(0, 24, 3)]
    [False, False, False, False, False, False, False, True]
    """

    def __init__(self, now: float) -> None:
        self.health = SourceHealth(True, now, ends_asked=now)
        self._look_at = now
        self._polled_at = now
        self._still: dict[Input, tuple[int, float]] = {}
        self._hung_since: float | None = None
        self._failed_at: float | None = None

    def polled(self, now: float) -> bool:
        """Note that a poll begins; whether it is time to look at the brokers."""
        if now - self._polled_at > AWAY_SECONDS:
            self._still.clear()
        self._polled_at = now
        return now >= self._look_at

    def heard(self, now: float, ends: Mapping[Input, int], positions: Mapping[Input, int]) -> list[Input]:
        """The broker gave these end offsets; `positions` are those of the inputs that should flow. Returns the deaf ones."""
        self._look_at, self._hung_since = now + LOOK_SECONDS, None
        self._turn(now, True)
        self.health = replace(self.health, ends_asked=now)
        self._still = {
            place: self._still[place] if place in self._still and self._still[place][0] == position else (position, now)
            for place, position in positions.items()
            if place in ends and ends[place] > position
        }
        patience = STALL_SECONDS + STALL_SECONDS_PER_INPUT * (len(positions) - 1)
        return sorted(place for place, (_, since) in self._still.items() if now - since >= patience)

    def unheard(self, now: float, reason: str, connects: bool) -> bool:
        """The broker did not answer; `connects`: it does accept a connection. Returns whether the client is to be rebuilt."""
        self._look_at = now + LOOK_AGAIN_SECONDS
        self._still.clear()
        self._turn(now, False, reason)
        if not connects:
            self._hung_since = None
        elif self._hung_since is None:
            self._hung_since = now
        return self._hung_since is not None and now - self._hung_since >= HUNG_SECONDS

    def records_came(self, now: float) -> None:
        """Records are an answer too."""
        if not self.health.reachable:
            self._turn(now, True)

    def moved(self) -> None:
        """Tasks changed hands or were sought anew: positions start over."""
        self._still.clear()

    def rebuilding(self, now: float) -> None:
        self.health = replace(self.health, rebuilds=self.health.rebuilds + 1)
        self._still.clear()
        self._hung_since = None
        self._look_at = now

    def failed(self, reason: str) -> bool:
        """Keep the words of an error that says nothing about reachability. Whether it is news: nothing had failed for a while."""
        self.health = replace(self.health, last_error=reason)
        before, self._failed_at = self._failed_at, self._polled_at
        return self.health.reachable and (before is None or self._polled_at - before > NEWS_SECONDS)

    def _turn(self, now: float, reachable: bool, reason: str = "") -> None:
        since = now if reachable != self.health.reachable else self.health.since
        self.health = replace(self.health, reachable=reachable, since=since, last_error=reason or self.health.last_error)
