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

from streammetrics.adapters.clock import SystemClock
from streammetrics.adapters.http.server import HttpServer
from streammetrics.adapters.http.views import HttpViews
from streammetrics.adapters.kafka.client import unreachable_reason
from streammetrics.adapters.kafka.dead_letters import KafkaDeadLetters
from streammetrics.adapters.kafka.partitioner import partition_of
from streammetrics.adapters.kafka.source import KafkaSource
from streammetrics.adapters.prometheus.exporter import Exposition, ExpositionLimits
from streammetrics.adapters.redis.namespaces import client_name
from streammetrics.adapters.redis.shelf import RedisShelf
from streammetrics.adapters.redis.store import RedisStore
from streammetrics.commands.assembly import (
    build_decoder,
    build_engine,
    build_ledger,
    build_worker_rules,
    control_of,
    window_names,
)
from streammetrics.commands.connections import kafka_connection, redis_connection
from streammetrics.commands.garbage import look_for_garbage, tune_garbage_collection
from streammetrics.commands.logs import configure_logs
from streammetrics.commands.threads import Part
from streammetrics.config import Settings
from streammetrics.engine import Engine
from streammetrics.errors import ConfigError, Problem, SourceError, StateError, StoreError
from streammetrics.history_keeper import HISTORY_KEY, HistoryKeeper
from streammetrics.ports import Clock
from streammetrics.publisher import Publisher
from streammetrics.service import Worker
from streammetrics.task_runner import TaskRunner
from streammetrics.version import __version__
from streammetrics.vitals import Trouble, Vitals

T = TypeVar("T")

COMMITS_AT_ONCE = 32
"""Threads that send commits to a cluster, one for each commit under way; they exist when they are needed."""

log = structlog.get_logger("streammetrics.commands.run")


class Stopped(Exception):
    """The process was told to stop while it waited for the world."""


def run(settings: Settings, stop: threading.Event) -> None:
    """Run until told to stop; raises what the process cannot go on after."""
    configure_logs(settings.log.level, settings.log.format)
    tune_garbage_collection()
    clock, vitals = SystemClock(), Vitals()
    vitals.started_seconds = vitals.beat_seconds = clock.monotonic()
    engine = build_engine(settings, settings.kafka.topics)
    role = settings.worker.role
    limits = ExpositionLimits(label_values_max=settings.exporter.label_values_max, series_max=settings.exporter.series_max)
    exposition = Exposition(engine.layout, window_names(settings), vitals, limits, loop=role != "exporter", control_of=control_of(settings))
    views = HttpViews(exposition, clock.monotonic, publishes=role != "worker")
    server = HttpServer.from_settings(views, settings.http)
    server.start()
    log.info("started", version=__version__, role=role, http=server.url, topics=settings.kafka.topics)
    try:
        _serve(settings, engine, views, clock, vitals, stop)
    finally:
        server.stop()
    log.info("stopped")


def _serve(settings: Settings, engine: Engine, views: HttpViews, clock: Clock, vitals: Vitals, stop: threading.Event) -> None:
    connection = replace(redis_connection(settings), client_name=client_name(settings.worker.role, settings.redis.namespace))
    with contextlib.ExitStack() as stack:
        store, shelf = RedisStore(connection), RedisShelf(connection, HISTORY_KEY)
        stack.callback(store.close)
        stack.callback(shelf.close)
        stack.enter_context(Part("search for garbage", look_for_garbage, stop))
        with contextlib.suppress(Stopped):
            meanwhile = partial(_look_at_brokers, settings, vitals, clock) if settings.worker.role != "exporter" else lambda: None
            _keep_trying(lambda: _check_store(store, settings), "store", settings, vitals, clock, stop, meanwhile)
            if settings.worker.role != "worker":
                publisher = Publisher(
                    ledger=build_ledger(settings, engine),
                    store=store,
                    publish_ms=settings.exporter.publish_ms,
                    clock=clock,
                    vitals=vitals,
                    on_report=HistoryKeeper(views.show, shelf).take,
                    retry_seconds_max=settings.worker.retry_seconds_max,
                )
                stack.enter_context(Part("publisher", publisher.run, stop))
            if settings.worker.role == "exporter":
                stop.wait()
            else:
                _work(settings, engine, store, clock, vitals, stop)


def _work(settings: Settings, engine: Engine, store: RedisStore, clock: Clock, vitals: Vitals, stop: threading.Event) -> None:
    """Consume until told to end. Whatever happens, the group is left at once: another member need not wait for this one's silence."""
    kafka = kafka_connection(settings)
    with contextlib.ExitStack() as stack:
        source = _keep_trying(lambda: KafkaSource(kafka, clock.monotonic), "source", settings, vitals, clock, stop)
        stack.callback(source.close)
        letters = _keep_trying(lambda: KafkaDeadLetters(kafka, settings.kafka.dead_letter_topic), "source", settings, vitals, clock, stop)
        stack.callback(letters.close)
        partitions = source.partitions
        _keep_trying(lambda: _announce(store, partitions, settings), "store", settings, vitals, clock, stop)
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
                vitals=vitals,
                commits=commits,
                misplaced=lambda task, user_id: partition_of(user_id, partitions) != task,
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
            problems.append(Problem(f"redis {risk.setting}", risk.value, risk.mend))
        else:
            log.warning("state in Redis is at risk", setting=risk.setting, value=risk.value, mend=risk.mend)
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
    vitals: Vitals,
    clock: Clock,
    stop: threading.Event,
    meanwhile: Callable[[], None] = lambda: None,
) -> T:
    """Ask until the world answers; raises Stopped when told to stop meanwhile, the last error when it has been away for too long.

    `meanwhile` is called after each time that it was asked in vain.
    """

    def failed(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        vitals.beat_seconds = clock.monotonic()
        _tell(vitals, where, clock, str(error))
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
    _tell(vitals, where, clock, None)
    return answer


def _look_at_brokers(settings: Settings, vitals: Vitals, clock: Clock) -> None:
    """Say whether Kafka can be reached while the store is waited for, when nobody else asks it."""
    _tell(vitals, "source", clock, unreachable_reason(settings.kafka.bootstrap_servers, 1.0))


def _tell(vitals: Vitals, where: Literal["store", "source"], clock: Clock, error: str | None) -> None:
    """Note that a part of the world is away, or None: that it is there; each change is a line of the log."""
    known: Trouble | None = getattr(vitals, f"{where}_trouble")
    trouble = None
    if error is not None:
        trouble = Trouble(clock.monotonic(), 1, error) if known is None else Trouble(known.since_seconds, known.failures + 1, error)
    if known is None and trouble is not None:
        log.warning(f"{where} unavailable, trying again", error=error)
    elif known is not None and trouble is None:
        log.info(f"{where} available")
    setattr(vitals, f"{where}_trouble", trouble)
