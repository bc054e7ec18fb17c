"""Reads records from Kafka as a member of a consumer group. Offsets are stored elsewhere. Decodes no record.

kafka-python has three traps. Its rebalance listeners run on its own I/O thread; `consumer` handles that. Its `poll` raises nothing in
an outage; `health` detects one. It can reset offsets silently; `stored_offsets` and `health` prevent that.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog
from kafka.errors import FencedInstanceIdError, KafkaError, SaslAuthenticationFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import METADATA_MS_MAX, Network, client_log, unreachable_reason
from streammetrics.connectors.kafka.consumer import (
    FETCH_WAIT_MS,
    FETCH_WAIT_MS_MAX,
    TaskAssignment,
    await_done,
    await_metadata,
    close_consumer,
    ends_of,
    high_watermark_of,
    new_consumer,
    position_of,
)
from streammetrics.connectors.kafka.health import LivenessMonitor, explained
from streammetrics.connectors.kafka.patches import collected_fetch, fast_fetch, fencing, parked_records
from streammetrics.connectors.kafka.stored_offsets import LogIdentity, StartOffsets
from streammetrics.connectors.kafka.topics import require_copartitioned
from streammetrics.connectors.source import START_AGAIN, Input, InputRecord, LogIds, PollResult, SourceHealth
from streammetrics.errors import GaveUp, SourceError

log = structlog.get_logger("streammetrics.kafka")

ACKNOWLEDGED_SECONDS = 1.0
"""How long `close` waits for the last acknowledgement. A static member's client would cancel it and log an error."""
LATE_ANSWER_SECONDS = 4.0
"""How long after a pause by a quota the answer to an earlier request may come."""
QUOTA_FIX = "nothing is lost; raise consumer_byte_rate for this client or its user, or let it take its time"
ADDRESS = "check that Kafka runs, and kafka.bootstrap_servers"
LOGIN = "check kafka.sasl_username and kafka.sasl_password; a new password needs a restart"
POLL_RECORDS_MAX = 20_000
REBUILDS_WITHOUT_RECORD_MAX = 3
"""The limit for clients that stalled while brokers answered. An outage has no such limit."""


