"""Checks that the input topics are still the logs that the stored offsets refer to. Reads no record."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from streammetrics.connectors.kafka.client import KafkaConnection
from streammetrics.connectors.kafka.topics import MissingTopic, describe_topics, topic_id_text
from streammetrics.connectors.source import Input
from streammetrics.errors import ConfigError, SourceError, StateError

TOPIC_GONE_SECONDS = 15.0
"""How long a topic may be missing from the metadata. A broker that has just started may not know it yet."""
START_AGAIN = "start again with a new redis.namespace"


class LogIdentity:
    """The input topics at start-up: their ids ("" where unknown) and their number of partitions."""

    def __init__(self, settings: KafkaConnection, topic_ids: Mapping[str, str], partitions: int) -> None:
        self._settings, self._topic_ids, self._partitions = settings, topic_ids, partitions
        self._gone_since: dict[str, float] = {}

    def check(self, cluster: Any, now: float) -> None:
        """Compare the client's metadata (at most ten seconds old) with start-up. Raises StateError. Sends no request."""
        for topic, topic_id in self._topic_ids.items():
            partitions = cluster.partitions_for_topic(topic)
            if not partitions:
                if now - self._gone_since.setdefault(topic, now) > TOPIC_GONE_SECONDS:
                    del self._gone_since[topic]
                    self.require_same_topics()
                continue
            self._gone_since.pop(topic, None)
            _require_same_id(topic, topic_id, topic_id_text(cluster.topic_id(topic)))
            if len(partitions) != self._partitions:
                raise StateError(
                    f"topic {topic!r} now has {len(partitions)} partitions, and had {self._partitions} when this process started: users "
                    "have moved to other partitions",
                    f"give all input topics the same count and {START_AGAIN}",
                )

    def require_same_topics(self) -> None:
        """Ask the broker. Raises StateError if a topic is gone, or was created again."""
        with contextlib.suppress(SourceError, ConfigError):  # without an answer, another check finds the cause later
            described = describe_topics(self._settings, self._settings.topics)
            for topic, known in self._topic_ids.items():
                if described.absent.get(topic) is MissingTopic.MISSING:  # not HIDDEN: such a topic may exist
                    raise StateError(f"topic {topic!r} has been deleted, and the stored state belongs to it", START_AGAIN)
                if topic in described.found:
                    _require_same_id(topic, known, described.found[topic].topic_id)

    def require_held(self, offsets: Mapping[Input, int], bounds: Mapping[Input, tuple[int, int]]) -> None:
        """Raise StateError, with the missing records per input, unless each log can be read on from its offset.

        `bounds` are (beginning, end) offsets. An offset at the end is fine: the next record gets it.
        """
        gaps = []
        for place, offset in offsets.items():
            beginning, end = bounds[place]
            name = f"{place.topic} [{place.partition}]"
            if offset < beginning:
                gaps.append(f"{name}: {_records(beginning - offset)} ({offset} to {beginning - 1}) deleted unread")
            elif offset > end:
                gaps.append(f"{name}: the log ends at {end}, {_records(offset - end)} before the stored offset {offset}")
        if gaps:
            self.require_same_topics()
            raise StateError(
                f"Kafka does not hold the next records: {'; '.join(gaps)}. Nothing is skipped silently",
                f"to go on without these records, {START_AGAIN}; a longer retention of the topics prevents it",
            )

    def truncated(self, places: list[str]) -> StateError:
        """Return the error for logs that lost records which were already read."""
        return StateError(
            f"the log of {', '.join(places)} was truncated before the stored offset (an unclean leader election): the stored state counts "
            "records that Kafka no longer has",
            START_AGAIN,
        )


def _require_same_id(topic: str, known: str, current: str) -> None:
    if known and current and current != known:
        raise StateError(
            f"topic {topic!r} was deleted and created again (its id was {known}, now it is {current}): the stored offsets belong to the "
            "old topic",
            START_AGAIN,
        )


def _records(count: int) -> str:
    return f"{count} {'record' if count == 1 else 'records'}"
