"""The loop: poll, carry every task on, pace the inputs; rebalances, retries, shutdown.

Never waits for a world that fails: what failed is kept as it was and tried again with back-off, while the source is still polled so that
ownership stays known. How one task is carried on is said in `streammetrics.runtime.task_runner`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import structlog

from streammetrics.connectors.base import Input, Record
from streammetrics.engine.task_state import TaskState
from streammetrics.errors import GaveUp, SourceError, StoreError
from streammetrics.runtime.owned_task import CALM_SECONDS, Backoff, Outage, OwnedTask
from streammetrics.runtime.status import Trouble
from streammetrics.runtime.task_runner import TaskRunner
from streammetrics.windows.panes import Pane

FINISH_RETRY_SECONDS = 0.05
ANSWER_SECONDS = 0.02
"""How long a poll takes at most while a commit is on its way: only after the poll its answer is looked for, and the next one sent."""
CHUNK_RECORDS_MAX = 1_000
"""How many records are decoded at once, and their users read: a step takes so many, or as many as the next commit has room for."""

log = structlog.get_logger("streammetrics.runtime.consumer")


class Worker:
    """Runs the tasks that the source assigns, one turn at a time, in one thread."""

    def __init__(self, runner: TaskRunner) -> None:
        self.runner, self.works = runner, runner.works
        self.source, self.rules, self.clock, self.status = runner.source, runner.rules, runner.clock, runner.status
        self._backoff = Backoff()
        self._outages = {where: Outage(where) for where in ("store", "source")}
        """What tasks suffer from."""
        self._between = False
        """Whether a rebalance has taken tasks, and has not given any yet."""
        self._polling = Outage("source")
        self._poll_failed_seconds = 0.0
        self._fresh_at: dict[Input, float] = {}
        """When (monotonic seconds) the last record read of an input came, or when it was last seen at its end."""

    def run(self, stop: threading.Event) -> None:
        """Turn until told to stop, then commit what is there and leave."""
        while not stop.is_set():
            self.turn()
        log.info("told to stop: what is there is committed, and the group is left")
        self.finish()

    def turn(self, timeout_s: float = 0.2) -> None:
        """Poll once and carry every owned task as far as the world allows."""
        now = self.status.beat_seconds = self.clock.monotonic()
        if self._is_failing:
            soonest = min((work.retry_at for work in self.works.values() if work.failing), default=now)
            timeout_s = max(0.01, min(timeout_s, soonest - now))
        if any(work.awaits_answer for work in self.works.values()):
            timeout_s = min(timeout_s, ANSWER_SECONDS)
        self._poll(timeout_s)
        self._advance()
        self._pace()
        self._update_status()

    def finish(self, patience_seconds: float = 10.0) -> None:
        """Commit what was taken, as far as the store allows within a bound, and leave the source."""
        deadline = self.clock.monotonic() + patience_seconds
        while any(work.backlog or self.runner.unsaved(work) for work in self.works.values()):
            self._advance(commit_now=True)
            if self._is_failing:
                self.clock.sleep(FINISH_RETRY_SECONDS)
            if self._is_failing and self.clock.monotonic() > deadline:
                log.warning("stopped with uncommitted work, which will be read again", tasks=sorted(self.works))
                break
        self.source.close()
        self.runner.letters.close()

    def pass_over(self, ended: Collection[Input]) -> None:
        """Let inputs that have ended hold back no other. Once all have, a task has come as far as the one that came furthest."""
        for work in self.works.values():
            idle = frozenset(index for index, origin in enumerate(work.inputs) if origin in ended)
            if work.state is not None and idle != work.idle:
                work.idle = idle
                self.runner.step(work, None, tick_ms=max(work.state.watermarks))

    def drain(self, flush: bool) -> None:
        """Finish inputs that have ended: commit all, close all sessions that are due; `flush` makes everything final."""
        for work in self.works.values():
            if flush and work.state is not None:
                self.runner.step(work, None, flush=True)
            while work.state is not None and (work.backlog or self.runner.unsaved(work) or self.runner.due_left(work)):
                self.runner.advance(work, commit_now=True)

    def unfinished_panes(self) -> Iterator[tuple[int, Pane]]:
        """The panes of owned tasks that may still change, by start; for inputs that have ended."""
        for work in self.works.values():
            if work.state is not None:
                yield from sorted(work.state.panes.items())

    def inputs_by_event_time(self) -> list[Input]:
        """The owned inputs, the one furthest behind in event time first."""
        stands = [
            (watermark, origin)
            for work in self.works.values()
            if work.state is not None
            for origin, watermark in zip(work.inputs, work.state.watermarks, strict=True)
        ]
        return [origin for _, origin in sorted(stands)]

    def _poll(self, timeout_s: float) -> None:
        began = self.clock.monotonic()
        try:
            polled = self.source.poll(timeout_s)
        except SourceError as error:
            self._poll_failed_seconds = self.clock.monotonic()
            self._polling.failed(error, self._poll_failed_seconds, self.rules.retry_seconds_max)
            self.clock.sleep(max(0.0, timeout_s - (self._poll_failed_seconds - began)))  # it may fail at once, thousands of times a second
            return
        if began - self._poll_failed_seconds > CALM_SECONDS:  # some failures come with every other poll only
            self._polling.well(began)
        if polled.assigned or polled.revoked:
            self._change_hands(polled.assigned, polled.revoked)
        for origin, records in polled.records.items():
            work = self.works.get(origin.partition)
            if work is not None and work.state is not None and records:
                self._take_records(work, origin, records)

    def _change_hands(self, assigned: AbstractSet[int], revoked: AbstractSet[int]) -> None:
        """Drop and take tasks; one that is kept through a rebalance is in both, and claimed anew."""
        had = {task for task in revoked if self.works.pop(task, None) is not None}
        for task in assigned:
            self.works[task] = OwnedTask(task, self.source.inputs_of(task))
        is_rest = self._between and not had  # of a rebalance that was counted when it took what was here
        self._between = bool(had) and not assigned
        if not is_rest:
            self.status.rebalances += 1
        log.info("tasks changed hands", lost=sorted(had - assigned), kept=sorted(had & assigned), gained=sorted(assigned - had))

    def _take_records(self, work: OwnedTask, origin: Input, records: Sequence[Record]) -> None:
        topic = work.inputs.index(origin)
        for start in range(0, len(records), CHUNK_RECORDS_MAX):
            work.backlog.append((topic, records[start : start + CHUNK_RECORDS_MAX]))
        work.idle -= {topic}  # nobody knows yet what the records hold
        self.status.records[origin.topic] += len(records)
        stamp = records[-1].timestamp_ms
        age_seconds = max(0.0, (self.clock.wall_ms() - stamp) / 1_000) if stamp >= 0 else 0.0
        self._fresh_at[origin] = self.clock.monotonic() - age_seconds

    def _advance(self, commit_now: bool = False) -> None:
        """Carry every task on, those that do well first, until one fails: a failure may take long, and the source must be polled.

        A task that fails waits by itself. With a cluster, others may have their state where all is well.
        """
        now = self.clock.monotonic()
        for work in sorted(self.works.values(), key=lambda work: work.retry_at if work.failing else 0.0):
            if work.failing and now < work.retry_at:
                continue
            try:
                answered = self.runner.advance(work, commit_now)
            except StoreError as error:
                self._trouble(work, "store", error)
                break
            except SourceError as error:
                self._trouble(work, "source", error)
                break
            if answered:
                work.failing, work.failures = "", 0
        self._note_recovery()

    def _pace(self) -> None:
        """Pause the inputs whose records could not be used now, and those too far ahead of a slower one in event time."""
        stop: set[Input] = set()
        go: set[Input] = set()
        for work in self.works.values():
            paused = frozenset(work.inputs if work.failing or work.state is None else self._ahead(work, work.state))
            stop |= paused - work.paused
            go |= work.paused - paused
            work.paused = paused
        self.source.pause(stop)
        self.source.resume(go)
        self.status.paused_inputs = sum(len(work.paused) for work in self.works.values())

    def _ahead(self, work: OwnedTask, state: TaskState) -> list[Input]:
        """The inputs that wait for the slowest that is not idle; one that has held no event yet is slower than all others.

        What the watermark has passed already waits for nobody: an input that comes back after a silence holds back nothing.
        """
        live = [watermark for index, watermark in enumerate(state.watermarks) if index not in work.idle]
        if not live:
            return []
        slowest = max(min(live), state.watermark)
        return [
            origin for origin, watermark in zip(work.inputs, state.watermarks, strict=True) if watermark - slowest > self.rules.skew_ms_max
        ]

    def _trouble(self, work: OwnedTask, where: str, error: Exception) -> None:
        """Note that a task cannot go on, and wait before its next try."""
        now = self.clock.monotonic()
        self._outages[where].failed(error, now, self.rules.retry_seconds_max)
        work.failing, work.failures = where, work.failures + 1
        work.retry_at = now + self._backoff.delay(work.failures)

    @property
    def _is_failing(self) -> bool:
        """Whether some task waits for the world."""
        return any(outage.trouble for outage in self._outages.values())

    def _note_recovery(self) -> None:
        """Note what no task suffers from any more; one that went elsewhere suffers there."""
        suffered_from = {work.failing for work in self.works.values()}
        for where, outage in self._outages.items():
            if where not in suffered_from:
                outage.well(self.clock.monotonic())

    def _update_status(self) -> None:
        status, states = self.status, [(work, work.state) for work in self.works.values()]
        health = self.source.health
        status.store_trouble = self._outages["store"].trouble
        status.source_trouble = self._outages["source"].trouble or self._polling.trouble
        if not health.reachable:  # what else fails of Kafka then, such as dead letters, is a consequence
            trouble = status.source_trouble or Trouble(health.since, 1, "")
            status.source_trouble = Trouble(trouble.since_seconds, trouble.failures, health.last_error)
            limit = self.rules.retry_seconds_max
            if limit and self.clock.monotonic() - health.since > limit:
                raise GaveUp(f"the source has been away for more than worker.retry_seconds_max = {limit} s: {health.last_error}")
        status.client_rebuilds = health.rebuilds
        stands_by = not states and status.beat_seconds - status.started_seconds > self.rules.fenced_wait_seconds
        claimed = bool(states) and all(state is not None for _, state in states)
        status.ready = not status.store_trouble and not status.source_trouble and (claimed or stands_by)
        status.cached_users = sum(len(state.users) for _, state in states if state is not None)
        self._note_lag()

    def _note_lag(self) -> None:
        status, ends, now = self.status, self.source.ends(), self.clock.monotonic()
        for work in self.works.values():
            for index, origin in enumerate(work.inputs):
                if work.state is not None and origin in ends:
                    lag = status.lag_records[origin] = max(0, ends[origin] - (work.state.offsets[index] or 0))
                    if not lag:
                        self._fresh_at[origin] = now
                    if origin in self._fresh_at:
                        status.lag_seconds[origin] = now - self._fresh_at[origin]
        claimed = {task for task, work in self.works.items() if work.state is not None}
        lags: tuple[dict[Input, Any], ...] = (status.lag_records, status.lag_seconds, self._fresh_at)
        for by_input in lags:
            for origin in [origin for origin in by_input if origin.partition not in claimed]:
                del by_input[origin]
