"""The `run` process: worker, publisher and HTTP port, from start to stop.

The HTTP port opens first and closes last, so that start-up and shutdown can be watched. Whatever of the world is away at the
start is tried again with back-off; a configuration or a history that does not fit ends the process with the reason.
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
from streammetrics.cli.process.gc_tuning import look_for_garbage, tune_garbage_collection
from streammetrics.cli.process.logs import configure_logs
from streammetrics.cli.process.threads import StoppableThread
from streammetrics.cli.wiring import (
    build_decoder,
    build_engine,
    build_report_builder,
    build_worker_rules,
    control_of,
    http_server,
    kafka_connection,
    redis_connection,
    window_names,
)
from streammetrics.config import Settings
from streammetrics.connectors.base import Clock
from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.kafka.client import unreachable_reason
from streammetrics.connectors.kafka.dead_letters import KafkaDeadLetters
from streammetrics.connectors.kafka.partitioner import partition_of
from streammetrics.connectors.kafka.source import KafkaSource
from streammetrics.connectors.redis.blob import RedisBlobStore
from streammetrics.connectors.redis.namespaces import client_name
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.engine.engine import Engine
from streammetrics.errors import ConfigError, Problem, SourceError, StateError, StoreError
from streammetrics.exporters.http.views import HttpViews
from streammetrics.exporters.prometheus.exposition import Exposition, ExpositionLimits
from streammetrics.runtime.consumer import Worker
from streammetrics.runtime.history_store import HISTORY_KEY, HistoryStore
from streammetrics.runtime.publisher import Publisher
from streammetrics.runtime.status import ProcessStatus, Trouble
from streammetrics.runtime.task_runner import TaskRunner

T = TypeVar("T")

COMMITS_AT_ONCE = 32
"""Threads that send commits to a cluster, one for each commit under way; they exist when they are needed."""

log = structlog.get_logger("streammetrics.cli.run")


class Stopped(Exception):
    """The process was told to stop while it waited for the world."""


def run(settings: Settings, stop: threading.Event) -> None:
    """Run until told to stop; raises what the process cannot go on after."""
    configure_logs(settings.log.level, settings.log.format)
    tune_garbage_collection()
    clock, status = SystemClock(), ProcessStatus()
    status.started_seconds = status.beat_seconds = clock.monotonic()
    engine = build_engine(settings, settings.kafka.topics)
    role = settings.worker.role
    limits = ExpositionLimits(label_values_max=settings.exporter.label_values_max, series_max=settings.exporter.series_max)
    exposition = Exposition(engine.layout, window_names(settings), status, limits, loop=role != "exporter", control_of=control_of(settings))
    views = HttpViews(exposition, clock.monotonic, publishes=role != "worker")
    server = http_server(views, settings.http)
    server.start()
    log.info("started", version=__version__, role=role, http=server.url, topics=settings.kafka.topics)
    try:
        _serve(settings, engine, views, clock, status, stop)
    finally:
        server.stop()
    log.info("stopped")


def _serve(settings: Settings, engine: Engine, views: HttpViews, clock: Clock, status: ProcessStatus, stop: threading.Event) -> None:
    connection = replace(redis_connection(settings), client_name=client_name(settings.worker.role, settings.redis.namespace))
    with contextlib.ExitStack() as stack:
        store, shelf = RedisStore(connection), RedisBlobStore(connection, HISTORY_KEY)
        stack.callback(store.close)
        stack.callback(shelf.close)
        stack.enter_context(StoppableThread("search for garbage", look_for_garbage, stop))
        with contextlib.suppress(Stopped):
            meanwhile = partial(_look_at_brokers, settings, status, clock) if settings.worker.role != "exporter" else lambda: None
            _keep_trying(lambda: _check_store(store, settings), "store", settings, status, clock, stop, meanwhile)
            if settings.worker.role != "worker":
                publisher = Publisher(
                    builder=build_report_builder(settings, engine),
                    store=store,
                    publish_ms=settings.exporter.publish_ms,
                    clock=clock,
                    status=status,
                    on_report=HistoryStore(views.show, shelf).take,
                    retry_seconds_max=settings.worker.retry_seconds_max,
                )
                stack.enter_context(StoppableThread("publisher", publisher.run, stop))
            if settings.worker.role == "exporter":
                stop.wait()
            else:
                _work(settings, engine, store, clock, status, stop)


def _work(settings: Settings, engine: Engine, store: RedisStore, clock: Clock, status: ProcessStatus, stop: threading.Event) -> None:
    """Consume until told to end. Whatever happens, the group is left at once: another member need not wait for this one's silence."""
    kafka = kafka_connection(settings)
    with contextlib.ExitStack() as stack:
        source = _keep_trying(lambda: KafkaSource(kafka, clock.monotonic), "source", settings, status, clock, stop)
        stack.callback(source.close)
        letters = _keep_trying(lambda: KafkaDeadLetters(kafka, settings.kafka.dead_letter_topic), "source", settings, status, clock, stop)
        stack.callback(letters.close)
        partitions = source.partitions
        _keep_trying(lambda: _announce(store, partitions, settings), "store", settings, status, clock, stop)
        # In a cluster one primary that does not answer must not hold up the commits to others.
        commits = ThreadPoolExecutor(COMMITS_AT_ONCE if settings.redis.cluster else 1, "streammetrics-commit")
        stack.callback(commits.shutdown, wait=False, cancel_futures=True)  # whose patience is over: what they bring is read again
        worker = Worker(
            TaskRunner(
                engine=engine,
                decode=build_decoder(settings),
                source=source,
                store=store,
                letters=letters,
                rules=build_worker_rules(settings),
                clock=clock,
                status=status,
                commits=commits,
                wrong_partition=lambda task, user_id: partition_of(user_id, partitions) != task,
                topic_ids=[source.topic_ids[topic] for topic in settings.kafka.topics],
            )
        )
        worker.run(stop)


