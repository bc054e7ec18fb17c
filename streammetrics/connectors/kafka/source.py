"""Events from Kafka: a member of a consumer group whose offsets live elsewhere. Nothing here decodes a record.

The client is one of kafka-python's, whose rebalance listeners run on its own I/O thread, whose `poll` raises nothing in an
outage, and which would reset offsets silently if it were let: the first is met in `ownership`, the second in
`watchdog`, the third in `beginnings` before a task flows and in `errors` while it does.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import structlog
from kafka.errors import FencedInstanceIdError, KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from streammetrics.connectors.base import Input, PollResult, Record, SourceHealth
from streammetrics.connectors.kafka.assignment import TaskAssignment
from streammetrics.connectors.kafka.client import KafkaConnection, client_log, unreachable_reason
from streammetrics.connectors.kafka.consumer import (
    await_done,
    await_metadata,
    close_consumer,
    ends_of,
    new_consumer,
    position_of,
    written_of,
)
from streammetrics.connectors.kafka.errors import explained
from streammetrics.connectors.kafka.liveness import LivenessMonitor
from streammetrics.connectors.kafka.log_identity import LogIdentity
from streammetrics.connectors.kafka.patches import fast_fetch
from streammetrics.connectors.kafka.patches.fencing import note_fencing
from streammetrics.connectors.kafka.patches.join_fix import keep_joins
from streammetrics.connectors.kafka.start_offsets import StartOffsets
from streammetrics.connectors.kafka.topics import require_copartitioned
from streammetrics.errors import GaveUp, SourceError

log = structlog.get_logger("streammetrics.kafka")

ACKNOWLEDGED_SECONDS = 1.0
"""How long a source that is closed waits for its last acknowledgement: a static member's client would cancel it, and call it an error."""
REBUILDS_WITHOUT_RECORD_MAX = 3
"""Of clients that stayed deaf while brokers answered. One that hears no broker, or cannot start, is an outage: that may last."""


