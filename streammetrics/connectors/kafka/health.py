"""Whether Kafka can be read: what the client raises, by cause and with what to do, and what it never reports.

It never reports unreachable brokers, and that it stalls while brokers answer. `LivenessMonitor` detects both. It is pure: callers pass in
observations with a time in seconds of any monotonic clock.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import structlog
from kafka.errors import FencedInstanceIdError, KafkaError, LogTruncationError, OffsetOutOfRangeError, UnsupportedCodecError

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import BOOTSTRAP_MS, client_log, describe_error
from streammetrics.connectors.kafka.consumer import bounds_of
from streammetrics.connectors.kafka.stored_offsets import LogIdentity
from streammetrics.connectors.source import Input, SourceHealth
from streammetrics.errors import ConfigError, Problem, SourceError

CHECK_SECONDS = 3.0
CHECK_AGAIN_SECONDS = 1.0
"""The interval between checks while brokers are away, so that their return is noticed soon."""
STALL_SECONDS = 20.0
"""10 s more than a request may take, so that a slow fetch does not count as a stall."""
STALL_SECONDS_PER_INPUT = 0.5
"""A client returns one fetched chunk per input in turn. With many inputs each waits longer."""
HUNG_SECONDS = 60.0
"""How long a broker may accept connections without answering before the client is replaced."""
QUOTA_SECONDS = 60.0
"""How long reading is said to be slowed down by a quota after it last was. The brokers hold a client back again and again."""
QUIET_SECONDS = 60.0
"""An error is logged again if none occurred for this long. A client with reset connections fails ten times a second."""
AWAY_SECONDS = 5.0
"""After a pause between polls longer than this, unmoved positions do not count: the process was busy elsewhere."""
log = structlog.get_logger("streammetrics.kafka")


class LivenessMonitor:
    """Watches one source. Its client may be replaced meanwhile.

    >>> monitor, place = LivenessMonitor(now=0.0), Input("clicks", 0)
    >>> [bool(monitor.answered(float(now), {place: 5}, {place: 3})) for now in range(0, 24, 3)]
    [False, False, False, False, False, False, False, True]
    """

    def __init__(self, now: float) -> None:
        self.health = SourceHealth(True, now, ends_asked=now)
        self._check_at = now
        self._polled_at = now
        self._unmoved: dict[Input, tuple[int, float]] = {}
        self._hung_since: float | None = None
        self._failed_at: float | None = None
        self._held_until = -math.inf

    def poll_begins(self, now: float) -> bool:
        """Note that a poll begins. Returns whether a check of the brokers is due."""
        if now - self._polled_at > AWAY_SECONDS:
            self._unmoved.clear()
        self._polled_at = now
        return now >= self._check_at

    def answered(self, now: float, ends: Mapping[Input, int], positions: Mapping[Input, int]) -> list[Input]:
        """Note the end offsets of a check. `positions` are those of inputs that are not paused. Returns the stalled inputs."""
        self._check_at, self._hung_since = now + CHECK_SECONDS, None
        self._set_reachable(now, True)
        self.health = replace(self.health, ends_asked=now)
        self._unmoved = {
            place: self._unmoved[place] if place in self._unmoved and self._unmoved[place][0] == position else (position, now)
            for place, position in positions.items()
            if place in ends and ends[place] > position
        }
        patience = STALL_SECONDS + STALL_SECONDS_PER_INPUT * (len(positions) - 1)
        return sorted(place for place, (_, since) in self._unmoved.items() if now - since >= patience)

    def unanswered(self, now: float, reason: str, connects: bool) -> bool:
        """Note a check without an answer. `connects`: a broker accepts connections. Returns whether to replace the client."""
        self._check_at = now + CHECK_AGAIN_SECONDS
        self._unmoved.clear()
        self._set_reachable(now, False, reason)
        if not connects:
            self._hung_since = None
        elif self._hung_since is None:
            self._hung_since = now
        return self._hung_since is not None and now - self._hung_since >= HUNG_SECONDS

    def held_back(self, now: float, seconds: float) -> bool:
        """Note that a quota of the brokers holds the client back for `seconds` more. Returns whether this is new.

        The next check waits until then, because no answer comes before. Reading slowly is neither an outage nor a stall.
        """
        is_new, self._held_until = not self.has_quota(now), now + seconds
        self._check_at = max(self._check_at, self._held_until)
        self._unmoved.clear()
        self._hung_since = None
        return is_new

    def has_quota(self, now: float, within_seconds: float = QUOTA_SECONDS) -> bool:
        """Return whether a quota holds the client back, or did so within these seconds."""
        return now <= self._held_until + within_seconds

    def records_arrived(self, now: float) -> None:
        """Note that brokers answer, since records arrived."""
        if not self.health.reachable:
            self._set_reachable(now, True)

    def reset_positions(self) -> None:
        """Forget positions, because tasks changed hands or were sought."""
        self._unmoved.clear()

    def client_replaced(self, now: float) -> None:
        """Count a replaced client, and make a check due at once."""
        self.health = replace(self.health, rebuilds=self.health.rebuilds + 1)
        self._unmoved.clear()
        self._hung_since = None
        self._check_at = now

    def note_error(self, reason: str) -> bool:
        """Keep an error that does not affect reachability. Returns whether to log it: brokers answer and no error was recent."""
        self.health = replace(self.health, last_error=reason)
        before, self._failed_at = self._failed_at, self._polled_at
        return self.health.reachable and (before is None or self._polled_at - before > QUIET_SECONDS)

    def _set_reachable(self, now: float, reachable: bool, reason: str = "") -> None:
        since = now if reachable != self.health.reachable else self.health.since
        self.health = replace(self.health, reachable=reachable, since=since, last_error=reason or self.health.last_error)


@contextlib.contextmanager
def explained(consumer: Any, settings: KafkaSettings, identity: LogIdentity, monitor: LivenessMonitor) -> Iterator[None]:
    """Turn the client's errors into ours. Retriable errors are kept in the monitor's `health` and not raised."""
    try:
        yield
    except OffsetOutOfRangeError as error:
        _explain_gap(consumer, {Input(*place): offset for place, offset in error.args[0].items()}, identity, monitor)
    except LogTruncationError as error:
        identity.require_same_topics()
        lost = [f"{place.topic} [{place.partition}]" for place in error.divergent_offsets]
        raise identity.truncated(lost) from error
    except FencedInstanceIdError as error:
        taken = "another process has joined the group with it and owns the partitions; give each worker its own"
        raise ConfigError([Problem("kafka.group_instance_id", str(settings.group_instance_id), taken)]) from error
    except UnsupportedCodecError as error:
        raise SourceError(
            f"this Python cannot read the records' compression ({error})", "install lz4, python-snappy or zstandard"
        ) from error
    except KafkaError as error:
        is_news = monitor.note_error(describe_error(error))
        if not error.retriable:
            cause = client_log().last_error(time.time() - BOOTSTRAP_MS / 1_000)
            raise SourceError(f"Kafka cannot be read: {describe_error(error)}{f' ({cause})' if cause else ''}") from error
        if is_news:
            log.warning("Kafka cannot be read at the moment", reason=describe_error(error))


def _explain_gap(consumer: Any, positions: Mapping[Input, int], identity: LogIdentity, monitor: LivenessMonitor) -> None:
    """Raise StateError for positions outside the log. Return if the broker does not answer: the error comes again."""
    try:
        bounds = bounds_of(consumer, positions)
    except KafkaError as error:
        monitor.note_error(str(error))
        return
    identity.require_held(positions, bounds)
