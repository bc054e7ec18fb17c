"""Checks that the input topics are still the logs that the stored offsets refer to, and finds where a task starts. Reads and seeks nothing.

A task starts at its stored offsets, else where the setting `start` says. The broker reports what its logs hold. A stored offset that a
log does not hold is refused and never replaced.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any, NamedTuple

import structlog
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from streammetrics.config.kafka import KafkaSettings
from streammetrics.config.times import epoch_ms
from streammetrics.connectors.kafka.consumer import REQUEST_MS, bounds_of, close_consumer, new_consumer
from streammetrics.connectors.kafka.topics import MissingTopic, describe_topics, topic_id_text
from streammetrics.connectors.source import START_AGAIN, Input, LogIds
from streammetrics.errors import ConfigError, SourceError, StateError

TOPIC_GONE_SECONDS = 15.0
"""How long a topic may be missing from the metadata. A broker that has just started may not know it yet."""
log = structlog.get_logger("streammetrics.kafka")


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


class StartOffset(NamedTuple):
    """The offset at which an input starts, and the end of its log at the time of the request."""

    offset: int
    end: int


class StartOffsets:
    """Finds start offsets. One request covers all tasks that were granted together.

    The answers for tasks that have not started yet are kept. Call `forget` when tasks change hands.
    """

    def __init__(self, settings: KafkaSettings, identity: LogIdentity) -> None:
        self._settings, self._identity = settings, identity
        self._bounds: dict[Input, tuple[int, int]] = {}

    def find(
        self, consumer: Any, inputs: Sequence[Input], offsets: Mapping[Input, int], waiting: Iterable[Input]
    ) -> Mapping[Input, StartOffset]:
        """Return where a task's `inputs` start. `offsets` are the stored ones.

        `waiting` are the inputs of all tasks that are about to start, including this one.
        Raises StateError when the log does not hold an offset, and SourceError when the broker does not answer.
        """
        bounds = self._bounds_of(consumer, inputs, waiting)
        stored = {place: after_skipped(self._settings, place, offsets[place]) for place in inputs if place in offsets}
        if any(not bounds[place][0] <= offset <= bounds[place][1] for place, offset in stored.items()):
            bounds = _request_bounds(consumer, inputs)  # the kept answer may be out of date
        self._identity.require_held(stored, bounds)
        new = [place for place in inputs if place not in offsets]
        without = self._starts_without_offset(consumer, new, bounds)
        starts = {place: after_skipped(self._settings, place, offset) for place, offset in without.items()}
        starts |= stored
        self._warn_of_lost_state(consumer, new)
        return {place: StartOffset(starts[place], bounds[place][1]) for place in inputs}

    def forget(self) -> None:
        """Drop the kept answers, because tasks have changed hands."""
        self._bounds.clear()

    def _bounds_of(self, consumer: Any, inputs: Sequence[Input], waiting: Iterable[Input]) -> Mapping[Input, tuple[int, int]]:
        """Return (beginning, end) of a task's inputs, with one request for all waiting tasks."""
        if inputs[0] not in self._bounds:
            self._bounds.update(_request_bounds(consumer, list(waiting)))
        return {place: self._bounds.pop(place) for place in inputs}

    def _starts_without_offset(self, consumer: Any, new: Sequence[Input], bounds: Mapping[Input, tuple[int, int]]) -> Mapping[Input, int]:
        """Return where inputs without a stored offset start.

        The ends were read before the lookup by time. A record that arrives between the two is therefore not skipped.
        """
        start = self._settings.start
        if not new or isinstance(start, str):
            return {place: bounds[place][start == "latest"] for place in new}
        try:
            offsets = consumer.offsets_for_times({TopicPartition(*place): epoch_ms(start) for place in new}, timeout_ms=REQUEST_MS)
        except KafkaError as error:
            raise SourceError(f"Kafka does not report the first offsets at or after kafka.start: {error}") from error
        first = {place: offsets[TopicPartition(*place)] for place in new}
        return {place: bounds[place][1] if first[place] is None else first[place].offset for place in new}

    def _warn_of_lost_state(self, consumer: Any, new: Sequence[Input]) -> None:
        """Warn when the group has committed offsets that the store lacks: the store has lost its state, or is a new one."""
        with contextlib.suppress(KafkaError):  # only a warning: nothing depends on it
            committed = {place: consumer.committed(TopicPartition(*place), timeout_ms=REQUEST_MS) for place in new}
            if unknown := [f"{topic} [{partition}] to {offset}" for (topic, partition), offset in committed.items() if offset]:
                log.warning(
                    "the store has no state for a task that this group has read before, so it is counted again from the start; "
                    "if the store should not be empty, stop and restore it",
                    was_read=unknown,
                    begins=start_text(self._settings),
                )


def start_text(settings: KafkaSettings) -> str:
    """Return where reading begins without a stored offset, as text. A time is in UTC."""
    start = settings.start
    return start if isinstance(start, str) else start.astimezone(UTC).isoformat(timespec="milliseconds")


def _request_bounds(consumer: Any, inputs: Sequence[Input]) -> Mapping[Input, tuple[int, int]]:
    try:
        return bounds_of(consumer, inputs)
    except KafkaError as error:
        raise SourceError(f"Kafka does not report where its logs begin and end: {error}") from error


def after_skipped(settings: KafkaSettings, place: Input, offset: int) -> int:
    """Return the offset at which an input goes on: after records that `kafka.skip_records` leaves out, if it would begin with them."""
    for skipped in settings.skip_records:
        topic, partition, offsets = skipped.split(":")
        first, last = map(int, offsets.split("-"))
        if place == Input(topic, int(partition)) and first <= offset <= last:
            log.warning("records are left out, as kafka.skip_records says", input=f"{topic} [{partition}]", first=offset, last=last)
            return last + 1
    return offset


def require_stored_offsets(settings: KafkaSettings, identity: LogIdentity, offsets: Mapping[Input, int]) -> None:
    """Raise StateError unless each log can be read on from its stored offset, as at the start of a worker. Joins no consumer group."""
    consumer, _ = new_consumer(settings.model_copy(update={"group_instance_id": None}), in_group=False)
    try:
        bounds = _request_bounds(consumer, list(offsets))
    finally:
        close_consumer(consumer)
    identity.require_held({place: after_skipped(settings, place, offset) for place, offset in offsets.items()}, bounds)
