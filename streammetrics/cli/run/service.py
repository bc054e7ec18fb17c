"""What a process of `run` does between its start and its stop: read committed state and publish it, and consume events.

If Kafka or Redis is unavailable at the start, it retries with back-off. If the configuration or the stored state does not fit, it raises
the reason.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import structlog
import tenacity

from streammetrics.cli.threads import StoppableThread
from streammetrics.config import Settings
from streammetrics.connectors.clock import Clock
from streammetrics.connectors.dead_letters import DeadLetter, FirstRefusals
from streammetrics.connectors.kafka.client import unreachable_reason
from streammetrics.connectors.kafka.partitioner import misplaced_keys
from streammetrics.connectors.kafka.sinks import KafkaDeadLetters, KafkaResults
from streammetrics.connectors.kafka.source import KafkaSource
from streammetrics.connectors.redis.client import place_of
from streammetrics.connectors.redis.namespaces import client_name
from streammetrics.connectors.redis.shared_values import RedisBlobStore, RedisFields
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.engine.engine import Engine
from streammetrics.errors import ConfigError, Problem, SourceError, StoreError, UnfitStateError
from streammetrics.reports.history import History
from streammetrics.reports.report import Report
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.event_log import log_first_refusal
from streammetrics.runtime.consume.lag import StandstillNotes
from streammetrics.runtime.consume.task_runner import TaskRunner
from streammetrics.runtime.publish.history_keeper import HISTORY_KEY, HistoryKeeper
from streammetrics.runtime.publish.publisher import Publisher
from streammetrics.runtime.publish.results_feed import ResultsFeed, SettledReports
from streammetrics.runtime.retry import Trouble
from streammetrics.runtime.status import ProcessStatus
from streammetrics.wiring.decoders import build_decoder, build_topic_decoders, reads_whole_records
from streammetrics.wiring.engine import build_worker_rules
from streammetrics.wiring.gc_tuning import collect_garbage
from streammetrics.wiring.reports import build_report_builder
from streammetrics.words.numbers import counted

COMMITS_AT_ONCE = 32
"""Maximum threads that send commits to a cluster, one per commit in flight. They start when needed."""
T = TypeVar("T")
Where: TypeAlias = Literal["store", "source"]
log = structlog.get_logger("streammetrics.cli.run.service")


def serve(
    settings: Settings,
    engine: Engine,
    clock: Clock,
    status: ProcessStatus,
    stop: threading.Event,
    show: Callable[[Report, History], None],
    consume: Callable[[threading.Event], None] | None = None,
) -> None:
    """Publish and consume, as the role says, until `stop` is set. `consume` does so in place of this process."""
    role = settings.worker.role
    store = RedisStore(settings.redis, client_name(role, settings.redis.namespace))
    startup = Startup(settings, status, clock, stop)
    process = _Process(settings, engine, clock, status, stop, store, startup)
    with contextlib.ExitStack() as stack:
        stack.callback(store.close)
        process.start("garbage collection", collect_garbage, stack)
        with contextlib.suppress(StopSignal):
            startup.check_store(store)
            if role != "worker":
                process.publish(show, stack)
            if role == "exporter":
                stop.wait()
            elif consume is not None:
                consume(stop)
            else:
                process.consume()


@dataclass(frozen=True, slots=True)
class _Process:
    """What the parts of one process share."""

    settings: Settings
    engine: Engine
    clock: Clock
    status: ProcessStatus
    stop: threading.Event
    store: RedisStore
    startup: Startup

    def start(self, name: str, body: Callable[[threading.Event], None], stack: contextlib.ExitStack) -> None:
        """Start a thread. The stack ends it; if it fails, the process stops."""
        stack.enter_context(StoppableThread(name, body, self.stop))

    def publish(self, show: Callable[[Report, History], None], stack: contextlib.ExitStack) -> None:
        """Start the threads that read committed state and pass reports on. The stack ends them, then closes what they used."""
        settings, store, status = self.settings, self.store, self.status
        builder = build_report_builder(settings, self.engine)
        history_blob = RedisBlobStore(store.settings, HISTORY_KEY)
        stack.callback(history_blob.close)
        receivers = [HistoryKeeper(show, history_blob).on_report]
        if settings.kafka.results_topic:
            sink = self.startup.reached("source", lambda: KafkaResults(settings.kafka, settings.kafka.results_topic))
            stack.callback(sink.close)
            feed = ResultsFeed(builder, sink, status, SettledReports(self.clock, settings.exporter.gate_stale_ms))
            self.start("results", feed.run, stack)
            receivers.append(feed.on_report)

        def on_report(report: Report) -> None:
            for receiver in receivers:
                receiver(report)

        publisher = Publisher(
            builder=builder,
            store=store,
            publish_ms=settings.exporter.publish_ms,
            clock=self.clock,
            status=status,
            on_report=on_report,
            retry_seconds_max=settings.worker.retry_seconds_max,
            standstills=self._standstill_fields(stack),
        )
        self.start("publisher", publisher.run, stack)

    def _standstill_fields(self, stack: contextlib.ExitStack) -> RedisFields:
        fields = RedisFields(self.store.settings, "standstills")
        stack.callback(fields.close)
        return fields

    def _source(self) -> KafkaSource:
        settings = self.settings
        records_max, whole_records = settings.worker.batch_events_max, reads_whole_records(settings)
        return KafkaSource(settings.kafka, self.clock.monotonic, poll_records_max=records_max, whole_records=whole_records)

    def consume(self) -> None:
        """Consume until `stop` is set. Always leaves the consumer group, so that other workers take over without a timeout."""
        settings, store, startup = self.settings, self.store, self.startup
        kafka = settings.kafka
        with contextlib.ExitStack() as stack:
            source = startup.reached("source", self._source)
            stack.callback(source.close)
            letters = startup.reached("source", lambda: KafkaDeadLetters(kafka, kafka.dead_letter_topic, self._count_lost))
            stack.callback(letters.close)
            partitions = source.partitions
            startup.announce(store, partitions)
            # In a cluster, a primary that hangs must not delay commits to the others.
            commits = ThreadPoolExecutor(COMMITS_AT_ONCE if settings.redis.cluster else 1, "streammetrics-commit")
            stack.callback(commits.shutdown, wait=False, cancel_futures=True)  # unfinished commits are read again later
            worker = Worker(
                TaskRunner(
                    engine=self.engine,
                    decode=build_decoder(settings),
                    topic_decoders=build_topic_decoders(settings, settings.kafka.topics),
                    source=source,
                    store=store,
                    letters=FirstRefusals(letters, log_first_refusal),
                    rules=build_worker_rules(settings),
                    clock=self.clock,
                    status=self.status,
                    commits=commits,
                    misplaced=lambda task, user_ids: misplaced_keys(user_ids, task, partitions),
                    group_id=kafka.group_id,
                    logs=source.logs,
                )
            )
            self.start("standstills", StandstillNotes(self.status, self.clock, self._standstill_fields(stack)).run, stack)
            worker.run(self.stop)

    def _count_lost(self, letter: DeadLetter) -> None:
        self.status.dead_letters_lost[letter.input.topic] += 1


class StopSignal(Exception):
    """A stop was requested while the process waited for Kafka or Redis."""


class Startup:
    """The start of one process. Its methods wait while a system is unavailable; they raise StopSignal if `stop` is set meanwhile."""

    def __init__(self, settings: Settings, status: ProcessStatus, clock: Clock, stop: threading.Event) -> None:
        self._settings, self._status, self._clock, self._stop = settings, status, clock, stop

    def reached(self, where: Where, action: Callable[[], T]) -> T:
        """Call `action` until it succeeds, and return its result. Raises the last error after worker.retry_seconds_max."""
        is_stopped = tenacity.stop_when_event_set(self._stop)
        seconds_max = self._settings.worker.retry_seconds_max
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((StoreError, SourceError)),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=5),
            stop=tenacity.stop_any(is_stopped, tenacity.stop_after_delay(seconds_max)) if seconds_max else is_stopped,
            sleep=tenacity.sleep_using_event(self._stop),
            before_sleep=lambda state: self._failed(where, state),
            reraise=True,
        )
        try:
            result = retrying(action)
        except (StoreError, SourceError) as error:
            if self._stop.is_set():
                log.info(f"stop requested before the {where} was reached")
                raise StopSignal from error
            raise
        self._set_trouble(where, None)
        return result

    def check_store(self, store: RedisStore) -> None:
        """Wait for a Redis that takes writes. Raises ConfigError for one that cannot hold state, and warns of one that may lose it."""
        self.reached("store", lambda: _check_store(store, self._settings))

    def announce(self, store: RedisStore, partitions: int) -> None:
        """Record the number of tasks. Raises StateError if the namespace has another one."""
        namespace, stored = self._settings.redis.namespace, self.reached("store", lambda: store.announce(partitions))
        if stored not in (None, partitions):
            raise UnfitStateError(
                f"redis.namespace {namespace!r} was made for topics with {counted(stored, 'partition')}, but the topics have {partitions}: "
                "users have moved between partitions",
                "start a new redis.namespace",
            )

    def _failed(self, where: Where, state: tenacity.RetryCallState) -> None:
        self._status.beat_seconds = self._clock.monotonic()
        self._set_trouble(where, str(state.outcome.exception() if state.outcome else None))
        if where == "store" and self._settings.worker.role != "exporter":  # meanwhile, say whether Kafka can be reached
            self._set_trouble("source", unreachable_reason(self._settings.kafka.bootstrap_servers, 1.0))

    def _set_trouble(self, where: Where, error: str | None) -> None:
        """Set why the store or the source is unavailable (None: it is available), and log the change."""
        status, trouble = self._status, None
        last_trouble = status.store_trouble if where == "store" else status.source_trouble
        if error is not None:
            since_seconds, failures = (
                (self._clock.monotonic(), 0) if last_trouble is None else (last_trouble.since_seconds, last_trouble.failures)
            )
            trouble = Trouble(since_seconds, failures + 1, error)
        if last_trouble is None and trouble is not None:
            log.warning(f"{where} unavailable, trying again", error=error)
        elif last_trouble is not None and trouble is None:
            log.info(f"{where} available")
        if where == "store":
            status.store_trouble = trouble
        else:
            status.source_trouble = trouble


def _check_store(store: RedisStore, settings: Settings) -> None:
    """Check the server once. A replica counts as an outage, because a failover may be in progress."""
    store.ping()
    server = store.server_info()
    if server.is_replica:
        store.close()  # a new connection may reach the primary
        place = place_of(store.settings)
        raise StoreError(
            f"Redis at {place} is a replica and takes no writes", "set redis.url to the primary, or wait until a failover ends"
        )
    problems = list(server.problems(settings.redis.cluster))
    for risk in server.risks(settings.redis.allow_eviction):
        if risk.is_refused:
            problems.append(Problem(f"redis {risk.setting}", risk.value, risk.fix))
        else:
            log.warning("state in Redis is at risk", setting=risk.setting, value=risk.value, fix=risk.fix)
    if server.unknown:
        log.info("Redis does not show all of its settings", unknown=server.unknown)
    if problems:
        raise ConfigError(problems)