def _check_store(store: RedisStore, settings: Settings) -> None:
    """Refuse a Redis that cannot hold state, and say what is at risk with one that may lose it.

    A replica is an outage: it may be what a failover under way has left, and says nothing of the primary to come.
    """
    store.ping()
    facts = store.facts()
    if facts.is_replica:
        store.close()  # over a new connection the name may lead to the primary
        place = store.settings.place
        raise StoreError(f"Redis at {place}: a replica takes no writes", "name the primary in redis.url, or wait for a failover to end")
    problems = list(facts.problems(settings.redis.cluster))
    for risk in facts.risks(settings.redis.allow_eviction):
        if risk.is_refused:
            problems.append(Problem(f"redis {risk.setting}", risk.value, risk.fix))
        else:
            log.warning("state in Redis is at risk", setting=risk.setting, value=risk.value, fix=risk.fix)
    if facts.unknown:
        log.info("Redis does not say everything", unknown=facts.unknown)
    if problems:
        raise ConfigError(problems)


def _announce(store: RedisStore, partitions: int, settings: Settings) -> None:
    known = store.announce(partitions)
    if known not in (None, partitions):
        raise StateError(
            f"redis.namespace {settings.redis.namespace!r} belongs to topics of {known} partitions, these have {partitions}: "
            "users have moved between partitions",
            "start a new redis.namespace",
        )


def _keep_trying(
    ask: Callable[[], T],
    where: Literal["store", "source"],
    settings: Settings,
    status: ProcessStatus,
    clock: Clock,
    stop: threading.Event,
    meanwhile: Callable[[], None] = lambda: None,
) -> T:
    """Ask until the world answers; raises Stopped when told to stop meanwhile, the last error when it has been away for too long.

    `meanwhile` is called after each time that it was asked in vain.
    """

    def failed(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        status.beat_seconds = clock.monotonic()
        _tell(status, where, clock, str(error))
        meanwhile()

    told_to_end = tenacity.stop_when_event_set(stop)
    patience_seconds = settings.worker.retry_seconds_max
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((StoreError, SourceError)),
        wait=tenacity.wait_random_exponential(multiplier=0.2, max=5),
        stop=tenacity.stop_any(told_to_end, tenacity.stop_after_delay(patience_seconds)) if patience_seconds else told_to_end,
        sleep=tenacity.sleep_using_event(stop),
        before_sleep=failed,
        reraise=True,
    )
    try:
        answer = retrying(ask)
    except (StoreError, SourceError) as error:
        if stop.is_set():
            log.info(f"told to stop: the {where} has not been reached")
            raise Stopped from error
        raise
    _tell(status, where, clock, None)
    return answer


def _look_at_brokers(settings: Settings, status: ProcessStatus, clock: Clock) -> None:
    """Say whether Kafka can be reached while the store is waited for, when nobody else asks it."""
    _tell(status, "source", clock, unreachable_reason(settings.kafka.bootstrap_servers, 1.0))


def _tell(status: ProcessStatus, where: Literal["store", "source"], clock: Clock, error: str | None) -> None:
    """Note that a part of the world is away, or None: that it is there; each change is a line of the log."""
    known: Trouble | None = getattr(status, f"{where}_trouble")
    trouble = None
    if error is not None:
        trouble = Trouble(clock.monotonic(), 1, error) if known is None else Trouble(known.since_seconds, known.failures + 1, error)
    if known is None and trouble is not None:
        log.warning(f"{where} unavailable, trying again", error=error)
    elif known is not None and trouble is None:
        log.info(f"{where} available")
    setattr(status, f"{where}_trouble", trouble)
