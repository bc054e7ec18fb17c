"""What must stay true of a log for stored offsets to mean anything, and the words for when it does not. Reads no record."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from streammetrics.connectors.base import Input
from streammetrics.connectors.kafka.client import KafkaConnection
from streammetrics.connectors.kafka.topics import MissingTopic, describe_topics, topic_id_text
from streammetrics.errors import ConfigError, SourceError, StateError

TOPIC_GONE_SECONDS = 15.0
"""A topic that metadata no longer name is given this long: a broker that just started may not know it yet."""
ANEW = "begin anew with a new redis.namespace"


class LogIdentity:
    """The input topics as they were at start-up: their ids ("" where unknown) and their partition count."""

    def __init__(self, settings: KafkaConnection, topic_ids: Mapping[str, str], partitions: int) -> None:
        self._settings, self._topic_ids, self._partitions = settings, topic_ids, partitions
        self._gone_since: dict[str, float] = {}

    def check(self, cluster: Any, now: float) -> None:
        """Compare the client's own metadata (ten seconds old at most) with start-up. Raises StateError; asks nobody."""
        for topic, topic_id in self._topic_ids.items():
            partitions = cluster.partitions_for_topic(topic)
            if not partitions:
                if now - self._gone_since.setdefault(topic, now) > TOPIC_GONE_SECONDS:
                    del self._gone_since[topic]
                    self.refuse_other_topics()
                continue
            self._gone_since.pop(topic, None)
            _refuse_other_id(topic, topic_id, topic_id_text(cluster.topic_id(topic)))
            if len(partitions) != self._partitions:
                raise StateError(
                    f"topic {topic!r} now has {len(partitions)} partitions, and had {self._partitions} when this process started: users "
                    "have moved to other partitions",
                    f"give all input topics the same count and {ANEW}",
                )

    def refuse_other_topics(self) -> None:
        """Ask the broker itself: raise StateError if a topic is gone, or another one by that name."""
        with contextlib.suppress(SourceError, ConfigError):  # it cannot say now: the reason given is a less exact one, or none yet
            described = describe_topics(self._settings, self._settings.topics)
            for topic, known in self._topic_ids.items():
                if described.absent.get(topic) is MissingTopic.MISSING:  # one that may no longer be described may well be there
                    raise StateError(f"topic {topic!r} has been deleted, and the stored state belongs to it", ANEW)
                if topic in described.found:
                    _refuse_other_id(topic, known, described.found[topic].topic_id)

    def require_held(self, offsets: Mapping[Input, int], bounds: Mapping[Input, tuple[int, int]]) -> None:
        """Raise StateError, with the records missing per input, unless the log can go on from each offset.

        `bounds` are (beginning, end) offsets; an offset at the end is held: the next record will have it.
        """
        troubles = []
        for place, offset in offsets.items():
            beginning, end = bounds[place]
            name = f"{place.topic} [{place.partition}]"
            if offset < beginning:
                missing = f"{beginning - offset} records ({offset} to {beginning - 1})"
                troubles.append(f"{name}: {missing} were deleted before they were read")
            elif offset > end:
                troubles.append(f"{name}: the log ends at {end}, {offset - end} records short of what has been read ({offset})")
        if troubles:
            self.refuse_other_topics()
            raise StateError(
                f"Kafka does not hold what comes next: {'; '.join(troubles)}. Nothing is skipped silently",
                f"to go on without these records, {ANEW}; a longer retention of the topics prevents it",
            )

    def truncated(self, places: list[str]) -> StateError:
        """The error for logs that were cut back behind what has been read."""
        return StateError(
            f"the log of {', '.join(places)} was cut back behind what has been read (an unclean leader election): the stored state counts "
            "records that Kafka no longer has",
            ANEW,
        )


def _refuse_other_id(topic: str, known: str, current: str) -> None:
    if known and current and current != known:
        raise StateError(
            f"topic {topic!r} was deleted and created again (its id was {known}, now it is {current}): its offsets mean other records than "
            "the stored state counts",
            ANEW,
        )
