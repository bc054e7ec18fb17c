"""Waits at the start of `run` until Kafka and Redis can be used, and keeps the status of the process meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

import structlog
import tenacity

from streammetrics.config import Settings
from streammetrics.connectors.clock import Clock
from streammetrics.connectors.kafka.client import unreachable_reason
from streammetrics.connectors.redis.client import place_of
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.errors import ConfigError, Problem, SourceError, StoreError, UnfitStateError
from streammetrics.runtime.status import ProcessStatus, Trouble
from streammetrics.words.numbers import counted

T = TypeVar("T")
Where: TypeAlias = Literal["store", "source"]

log = structlog.get_logger("streammetrics.cli.run.startup")


class Stopped(Exception):
    """A stop was requested while the process waited for Kafka or Redis."""


class Startup:
    """The start of one process. Its methods wait while a system is unavailable; they raise Stopped if `stop` is set meanwhile."""

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
                raise Stopped from error
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
