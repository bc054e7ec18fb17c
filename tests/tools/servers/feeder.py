"""Sends a steady simulated A/B test to a real broker from a thread, ten times as fast as real users act.

Tests can pause the traffic, degrade a variant, and change records while it flows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, Self

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.sinks import KafkaSink
from streammetrics.connectors.simulated import Regression, SimulatedRecord, Traffic, Variant, generate
from streammetrics.connectors.simulated.source import time_lapse
from streammetrics.errors import StreammetricsError

LAPSE = 10
HISTORY_MS = 60_000
"""How long before now the traffic begins, so that it has its full rate from the start."""
AHEAD_MS = 3_000
"""A regression begins so long after the call, because it is prepared first."""
WAIT_SECONDS = 0.1
RETRY_SECONDS = 0.5
WRITE_MS_MAX = 120_000
"""How long a record waits for the broker. Most clients of Kafka wait as long. A sender that gives up sooner loses lists, and their feedback
then matches none. It also needs time to start again. Until then the workers take its inputs for idle, and refuse late records."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Feeder:
    """Sends each record at its time. `rate` is lists per second. `traffic` is passed on. While the broker is away, records wait."""

    def __init__(
        self, settings: KafkaSettings, topics: tuple[str, str], *, rate: float = 40.0, users: int = 4_000, seed: int = 7, **traffic: Any
    ) -> None:
        self._settings, self._topics = settings, topics
        self.traffic = Traffic(
            users=users,
            seed=seed,
            start_ms=now_ms() - HISTORY_MS,
            impressions_per_second=rate / LAPSE,
            variants=(Variant("control", 0.5), Variant("treatment", 0.5)),
            impressions_topic=topics[0],
            feedback_topic=topics[1],
            **traffic,
        )
        self._records = time_lapse(generate(self.traffic), self.traffic.start_ms, LAPSE)
        self._sent = 0
        self._alter: Callable[[SimulatedRecord], Iterable[SimulatedRecord]] = lambda sent: (sent,)
        self._changing = threading.Lock()
        self._flowing, self._stop = threading.Event(), threading.Event()
        self._flowing.set()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self.failure: BaseException | None = None

    def regress(self, variant: str, factor: float) -> None:
        """Let a variant rank with a fraction of its quality, soon. The rest of the traffic stays the same.

        The changed traffic is generated again from its beginning. That takes seconds, in which the usual traffic goes on.
        """
        after_ms = (now_ms() + AHEAD_MS - self.traffic.start_ms) * LAPSE
        traffic = replace(self.traffic, regression=Regression(variant, factor, after_ms))
        records, passed = time_lapse(generate(traffic), traffic.start_ms, LAPSE), 0
        while (ahead := self._sent - passed) > 0:
            passed += sum(1 for _ in islice(records, ahead))
        with self._changing:
            self.traffic, self._records = traffic, islice(records, self._sent - passed, None)

    @contextmanager
    def altered(self, alter: Callable[[SimulatedRecord], Iterable[SimulatedRecord]]) -> Iterator[None]:
        """Send what `alter` returns for each record while the block runs."""
        usual, self._alter = self._alter, alter
        try:
            yield
        finally:
            self._alter = usual

    def pause(self) -> None:
        """Send nothing until `resume`. Records due meanwhile are never sent."""
        self._flowing.clear()

    def resume(self) -> None:
        with self._changing:
            now = now_ms()
            for skipped in self._records:
                self._sent += 1
                if skipped.ts > now:
                    break
        self._flowing.set()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    with KafkaSink(self._settings, self._topics, WRITE_MS_MAX) as sink:
                        self._feed(sink)
                except StreammetricsError:  # the broker was away for too long, and unsent records are lost
                    self._stop.wait(RETRY_SECONDS)
        except BaseException as error:
            self.failure = error

    def _feed(self, sink: KafkaSink) -> None:
        while not self._stop.wait(WAIT_SECONDS):
            if self._flowing.is_set():
                for sent in self._due():
                    for altered in self._alter(sent):
                        sink.write(altered, None)
                sink.flush()

    def _due(self) -> list[SimulatedRecord]:
        due = []
        with self._changing:
            now = now_ms()
            for sent in self._records:
                self._sent += 1
                due.append(sent)
                if sent.ts >= now:
                    break
        return due

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
