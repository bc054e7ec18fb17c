"""Finds the offsets at which a task starts: the stored ones, else those of the setting `start`. Seeks nothing.

The broker reports what its logs hold. A stored offset that a log does not hold is refused and never replaced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any, NamedTuple

import structlog
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from streammetrics.config.kafka import KafkaSettings
from streammetrics.config.times import epoch_ms
from streammetrics.connectors.kafka.consumer import REQUEST_MS, bounds_of, close_consumer, new_consumer
from streammetrics.connectors.kafka.log_identity import LogIdentity
from streammetrics.connectors.source import Input
from streammetrics.errors import SourceError

log = structlog.get_logger("streammetrics.kafka")


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