class KafkaSource:
    """The `Source` that reads the partitions a consumer group gives this process; see `streammetrics.connectors.base`.

    Building one connects: it raises SourceError when no broker can be reached, ConfigError when a topic is missing or the
    topics' partition counts differ. It never creates a topic. `clock` gives monotonic seconds.

    A task that is kept through a rebalance is reported as revoked and assigned, and must be started again. While brokers
    are away `poll` returns nothing and raises nothing: `health` says so. Positions outside of what the log holds, topics
    that were created anew and changed partition counts raise StateError: offsets are never reset silently. Another process
    that joins with the same `group_instance_id` makes it raise ConfigError.
    """

    def __init__(self, settings: KafkaConnection, clock: Callable[[], float] = time.monotonic) -> None:
        client_log()
        self._settings, self._clock = settings, clock
        topics = require_copartitioned(settings)
        self.topic_ids: Mapping[str, str] = {name: topics[name].topic_id for name in settings.topics}
        """Topic -> id as of start-up ("" where the broker gives none), to be compared with stored ones."""
        self.partitions: int = topics[settings.topics[0]].partitions
        """How many partitions every input topic has."""
        self._history = LogIdentity(settings, self.topic_ids, self.partitions)
        self._beginnings = StartOffsets(settings, self._history)
        self._watchdog = LivenessMonitor(clock())
        self._paused: set[Input] = set()
        self._next: dict[Input, int] = {}
        self._ends: dict[Input, int] = {}
        self._stalled_clients = 0
        self._told_unbuilt = False
        self._ownership = TaskAssignment(settings.topics, self._hold)
        self._consumer: Any = None
        self._acknowledgement: Any = None
        self._cluster: Any = None
        self._as_records = False
        self._fenced = threading.Event()
        self._build()

    # --- what the service calls

    def poll(self, timeout_s: float) -> PollResult:
        """Records of started tasks, and the tasks that came and went before them. Raises SourceError, StateError, ConfigError."""
        now = self._clock()
        if self._consumer is None:
            self._try_rebuild(timeout_s)
            return self._polled({})
        if self._watchdog.polled(now) and not self._look(now):
            return self._polled({})
        client_log().quiet = not self.health.reachable
        self._history.check(self._cluster, now)
        fast_fetch.release_parked(self._consumer)
        with explained(self._consumer, self._settings, self._history, self._watchdog):
            if self._fenced.is_set():
                raise FencedInstanceIdError()
            return self._polled(self._consumer.poll(timeout_ms=max(0, int(timeout_s * 1_000)), max_records=self._settings.poll_records_max))
        return self._polled({})

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        return tuple(Input(topic, task) for topic in self._settings.topics)

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        """Seek a claimed task's inputs and let them flow; absent ones begin where the setting `start` says.

        Raises StateError when the log does not hold an offset, SourceError when the broker does not answer. Does nothing
        and returns nothing if the task has changed hands since `poll` reported it: the next poll says so.
        """
        granted = self._ownership.granted
        if self._consumer is None or task not in granted:
            return {}
        inputs = self.inputs_of(task)
        waiting = self._inputs_of_all(granted - self._ownership.flowing | {task})
        beginnings = self._beginnings.find(self._consumer, inputs, offsets, waiting)
        with self._ownership.unchanging():
            if not self._ownership.start(task):
                return {}
            for place, (offset, end) in beginnings.items():
                self._consumer.seek(TopicPartition(*place), offset)
                self._next[place] = offset
                self._ends[place] = max(offset, end)
            self._paused -= set(inputs)
            self._consumer.resume(*(TopicPartition(*place) for place in inputs))
        self._watchdog.moved()
        return {place: beginning.offset for place, beginning in beginnings.items()}

    def pause(self, inputs: Collection[Input]) -> None:
        """Stop inputs of started tasks until `resume`; others are not flowing anyway."""
        self._switch(inputs, True)

    def resume(self, inputs: Collection[Input]) -> None:
        self._switch(inputs, False)

    def ends(self) -> Mapping[Input, int]:
        """The end offset of every started input as of the last look (every few seconds, and at `start`).

        Markers of transactions, aborted records and compacted ones take offsets too, and no record of theirs arrives: once
        the client has passed them, the end is given as the offset after the last record that did arrive. Records of a transaction
        that is still open count, though none arrives before it is committed: an input that waits for them is not at its end.
        """
        return dict(self._ends)

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        granted = self._ownership.granted
        places = {
            TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items() if place.partition in granted
        }
        if self._consumer is not None and places:
            with contextlib.suppress(KafkaError, RuntimeError):  # only lag tools read it; the next one carries the same and more
                self._acknowledgement = self._consumer.commit_async(places)

    def close(self) -> None:
        """Leave the group at once. Does nothing the second time."""
        consumer, self._consumer = self._consumer, None
        client_log().quiet = False
        if consumer is not None:
            if self._acknowledgement is not None and self.health.reachable:
                await_done(self._acknowledgement, ACKNOWLEDGED_SECONDS)
            close_consumer(consumer)
        self._ownership.end_all()

    @property
    def health(self) -> SourceHealth:
        """Whether the brokers answer; see `SourceHealth`."""
        return self._watchdog.health

    @property
    def rebuilds(self) -> int:
        return self._watchdog.health.rebuilds

    # --- the client

    def _build(self) -> None:
        """A consumer that has subscribed. Raises SourceError, with nothing left behind of one that failed to start."""
        consumer, self._cluster = new_consumer(self._settings)
        self._as_records = fast_fetch.install(consumer)
        keep_joins(consumer)
        self._fenced = note_fencing(consumer)
        self._consumer = consumer
        consumer.subscribe(topics=list(self._settings.topics), listener=self._ownership)
        await_metadata(self._cluster)

    def _hold(self, place: Any) -> None:
        """Runs on the client's I/O thread. The seek keeps the client from asking where to begin before the claim is done."""
        consumer = self._consumer
        consumer.seek(place, 0)
        consumer.pause(place)

    def _drop_client(self, reason: str) -> None:
        log.warning("the Kafka client is built anew", reason=reason, rebuilds=self.rebuilds + 1)
        self._watchdog.failed(reason)
        self._watchdog.rebuilding(self._clock())
        consumer, self._consumer = self._consumer, None
        self._ownership.end_all()
        close_consumer(consumer)
        self._ownership.end_all()

    def _try_rebuild(self, timeout_s: float) -> None:
        if self._stalled_clients > REBUILDS_WITHOUT_RECORD_MAX:
            raise GaveUp(
                f"the Kafka client was built anew {REBUILDS_WITHOUT_RECORD_MAX} times and no record arrived, though there are some; "
                f"last: {self.health.last_error}"
            )
        if reason := unreachable_reason(self._settings.bootstrap_servers, max(0.1, timeout_s)):
            self._watchdog.unheard(self._clock(), reason, connects=False)
            time.sleep(timeout_s)
            return
        try:
            self._build()
        except SourceError as error:
            self._watchdog.unheard(self._clock(), str(error), connects=False)  # the client that comes of it gets its own minute
            if not self._told_unbuilt:
                self._told_unbuilt = True
                log.warning("the Kafka client could not be built anew, trying again", reason=str(error))
        else:
            self._told_unbuilt = False

    # --- what came

    def _polled(self, batches: Mapping[Any, Sequence[Any]]) -> PollResult:
        lost, gained = self._ownership.take()
        for task in lost:
            for place in self.inputs_of(task):
                self._paused.discard(place)
                self._next.pop(place, None)
                self._ends.pop(place, None)
        if lost or gained:
            self._beginnings.forget()
            self._watchdog.moved()
        # What was fetched for a task that has changed hands since belongs to its next start, which seeks anew.
        flowing = self._ownership.flowing - lost
        records = {Input(*place): self._records(batch) for place, batch in batches.items() if place.partition in flowing}
        for place, batch in records.items():
            self._next[place] = batch[-1].offset + 1
        if records:
            self._stalled_clients = 0
            self._tell_of_answer(now := self._clock())
            self._watchdog.records_came(now)
        return PollResult(records, gained, lost)

    def _records(self, batch: Sequence[Any]) -> Sequence[Record]:
        if self._as_records:
            return batch
        return [fast_fetch.as_record(record) for record in batch]

    def _switch(self, inputs: Iterable[Input], pause: bool) -> None:
        if self._consumer is None:
            return
        with self._ownership.unchanging():
            flowing = self._ownership.flowing
            places = [place for place in inputs if place.partition in flowing]
            if not places:
                return
            if pause:
                self._consumer.pause(*(TopicPartition(*place) for place in places))
                self._paused.update(places)
            else:
                self._consumer.resume(*(TopicPartition(*place) for place in places))
                self._paused.difference_update(places)
                self._watchdog.moved()

    def _inputs_of_all(self, tasks: Iterable[int]) -> Iterator[Input]:
        return (place for task in sorted(tasks) for place in self.inputs_of(task))

    # --- what the client does not say

    def _tell_of_answer(self, now: float) -> None:
        """Say that an outage is over, if there is one."""
        if not self.health.reachable:
            log.info("Kafka answers again", away_seconds=round(now - self.health.since, 1))

    def _end(self, place: Input, end: int, position: int) -> int:
        if position < end:
            return end
        written = written_of(self._consumer, place)
        return written if written > position else self._next.get(place, end)

    def _look(self, now: float) -> bool:
        """Ask the brokers for end offsets. False if the client had to be given up."""
        servers = self._settings.bootstrap_servers
        if not self.health.reachable and (reason := unreachable_reason(servers, 1.0)):
            self._watchdog.unheard(now, reason, connects=False)  # as before: do not wait for an answer that cannot come
            return True
        inputs = list(self._inputs_of_all(self._ownership.flowing))
        asked = inputs or [Input(self._settings.topics[0], 0)]  # without a task the question still shows who answers
        try:
            ends = ends_of(self._consumer, asked)
            positions = {place: position for place in inputs if (position := position_of(self._consumer, place)) is not None}
        except KafkaError as error:
            reason = unreachable_reason(servers, 1.0)
            answer = reason or f"it accepts connections, but does not answer ({error})"
            if self.health.reachable:
                log.warning("no Kafka broker answers", reason=answer)
            if self._watchdog.unheard(now, answer, connects=reason is None):
                self._drop_client(answer)
                return False
            return True
        self._tell_of_answer(now)
        self._ends = {place: self._end(place, ends[place], positions.get(place, 0)) for place in inputs}
        stalled = self._watchdog.heard(now, ends, {place: position for place, position in positions.items() if place not in self._paused})
        if stalled:
            self._stalled_clients += 1
            listed = ", ".join(
                f"{topic} [{partition}] at {positions[Input(topic, partition)]} of {ends[Input(topic, partition)]}"
                for topic, partition in stalled
            )
            self._drop_client(f"there are records and none arrives: {listed}")
        return not stalled
