"""The `run` process: worker, publisher and HTTP port, from start to stop.

The HTTP port opens first and closes last, so that start-up and shutdown can be monitored. If Kafka or Redis is unavailable at the
start, the process retries with back-off. If the configuration or the stored state does not fit, it exits with the reason.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar

import structlog
import tenacity

from streammetrics import __version__
from streammetrics.cli.process.first_events_log import FirstEventsLog
from streammetrics.cli.process.gc_tuning import collect_garbage, tune_garbage_collection
from streammetrics.cli.process.logs import configure_logs
from streammetrics.cli.process.threads import StoppableThread
from streammetrics.cli.run.worker_pool import WorkerPool
from streammetrics.cli.wiring.connections import kafka_connection, redis_connection, result_directory
from streammetrics.cli.wiring.decoders import build_decoder, build_topic_decoders
from streammetrics.cli.wiring.engine import build_engine, build_worker_rules
from streammetrics.cli.wiring.http import http_server, webhook_sender
from streammetrics.cli.wiring.registry import with_schemas
from streammetrics.cli.wiring.reports import build_report_builder, control_of, window_names
from streammetrics.config import Settings
from streammetrics.connectors.clock import Clock, SystemClock
from streammetrics.connectors.first_refusals import FirstRefusals
from streammetrics.connectors.kafka.client import unreachable_reason
from streammetrics.connectors.kafka.dead_letters import KafkaDeadLetters
from streammetrics.connectors.kafka.partitioner import misplaced_keys
from streammetrics.connectors.kafka.results import KafkaResults
from streammetrics.connectors.kafka.source import KafkaSource
from streammetrics.connectors.redis.blob import RedisBlobStore
from streammetrics.connectors.redis.namespaces import client_name
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.engine.engine import Engine
from streammetrics.errors import ConfigError, Problem, SourceError, StateError, StoreError
from streammetrics.exporters.http.views import HttpViews
from streammetrics.exporters.prometheus.exposition import Exposition, ExpositionLimits
from streammetrics.reports.first_events import FirstEvents
from streammetrics.reports.history import History
from streammetrics.reports.report import Report
from streammetrics.runtime.consumer import Worker
from streammetrics.runtime.history_store import HISTORY_KEY, HistoryStore
from streammetrics.runtime.mark_store import MARKS_KEY, MarkStore
from streammetrics.runtime.publisher import Publisher
from streammetrics.runtime.refusal_log import log_first_refusal
from streammetrics.runtime.result_files import ResultFiles
from streammetrics.runtime.results_feed import ResultsFeed
from streammetrics.runtime.stage_check import check_stages
from streammetrics.runtime.status import ProcessStatus, Trouble
from streammetrics.runtime.task_runner import TaskRunner
from streammetrics.runtime.webhook import ChangeRecorder

T = TypeVar("T")

COMMITS_AT_ONCE = 32
"""Maximum threads that send commits to a cluster, one per commit in flight. They start when needed."""

log = structlog.get_logger("streammetrics.cli.run.run")


class Stopped(Exception):
    """A stop was requested while the process waited for Kafka or Redis."""


def run(settings: Settings, stop: threading.Event) -> None:
    """Run until `stop` is set. Raises StreammetricsError for failures that retries do not fix."""
    configure_logs(settings.log.level, settings.log.format)
    tune_garbage_collection()
    clock, status = SystemClock(), ProcessStatus()
    status.started_seconds = status.beat_seconds = clock.monotonic()
    engine = build_engine(settings, settings.kafka.topics)
    role = settings.worker.role
    limits = ExpositionLimits(label_values_max=settings.exporter.label_values_max, series_max=settings.exporter.series_max)
    pool = WorkerPool(settings, clock, status) if role != "exporter" and settings.worker.processes > 1 else None
    exposition = Exposition(
        engine.layout,
        window_names(settings),
        status,
        limits,
        loop=role != "exporter",
        control_of=control_of(settings),
        worker_pids=tuple if pool is None else pool.pids,
    )
    marks_blob = RedisBlobStore(redis_connection(settings), MARKS_KEY)
    marks = MarkStore(status, clock.monotonic, marks_blob)
    first_events = FirstEvents(settings.kafka.topics, settings.events.format)
    views = HttpViews(
        exposition,
        clock.monotonic,
        publishes=role != "worker",
        first_events=first_events,
        wall_ms=clock.wall_ms,
        stale_ms=settings.exporter.gate_stale_ms,
        add_marks=None if role == "worker" else marks.add,
    )

    def show(report: Report, history: History) -> None:
        marks.refresh()
        views.show(report, history)

    server = http_server(views, settings.http)
    server.start()
    log.info("started", version=__version__, role=role, http=server.url, topics=settings.kafka.topics)
    try:
        serve(settings, engine, clock, status, stop, FirstEventsLog(first_events, clock, show).take, pool)
    finally:
        server.stop()
        marks_blob.close()
    log.info("stopped")


def serve(
    settings: Settings,
    engine: Engine,
    clock: Clock,
    status: ProcessStatus,
    stop: threading.Event,
    show: Callable[[Report, History], None],
    pool: WorkerPool | None = None,
) -> None:
    """Publish and consume, as the role says, until `stop` is set. With a pool, its processes consume."""
    connection = replace(redis_connection(settings), client_name=client_name(settings.worker.role, settings.redis.namespace))
    with contextlib.ExitStack() as stack:
        store, history_blob = RedisStore(connection), RedisBlobStore(connection, HISTORY_KEY)
        stack.callback(store.close)
        stack.callback(history_blob.close)
        stack.enter_context(StoppableThread("garbage collection", collect_garbage, stop))
        with contextlib.suppress(Stopped):
            check_brokers = partial(_check_brokers, settings, status, clock) if settings.worker.role != "exporter" else lambda: None
            _retry(lambda: _check_store(store, settings), "store", settings, status, clock, stop, check_brokers)
            if settings.worker.role != "exporter":
                _retry(lambda: check_stages(store, engine), "store", settings, status, clock, stop, check_brokers)
            if settings.worker.role != "worker":
                builder = build_report_builder(settings, engine)
                on_report = _reporting(settings, HistoryStore(show, history_blob).take, store, clock)
                if settings.kafka.results_topic:
                    sink = _retry(partial(_results_sink, settings), "source", settings, status, clock, stop)
                    stack.callback(sink.close)
                    feed = ResultsFeed(builder, sink, status)
                    stack.enter_context(StoppableThread("results", feed.run, stop))
                    on_report = _both(on_report, feed.take)
                if settings.results.directory:
                    files = ResultFiles(builder, result_directory(settings), settings.results.file_ms, status)
                    stack.enter_context(StoppableThread("result files", files.run, stop))
                    on_report = _both(on_report, files.take)
                publisher = Publisher(
                    builder=builder,
                    store=store,
                    publish_ms=settings.exporter.publish_ms,
                    clock=clock,
                    status=status,
                    on_report=on_report,
                    retry_seconds_max=settings.worker.retry_seconds_max,
                )
                stack.enter_context(StoppableThread("publisher", publisher.run, stop))
                if settings.webhook.url:
                    records = RedisStore(connection)  # a connection of its own, so that a slow receiver holds up no report
                    stack.callback(records.close)
                    stack.enter_context(StoppableThread("webhook", webhook_sender(settings, records, clock, status).run, stop))
            if settings.worker.role == "exporter":
                stop.wait()
            elif pool is not None:
                pool.run(stop)
            else:
                _work(settings, engine, store, clock, status, stop)


def _results_sink(settings: Settings) -> KafkaResults:
    return KafkaResults(kafka_connection(settings), settings.kafka.results_topic)


def _both(one: Callable[[Report], None], other: Callable[[Report], None]) -> Callable[[Report], None]:
    """Return a function that gives each report to both."""

    def take(report: Report) -> None:
        one(report)
        other(report)

    return take


def _reporting(settings: Settings, take: Callable[[Report], None], store: RedisStore, clock: Clock) -> Callable[[Report], None]:
    """Return a function that takes each report and then, with a webhook, records what it changes."""
    if not settings.webhook.url:
        return take
    recorder = ChangeRecorder(store, settings.webhook.on, settings.redis.namespace, clock)

    def reporting(report: Report) -> None:
        take(report)
        recorder.take(report)

    return reporting


def _work(settings: Settings, engine: Engine, store: RedisStore, clock: Clock, status: ProcessStatus, stop: threading.Event) -> None:
    """Consume until `stop` is set. Always leaves the consumer group, so that other workers take over without a timeout."""
    kafka = kafka_connection(settings)
    with contextlib.ExitStack() as stack:
        source = _retry(lambda: KafkaSource(kafka, clock.monotonic), "source", settings, status, clock, stop)
        stack.callback(source.close)
        reading = with_schemas(source, settings)
        stack.callback(reading.close)
        letters = _retry(lambda: KafkaDeadLetters(kafka, settings.kafka.dead_letter_topic), "source", settings, status, clock, stop)
        stack.callback(letters.close)
        partitions = source.partitions
        _retry(lambda: _announce(store, partitions, settings), "store", settings, status, clock, stop)
        # In a cluster, a primary that hangs must not delay commits to the others.
        commits = ThreadPoolExecutor(COMMITS_AT_ONCE if settings.redis.cluster else 1, "streammetrics-commit")
        stack.callback(commits.shutdown, wait=False, cancel_futures=True)  # unfinished commits are read again later
        worker = Worker(
            TaskRunner(
                engine=engine,
                decode=build_decoder(settings),
                topic_decoders=build_topic_decoders(settings, settings.kafka.topics),
                source=reading,
                store=store,
                letters=FirstRefusals(letters, log_first_refusal),
                rules=build_worker_rules(settings),
                clock=clock,
                status=status,
                commits=commits,
                misplaced=lambda task, user_ids: misplaced_keys(user_ids, task, partitions),
                group_id=settings.kafka.group_id,
                topic_ids=[source.topic_ids[topic] for topic in settings.kafka.topics],
            )
        )
        worker.run(stop)


def _check_store(store: RedisStore, settings: Settings) -> None:
    """Reject a Redis that cannot hold state, and log a warning for one that may lose it.

    A replica counts as an outage, because a failover may be in progress.
    """
    store.ping()
    server = store.server_info()
    if server.is_replica:
        store.close()  # a new connection may reach the primary
        place = store.settings.place
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


def _announce(store: RedisStore, partitions: int, settings: Settings) -> None:
    stored = store.announce(partitions)
    if stored not in (None, partitions):
        raise StateError(
            f"redis.namespace {settings.redis.namespace!r} was made for topics with {stored} partitions, but the topics have {partitions}: "
            "users have moved between partitions",
            "start a new redis.namespace",
        )


def _retry(
    action: Callable[[], T],
    where: Literal["store", "source"],
    settings: Settings,
    status: ProcessStatus,
    clock: Clock,
    stop: threading.Event,
    after_failure: Callable[[], None] = lambda: None,
) -> T:
    """Call `action` until it succeeds, and `after_failure` after each failure.

    Raises Stopped if `stop` is set, and the last error after worker.retry_seconds_max.
    """

    def handle_failure(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        status.beat_seconds = clock.monotonic()
        _update_trouble(status, where, clock, str(error))
        after_failure()

    is_stopped = tenacity.stop_when_event_set(stop)
    seconds_max = settings.worker.retry_seconds_max
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((StoreError, SourceError)),
        wait=tenacity.wait_random_exponential(multiplier=0.2, max=5),
        stop=tenacity.stop_any(is_stopped, tenacity.stop_after_delay(seconds_max)) if seconds_max else is_stopped,
        sleep=tenacity.sleep_using_event(stop),
        before_sleep=handle_failure,
        reraise=True,
    )
    try:
        result = retrying(action)
    except (StoreError, SourceError) as error:
        if stop.is_set():
            log.info(f"stop requested before the {where} was reached")
            raise Stopped from error
        raise
    _update_trouble(status, where, clock, None)
    return result


def _check_brokers(settings: Settings, status: ProcessStatus, clock: Clock) -> None:
    """Report whether Kafka can be reached while the process waits for the store."""
    _update_trouble(status, "source", clock, unreachable_reason(settings.kafka.bootstrap_servers, 1.0))


def _update_trouble(status: ProcessStatus, where: Literal["store", "source"], clock: Clock, error: str | None) -> None:
    """Set why the store or the source is unavailable (None: it is available), and log the change."""
    known: Trouble | None = getattr(status, f"{where}_trouble")
    trouble = None
    if error is not None:
        trouble = Trouble(clock.monotonic(), 1, error) if known is None else Trouble(known.since_seconds, known.failures + 1, error)
    if known is None and trouble is not None:
        log.warning(f"{where} unavailable, trying again", error=error)
    elif known is not None and trouble is None:
        log.info(f"{where} available")
    setattr(status, f"{where}_trouble", trouble)