class KafkaSource:
    """The `Source` that reads the partitions which the consumer group assigns to this process; see `streammetrics.connectors.source`.

    The constructor connects. It raises SourceError when no broker can be reached, and ConfigError when a topic is missing or partition
    counts differ. It never creates a topic. `clock` returns monotonic seconds. `whole_records`: records are read with
    key, headers and timestamp, as `SentValue`.

    A task that stays with this process through a rebalance is reported as revoked and assigned, and must be started again. While
    brokers are away, `poll` returns nothing and raises nothing; `health` shows the outage. `poll` raises StateError for positions
    outside the log, for another cluster, for topics that were created again and for changed partition counts. It raises ConfigError
    when another process joins with the same `group_instance_id`.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        clock: Callable[[], float] = time.monotonic,
        *,
        poll_records_max: int = POLL_RECORDS_MAX,
        whole_records: bool = False,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._poll_records_max, self._whole_records = poll_records_max, whole_records
        topics = require_copartitioned(settings)
        self.partitions: int = topics[settings.topics[0]].partitions
        """The number of partitions of every input topic."""
        self._monitor = LivenessMonitor(clock())
        self._paused: set[Input] = set()
        self._next: dict[Input, int] = {}
        self._ends: dict[Input, int] = {}
        self._stalled_clients = 0
        self._build_failure_logged = False
        self._assignment = TaskAssignment(settings.topics, self._hold)
        self._consumer: Any = None
        self._acknowledgement: Any = None
        self._network: Network
        self._as_records = False
        self._fenced = threading.Event()
        self._build()
        self._split_since: float | None = None
        self.logs = LogIds(self._network.cluster.cluster_id or "", {name: topics[name].topic_id for name in settings.topics})
        """The ids at start-up, to compare with stored ones."""
        self._identity = LogIdentity(settings, self.logs, self.partitions)
        self._start_offsets = StartOffsets(settings, self._identity)

    # --- the Source protocol

    def poll(self, timeout_s: float, collect_s: float = 0.0) -> PollResult:
        """Return records of started tasks, and the tasks assigned and revoked before them. Raises SourceError, StateError, ConfigError.

        Brokers may collect records for `collect_s`, up to FETCH_WAIT_MS_MAX, but send them sooner if there are many.
        """
        now = self._clock()
        if self._consumer is None:
            self._try_rebuild(timeout_s)
            return self._polled({})
        self._note_quota(now)
        if self._monitor.poll_begins(now) and not self._check_brokers(now):
            return self._polled({})
        client_log().quiet = not self.health.reachable
        self._identity.check(self._network.cluster, now)
        self._split_since = (self._split_since or now) if self._assignment.split else None
        parked_records.release(self._consumer)
        self._hold_fetches(min(FETCH_WAIT_MS_MAX, max(FETCH_WAIT_MS, int(1_000 * collect_s))))
        with explained(self._consumer, self._settings, self._identity, self._monitor):
            if self._fenced.is_set():
                raise FencedInstanceIdError()
            return self._polled(self._consumer.poll(timeout_ms=max(0, int(timeout_s * 1_000)), max_records=self._poll_records_max))
        return self._polled({})

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        return tuple(Input(topic, task) for topic in self._settings.topics)

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        """Seek a claimed task's inputs and read them. Returns their start offsets; the setting `start` decides where `offsets` has none.

        Raises StateError when the log does not hold an offset, and SourceError when the broker does not answer. Returns an empty mapping
        if the task has changed hands since `poll` returned it; the next poll reports that.
        """
        granted = self._assignment.granted
        if self._consumer is None or task not in granted:
            return {}
        inputs = self.inputs_of(task)
        waiting = self._inputs_of_all(granted - self._assignment.flowing | {task})
        starts = self._start_offsets.find(self._consumer, inputs, offsets, waiting)
        with self._assignment.locked():
            if not self._assignment.start(task):
                return {}
            for place, (offset, end) in starts.items():
                self._consumer.seek(TopicPartition(*place), offset)
                self._next[place] = offset
                self._ends[place] = max(offset, end)
            self._paused -= set(inputs)
            self._consumer.resume(*(TopicPartition(*place) for place in inputs))
        self._monitor.reset_positions()
        return {place: start.offset for place, start in starts.items()}

    def pause(self, inputs: Collection[Input]) -> None:
        """Stop reading inputs of started tasks until `resume`. Other inputs are not read anyway."""
        self._switch(inputs, True)

    def resume(self, inputs: Collection[Input]) -> None:
        self._switch(inputs, False)

    def ends(self) -> Mapping[Input, int]:
        """Return the end offset of every started input, as of the last check (every few seconds, and at `start`).

        Transaction markers, aborted records and compacted records have offsets but never arrive. Once the client has passed them, the
        end is the offset after the last record that arrived. Records of an open transaction count: an input that waits for them is not
        at its end.
        """
        return dict(self._ends)

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        granted = self._assignment.granted
        places = {
            TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items() if place.partition in granted
        }
        if self._consumer is not None and places:
            with contextlib.suppress(KafkaError, RuntimeError):  # only lag tools read it, and the next one replaces it
                self._acknowledgement = self._consumer.commit_async(places)

    def close(self) -> None:
        """Leave the group at once. Does nothing the second time."""
        consumer, self._consumer = self._consumer, None
        client_log().quiet = False
        if consumer is not None:
            if self._acknowledgement is not None and self.health.reachable:
                await_done(self._acknowledgement, ACKNOWLEDGED_SECONDS)
            close_consumer(consumer)
        self._assignment.end_all()

    @property
    def health(self) -> SourceHealth:
        """Return whether the brokers answer, and whether another program shares the group; see `SourceHealth`."""
        split, group = sorted(self._assignment.split), self._settings.group_id
        health, missing = self._monitor.health, self._identity.missing(self._network.cluster)
        has_metadata = len(missing) < len(self._settings.topics)
        # Without a topic the group gives away what is left of the tasks, or gives this process nothing.
        if missing and has_metadata and (split or not self._assignment.granted):
            cause = f"Kafka does not list topic {', '.join(missing)}, so no process can read its tasks"
            return replace(health, conflict=f"{cause}; if it was deleted, create it again and {START_AGAIN}")
        if not split or self._split_since is None:
            return health
        if 1_000 * (self._clock() - self._split_since) < METADATA_MS_MAX:
            return health  # a topic may be missing, and the client does not know it yet
        tasks = f"task {split[0]}" if len(split) == 1 else f"tasks {', '.join(map(str, split))}"
        conflict = (
            f"another member of consumer group {group!r} reads some of the topics of {tasks}, but one process must read all of them; "
            "`streammetrics doctor` names the member: give the other program another group id, or these workers another kafka.group_id"
        )
        return replace(health, conflict=conflict)

    @property
    def rebuilds(self) -> int:
        return self._monitor.health.rebuilds

    # --- the client

    def _build(self) -> None:
        """Build a consumer and subscribe. Raises SourceError. A failed start leaves nothing behind."""
        consumer, self._network = new_consumer(self._settings)
        self._as_records = fast_fetch.install(consumer, self._whole_records)
        self._fenced = fencing.install(consumer)
        self._hold_fetches = collected_fetch.install(consumer)
        self._consumer = consumer
        consumer.subscribe(topics=list(self._settings.topics), listener=self._assignment)
        await_metadata(self._network.cluster)

    def _hold(self, place: Any) -> None:
        """Pause a newly assigned partition, on the client's I/O thread. The seek keeps the client from looking up a start offset."""
        consumer = self._consumer
        consumer.seek(place, 0)
        consumer.pause(place)

    def _replace_client(self, reason: str) -> None:
        log.warning("the Kafka client is being replaced", reason=reason, rebuilds=self.rebuilds + 1)
        self._monitor.note_error(reason)
        self._monitor.client_replaced(self._clock())
        consumer, self._consumer = self._consumer, None
        self._assignment.end_all()
        close_consumer(consumer)
        self._assignment.end_all()

    def _try_rebuild(self, timeout_s: float) -> None:
        if self._stalled_clients > REBUILDS_WITHOUT_RECORD_MAX:
            raise GaveUp(
                f"the Kafka client was replaced {REBUILDS_WITHOUT_RECORD_MAX} times, and no record arrived although the topics have more; "
                f"last error: {self.health.last_error}"
            )
        if reason := unreachable_reason(self._settings.bootstrap_servers, max(0.1, timeout_s)):
            self._monitor.unanswered(self._clock(), _unreachable(reason), connects=False)
            time.sleep(timeout_s)
            return
        try:
            self._build()
        except SourceError as error:
            self._monitor.unanswered(self._clock(), str(error), connects=False)  # the next client gets its own minute
            if not self._build_failure_logged:
                self._build_failure_logged = True
                log.warning("the Kafka client could not be replaced, trying again", reason=str(error))
        else:
            self._build_failure_logged = False

    # --- results of a poll

    def _polled(self, batches: Mapping[Any, Sequence[Any]]) -> PollResult:
        revoked, assigned = self._assignment.take()
        for task in revoked:
            for place in self.inputs_of(task):
                self._paused.discard(place)
                self._next.pop(place, None)
                self._ends.pop(place, None)
        if revoked or assigned:
            self._start_offsets.forget()
            self._monitor.reset_positions()
        # Records fetched for a task that has changed hands are dropped: its next start seeks again.
        flowing = self._assignment.flowing - revoked
        records = {Input(*place): self._records(batch) for place, batch in batches.items() if place.partition in flowing}
        for place, batch in records.items():
            self._next[place] = batch[-1].offset + 1
        if records:
            self._stalled_clients = 0
            self._log_recovery(now := self._clock())
            self._monitor.records_arrived(now)
        return PollResult(records, assigned, revoked)

    def _records(self, batch: Sequence[Any]) -> Sequence[InputRecord]:
        if self._as_records:
            return batch
        return [fast_fetch.as_record(record, self._whole_records) for record in batch]

    def _switch(self, inputs: Iterable[Input], pause: bool) -> None:
        if self._consumer is None:
            return
        with self._assignment.locked():
            flowing = self._assignment.flowing
            places = [place for place in inputs if place.partition in flowing]
            if not places:
                return
            if pause:
                self._consumer.pause(*(TopicPartition(*place) for place in places))
                self._paused.update(places)
            else:
                self._consumer.resume(*(TopicPartition(*place) for place in places))
                self._paused.difference_update(places)
                self._monitor.reset_positions()

    def _inputs_of_all(self, tasks: Iterable[int]) -> Iterator[Input]:
        return (place for task in sorted(tasks) for place in self.inputs_of(task))

    # --- checks of the brokers

    def _note_quota(self, now: float) -> None:
        """Note whether a quota of the brokers holds the client back, and log it when it begins to."""
        seconds = self._network.held_back_seconds()
        if seconds and self._monitor.held_back(now, seconds):
            log.warning("a quota of the brokers slows reading down", pause_seconds=round(seconds, 1), fix=QUOTA_FIX)

    def _log_recovery(self, now: float) -> None:
        """Log the end of an outage, if there was one."""
        if not self.health.reachable:
            log.info("Kafka answers again", away_seconds=round(now - self.health.since, 1))

    def _end(self, place: Input, end: int, position: int) -> int:
        if position < end:
            return end
        written_to = high_watermark_of(self._consumer, place)  # beyond `end` while a transaction is open
        return written_to if written_to > position else self._next.get(place, end)

    def _check_brokers(self, now: float) -> bool:
        """Ask the brokers for end offsets. Returns False if the client was dropped."""
        servers = self._settings.bootstrap_servers
        if not self.health.reachable and (reason := unreachable_reason(servers, 1.0)):
            self._monitor.unanswered(now, _unreachable(reason), connects=False)  # still unreachable: do not wait for an answer
            return True
        inputs = list(self._inputs_of_all(self._assignment.flowing))
        try:
            ends = ends_of(self._consumer, inputs or [Input(self._settings.topics[0], 0)])  # without a task, any input shows who answers
            positions = {place: position for place in inputs if (position := position_of(self._consumer, place)) is not None}
        except KafkaError as error:
            reason = unreachable_reason(servers, 1.0)
            self._note_quota(now := self._clock())
            if reason is None and self._monitor.has_quota(now, LATE_ANSWER_SECONDS):
                return True  # the answer waits for the end of the pause
            refused = reason is None and isinstance(error, SaslAuthenticationFailedError)
            problem = reason or f"it {'refuses the login' if refused else 'accepts connections, but does not answer'} ({error})"
            if self.health.reachable:
                log.warning("no Kafka broker answers", reason=problem)
            if self._monitor.unanswered(now, _unreachable(problem, LOGIN if refused else ADDRESS), connects=reason is None):
                self._replace_client(problem)
                return False
            return True
        self._log_recovery(now)
        self._ends = {place: self._end(place, ends[place], positions.get(place, 0)) for place in inputs}
        stalled = self._monitor.answered(now, ends, {place: position for place, position in positions.items() if place not in self._paused})
        if stalled:
            self._stalled_clients += 1
            listed = ", ".join(
                f"{topic} [{partition}] at {positions[Input(topic, partition)]} of {ends[Input(topic, partition)]}"
                for topic, partition in stalled
            )
            self._replace_client(f"records exist but none arrives: {listed}")
        return not stalled


def _unreachable(reason: str, fix: str = ADDRESS) -> str:
    """Say what does not answer, and what to check."""
    return f"no Kafka broker answers ({reason}); {fix}"
