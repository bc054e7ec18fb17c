"""Where a task begins: at its stored offsets, and without one where the setting `start` says. Nothing is sought here.

The broker says what its logs hold. A stored offset that they do not hold is refused, and never replaced by another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import structlog
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from streammetrics.connectors.base import Input
from streammetrics.connectors.kafka.client import KafkaConnection
from streammetrics.connectors.kafka.consumer import ASK_MS, bounds_of
from streammetrics.connectors.kafka.log_identity import LogIdentity
from streammetrics.errors import SourceError

log = structlog.get_logger("streammetrics.kafka")


class StartOffset(NamedTuple):
    """The offset at which an input begins, and where its log ended when the broker was asked."""

    offset: int
    end: int


class StartOffsets:
    """Finds where tasks begin. Those that were granted together are asked about together, once.

    What the broker said of those that have not begun yet is kept, and must be forgotten when tasks change hands.
    """

    def __init__(self, settings: KafkaConnection, history: LogIdentity) -> None:
        self._settings, self._history = settings, history
        self._bounds: dict[Input, tuple[int, int]] = {}

    def find(
        self, consumer: Any, inputs: Sequence[Input], offsets: Mapping[Input, int], waiting: Iterable[Input]
    ) -> Mapping[Input, StartOffset]:
        """Where a task's inputs begin. `offsets` are the stored ones, `waiting` the inputs of all tasks that are to begin, its own too.

        Raises StateError when the log does not hold an offset, SourceError when the broker does not answer.
        """
        bounds = self._bounds_of(consumer, inputs, waiting)
        stored = {place: offsets[place] for place in inputs if place in offsets}
        if any(not bounds[place][0] <= offset <= bounds[place][1] for place, offset in stored.items()):
            bounds = _ask(consumer, inputs)  # what was said may be old by now
        self._history.require_held(stored, bounds)
        new = [place for place in inputs if place not in offsets]
        sought = {**offsets, **self._unstored(consumer, new, bounds)}
        self._tell_of_lost_state(consumer, new)
        return {place: StartOffset(sought[place], bounds[place][1]) for place in inputs}

    def forget(self) -> None:
        """Tasks have changed hands: what was said of them may be old when they come back."""
        self._bounds.clear()

    def _bounds_of(self, consumer: Any, inputs: Sequence[Input], waiting: Iterable[Input]) -> Mapping[Input, tuple[int, int]]:
        """(beginning, end) of a task's inputs, asked once for all tasks that were granted together."""
        if inputs[0] not in self._bounds:
            self._bounds.update(_ask(consumer, list(waiting)))
        return {place: self._bounds.pop(place) for place in inputs}

    def _unstored(self, consumer: Any, new: Sequence[Input], bounds: Mapping[Input, tuple[int, int]]) -> Mapping[Input, int]:
        """Where inputs without an offset begin. Ends are older than the answer for a time: what comes between the two is not lost."""
        start = self._settings.start
        if not new or isinstance(start, str):
            return {place: bounds[place][start == "latest"] for place in new}
        try:
            found = consumer.offsets_for_times({TopicPartition(*place): start for place in new}, timeout_ms=ASK_MS)
        except KafkaError as error:
            raise SourceError(f"Kafka does not say which records are of kafka.start or later: {error}") from error
        first = {place: found[TopicPartition(*place)] for place in new}
        return {place: bounds[place][1] if first[place] is None else first[place].offset for place in new}

    def _tell_of_lost_state(self, consumer: Any, new: Sequence[Input]) -> None:
        """The group's own offsets follow the stored ones: where only they are left, a store has lost its state, or is a new one."""
        with contextlib.suppress(KafkaError):  # a word for the operator; nothing depends on it
            read = {place: consumer.committed(TopicPartition(*place), timeout_ms=ASK_MS) for place in new}
            if left := [f"{topic} [{partition}] to {offset}" for (topic, partition), offset in read.items() if offset]:
                log.warning(
                    "the store holds nothing of a task that this group has read before, so it is counted anew: if the store was not "
                    "meant to be empty, stop and restore it",
                    was_read=left,
                    begins=self._settings.start_told,
                )


def _ask(consumer: Any, inputs: Sequence[Input]) -> Mapping[Input, tuple[int, int]]:
    try:
        return bounds_of(consumer, inputs)
    except KafkaError as error:
        raise SourceError(f"Kafka does not say where its logs begin and end: {error}") from error
