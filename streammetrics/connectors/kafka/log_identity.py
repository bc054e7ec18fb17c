"""Checks that the input topics are still the logs that the stored offsets refer to. Reads no record."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.topics import MissingTopic, describe_topics, topic_id_text
from streammetrics.connectors.source import START_AGAIN, Input, LogIds
from streammetrics.errors import ConfigError, SourceError, StateError

TOPIC_GONE_SECONDS = 15.0
"""How long a topic may be missing from the metadata. A broker that has just started may not know it yet."""


class LogIdentity:
    """The logs at start-up: their ids, and the number of partitions of each topic."""

    def __init__(self, settings: KafkaSettings, logs: LogIds, partitions: int) -> None:
        self._settings, self._logs, self._partitions = settings, logs, partitions
        self._gone_since: dict[str, float] = {}

    def missing(self, cluster: Any) -> list[str]:
        """Return the topics that the client's metadata do not list at the moment."""
        return sorted(topic for topic in self._logs.topic_ids if not cluster.partitions_for_topic(topic))

    def check(self, cluster: Any, now: float) -> None:
        """Compare the client's metadata (at most ten seconds old) with start-up. Sends no request.

        Raises StateError for another cluster, for a topic that was created again, and for another number of partitions.
        """
        LogIds(cluster.cluster_id or "").require_same(self._logs)
        for topic in self._logs.topic_ids:
            partitions = cluster.partitions_for_topic(topic)
            if not partitions:
                if now - self._gone_since.setdefault(topic, now) > TOPIC_GONE_SECONDS:
                    del self._gone_since[topic]
                    self.require_same_topics()
                continue
            self._gone_since.pop(topic, None)
            LogIds(topic_ids={topic: topic_id_text(cluster.topic_id(topic))}).require_same(self._logs)
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
            for topic in self._logs.topic_ids:
                if described.absent.get(topic) is MissingTopic.MISSING:  # not HIDDEN: such a topic may exist
                    raise StateError(f"topic {topic!r} has been deleted, and the stored state belongs to it", START_AGAIN)
                if topic in described.topics:
                    LogIds(topic_ids={topic: described.topics[topic].topic_id}).require_same(self._logs)

    def require_held(self, offsets: Mapping[Input, int], bounds: Mapping[Input, tuple[int, int]]) -> None:
        """Raise StateError, with the missing records per input, unless each log can be read on from its offset.

        `bounds` are (beginning, end) offsets. An offset at the end is fine: the next record gets it.
        """
        gaps, deleted = [], []
        for place, offset in offsets.items():
            beginning, end = bounds[place]
            name = f"{place.topic} [{place.partition}]"
            if offset < beginning:
                gaps.append(f"{name}: {_records(beginning - offset)} ({offset} to {beginning - 1}) deleted unread")
                deleted.append(f"{place.topic}:{place.partition}:{offset}-{beginning - 1}")
            elif offset > end:
                gaps.append(f"{name}: the log ends at {end}, {_records(offset - end)} before the stored offset {offset}")
        if gaps:
            self.require_same_topics()
            way = f"set kafka.skip_records = {json.dumps(deleted)}" if len(deleted) == len(gaps) else START_AGAIN
            raise StateError(
                f"Kafka does not hold the next records: {'; '.join(gaps)}. Nothing is skipped silently",
                f"to go on without these records, {way}; a longer retention of the topics prevents it",
            )

    def truncated(self, places: list[str]) -> StateError:
        """Return the error for logs that lost records which were already read."""
        return StateError(
            f"the log of {', '.join(places)} was truncated before the stored offset (an unclean leader election): the stored state counts "
            "records that Kafka no longer has",
            START_AGAIN,
        )


def _records(count: int) -> str:
    return f"{count} {'record' if count == 1 else 'records'}"
