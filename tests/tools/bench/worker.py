"""The real worker, `streammetrics run`, in its own process, with a stopwatch around each stage. SIGTERM ends it.

The time of a stage is the processor time of the loop's thread in it, without the stages inside it. Another thread sends commits: its time
is the stage `commit`. The stopwatch is read a few times for each thousand records, so it costs almost nothing.
"""

from __future__ import annotations

import functools
import gc
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from streammetrics.cli.run.run import run
from streammetrics.cli.signals import stop_on_signals
from streammetrics.config import Settings
from streammetrics.connectors.kafka.source import KafkaSource
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.source import Input
from streammetrics.engine.engine import Engine
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.prefetch import Prefetch
from streammetrics.runtime.consume.task_runner import TaskRunner
from tests.tools.bench.parts import peak_mb, read_given, reply

STAGES: tuple[tuple[type, str, str], ...] = (
    (KafkaSource, "poll", "poll"),
    (TaskRunner, "_decode", "decode"),
    (Engine, "needs", "step"),
    (Engine, "load", "step"),
    (Engine, "step", "step"),
    (Engine, "save", "save"),
    (Engine, "forget", "save"),
    (Prefetch, "read", "load"),
    (Prefetch, "prefetch", "load"),
)


class Stopwatch:
    """Time by stage of the thread that polls, and the first and the last moment that count."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.commits = 0
        self.commit_processor = 0.0
        self._running: list[str] = []
        self._mark = 0.0
        self.first: dict[str, float] | None = None
        self.last: dict[str, float] = {}
        self._committed: dict[Input, int] = {}

    def around(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._switch()
            self._running.append(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self._switch()
                self._running.pop()

        return timed

    def collecting(self, phase: str, _: dict[str, int]) -> None:
        """Measure garbage collection, which runs in any thread that has just made an object."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._switch()
        if phase == "start":
            self._running.append("garbage")
        else:
            self._running.pop()

    def _switch(self) -> None:
        now = time.thread_time()
        if self._running:
            self.seconds[self._running[-1]] += now - self._mark
        self._mark = now

    def begin(self) -> None:
        """Begin the measured time: the first records have arrived."""
        if self.first is None:
            self.seconds.clear()
            self.commit_processor = 0.0
            self.first = moment()

    def settled(self, offsets: Mapping[Input, int]) -> None:
        """A commit was written, up to these offsets; one that reads on in no input (sessions have ended meanwhile) does not count."""
        if offsets.items() <= self._committed.items():
            return
        self._committed.update(offsets)
        stages = {**self.seconds, "commit": self.commit_processor}
        self.last = {**moment(), **{f"stage {stage}": seconds for stage, seconds in stages.items()}}


def moment() -> dict[str, float]:
    return {"wall": time.monotonic(), "process": time.process_time(), "loop": time.thread_time()}


def install(watch: Stopwatch) -> None:
    for owner, name, stage in STAGES:
        setattr(owner, name, watch.around(stage, getattr(owner, name)))
    add_records, commit, acknowledge = Worker._add_records, RedisStore.commit, KafkaSource.acknowledge

    @functools.wraps(add_records)
    def added(*args: Any) -> None:
        watch.begin()
        add_records(*args)

    @functools.wraps(commit)
    def committing(*args: Any) -> Any:
        began = time.thread_time()
        outcome = commit(*args)
        watch.commits += 1
        watch.commit_processor += time.thread_time() - began
        return outcome

    @functools.wraps(acknowledge)
    def acknowledging(source: KafkaSource, offsets: Mapping[Input, int]) -> None:
        acknowledge(source, offsets)
        watch.settled(offsets)

    setattr(Worker, "_add_records", added)  # noqa: B010  (a type checker would ask for the same signature)
    setattr(RedisStore, "commit", committing)  # noqa: B010
    setattr(KafkaSource, "acknowledge", acknowledging)  # noqa: B010  (the last that is done when a commit has been written)


def main() -> None:
    watch = Stopwatch()
    install(watch)
    gc.callbacks.append(watch.collecting)
    with stop_on_signals() as stop:
        run(Settings.model_validate(read_given()["settings"]), stop)
    first, last = watch.first or moment(), watch.last
    loop = last["loop"] - first["loop"]
    stages = {key.removeprefix("stage "): seconds for key, seconds in last.items() if key.startswith("stage ")}
    reply(
        {
            "began": first["wall"],
            "ended": last["wall"],
            "start_seconds": first["process"],
            "processor_seconds": last["process"] - first["process"],
            "other_seconds": last["process"] - first["process"] - loop - stages["commit"],
            "stages": {**stages, "rest of the loop": loop + stages["commit"] - sum(stages.values())},
            "commits": watch.commits,
            "peak_mb": peak_mb(),
        }
    )


if __name__ == "__main__":
    main()
