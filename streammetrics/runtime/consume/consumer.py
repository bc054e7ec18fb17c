"""The worker's loop: poll, advance every task, pause inputs, update the status; rebalances, retries, shutdown.

The loop never blocks on a system that is down. A task that failed keeps its state and is tried again with back-off,
while polling goes on so that the worker keeps its place in the consumer group. `task_runner` runs a single task.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet

import structlog

from streammetrics.connectors.source import Input, InputRecord
from streammetrics.engine.task_state import TaskState
from streammetrics.errors import GaveUp, SourceError, StoreError
from streammetrics.events.event_time import FOREVER
from streammetrics.runtime.consume.lag import LagTracker
from streammetrics.runtime.consume.limits import CommitRoom
from streammetrics.runtime.consume.owned_task import Assignment, OwnedTask
from streammetrics.runtime.consume.task_runner import TaskRunner
from streammetrics.runtime.retry import CALM_SECONDS, Backoff, Outage, Trouble
from streammetrics.windows.panes import Pane

FINISH_RETRY_SECONDS = 0.05
REPLY_SECONDS = 0.02
"""Longest poll while a commit is in flight: its reply is handled, and the next commit sent, only after the poll."""
CHUNK_RECORDS_MAX = 1_000
"""Records that are decoded at once and whose users are read together. A step takes a chunk, or what fits into the next commit."""
log = structlog.get_logger("streammetrics.runtime.consume.consumer")


class Worker:
    """Runs the tasks that the source assigns, one turn at a time, in one thread."""

    def __init__(self, runner: TaskRunner) -> None:
        self.runner, self.tasks = runner, runner.tasks
        self.source, self.rules, self.clock, self.status = runner.source, runner.rules, runner.clock, runner.status
        self._backoff = Backoff()
        self._outages = {where: Outage(where) for where in ("store", "source")}
        """Outages that tasks wait for."""
        self._mid_rebalance = False
        """Whether a rebalance has revoked tasks and not assigned any yet."""
        self._polling = Outage("source")
        self._poll_failed_seconds = 0.0
        self._lag = LagTracker(self.status, self.clock)

    def run(self, stop: threading.Event) -> None:
        """Run turns until `stop` is set, then commit and leave the consumer group."""
        while not stop.is_set():
            self.turn()
        log.info("stopping: committing, then leaving the consumer group")
        self.finish()

    def turn(self, timeout_s: float = 0.2) -> None:
        """Poll once and advance every owned task."""
        now = self.status.beat_seconds = self.clock.monotonic()
        if self._is_failing:
            next_retry = min((task.retry.retry_at_seconds for task in self.tasks.values() if task.retry.is_failing), default=now)
            timeout_s = max(0.01, min(timeout_s, next_retry - now))
        if any(task.commits.awaits_reply for task in self.tasks.values()):
            timeout_s = min(timeout_s, REPLY_SECONDS)
        elif any(task.has_changes for task in self.tasks.values()):
            timeout_s = min(timeout_s, self.runner.schedule.next_in(now))
        self._poll(timeout_s)
        self._advance()
        self._pace()
        self._update_status()

    def finish(self, patience_seconds: float = 10.0) -> None:
        """Commit what was processed, trying for `patience_seconds` if the store fails, and close the source."""
        deadline = self.clock.monotonic() + patience_seconds
        while any(task.backlog or task.has_uncommitted for task in self.tasks.values()):
            self._advance(commit_now=True)
            if self._is_failing:
                self.clock.sleep(FINISH_RETRY_SECONDS)
            if self._is_failing and self.clock.monotonic() > deadline:
                log.warning("stopped with uncommitted work, which will be read again", tasks=sorted(self.tasks))
                break
        self.source.close()
        self.runner.letters.close()

    def ignore_ended(self, ended: Collection[Input]) -> None:
        """Treat inputs that have ended as idle. Once all have ended, the watermark of a task is that of its furthest input."""
        for task in self.tasks.values():
            idle = frozenset(index for index, origin in enumerate(task.inputs) if origin in ended)
            if task.state is not None and idle != task.activity.idle:
                task.activity.idle = idle
                self.runner.step(task, None, tick_ms=task.state.progress.ended_at())

    def hold(self, until_ms: int) -> None:
        """Let the watermarks of the tasks go on, and stop exactly at a time (ms)."""
        for task in self.tasks.values():
            if task.state is not None:
                task.state.progress.hold_at(until_ms, task.activity.idle)

    def end(self, until_ms: int) -> None:
        """End the inputs: sessions close and lists become final up to a time (ms). FOREVER: all of them."""
        for task in self.tasks.values():
            if task.state is not None:
                self.runner.step(task, None, ended_until=until_ms)

    def drain(self, flush: bool) -> None:
        """Commit all that was processed and close all sessions that are due. `flush` makes everything final."""
        if flush:
            self.end(FOREVER)
        for task in self.tasks.values():
            while task.state is not None and (task.backlog or task.has_uncommitted or self.runner.has_due_users(task)):
                self.runner.advance(task, commit_now=True)

    def enrol(self) -> None:
        """Close the sessions and enrol the lists that are due, and write the result for readers: see `TaskRunner.enrol`."""
        for task in self.tasks.values():
            self.runner.enrol(task)

    def unfinished_panes(self) -> Iterator[tuple[int, Pane]]:
        """Return the panes of owned tasks that may still change, by start; for inputs that have ended."""
        for task in self.tasks.values():
            if task.state is not None:
                yield from sorted(task.state.panes.open.items())

    def inputs_by_event_time(self) -> list[Input]:
        """Return the owned inputs, the one furthest behind in event time first."""
        watermarks = [
            (watermark, origin)
            for task in self.tasks.values()
            if task.state is not None
            for origin, watermark in zip(task.inputs, task.state.progress.positions(), strict=True)
        ]
        return [origin for _, origin in sorted(watermarks)]

    def _poll(self, timeout_s: float) -> None:
        began = self.clock.monotonic()
        try:
            polled = self.source.poll(timeout_s, self._collect_seconds(began))
        except SourceError as error:
            self._poll_failed_seconds = self.clock.monotonic()
            self._polling.failed(error, self._poll_failed_seconds, self.rules.retry_seconds_max)
            # A poll may fail at once. Without the sleep it would be repeated thousands of times a second.
            self.clock.sleep(max(0.0, timeout_s - (self._poll_failed_seconds - began)))
            return
        if began - self._poll_failed_seconds > CALM_SECONDS:  # some failures show only in every other poll
            self._polling.succeeded(began)
        if polled.assigned or polled.revoked:
            self._rebalance(polled.assigned, polled.revoked)
        for origin, records in polled.records.items():
            task = self.tasks.get(origin.partition)
            if task is not None and task.state is not None and records:
                self._add_records(task, origin, records)

    def _collect_seconds(self, now: float) -> float:
        """Return how long records can wait: until the next commit if there is one to come and no task is behind."""
        tasks = self.tasks.values()
        if not any(task.has_uncommitted for task in tasks):
            return 0.0
        is_behind = any(task.state is None or self.runner.is_behind(task) for task in tasks)
        return 0.0 if is_behind else self.runner.schedule.fetch_in(now)

    def _rebalance(self, assigned: AbstractSet[int], revoked: AbstractSet[int]) -> None:
        """Drop and add tasks. A task that stays through a rebalance is in both sets, and is claimed again."""
        dropped = {task for task in revoked if self.tasks.pop(task, None) is not None}
        for task in assigned:
            self.tasks[task] = OwnedTask(Assignment(task, self.source.inputs_of(task)), CommitRoom(self.rules))
        is_second_half = self._mid_rebalance and not dropped  # the first half, which revoked tasks, was counted
        self._mid_rebalance = bool(dropped) and not assigned
        if not is_second_half:
            self.status.rebalances += 1
        log.info("tasks reassigned", lost=sorted(dropped - assigned), kept=sorted(dropped & assigned), gained=sorted(assigned - dropped))

    def _add_records(self, task: OwnedTask, origin: Input, records: Sequence[InputRecord]) -> None:
        topic = task.inputs.index(origin)
        task.backlog.add(topic, records, CHUNK_RECORDS_MAX)
        task.activity.records_came(topic)
        self.status.records[origin.topic] += len(records)
        self._lag.records_came(origin, records[-1])

    def _advance(self, commit_now: bool = False) -> None:
        """Advance every task, healthy ones first, until one fails: a failure may take long, and polling must go on.

        A failed task waits by itself. In a Redis Cluster the state of other tasks may be on healthy servers.
        """
        now = self.clock.monotonic()
        for task in sorted(self.tasks.values(), key=lambda task: task.retry.retry_at_seconds if task.retry.is_failing else 0.0):
            if task.retry.must_wait(now):
                continue
            try:
                has_reply = self.runner.advance(task, commit_now)
            except StoreError as error:
                self._failed(task, "store", error)
                break
            except SourceError as error:
                self._failed(task, "source", error)
                break
            if has_reply:
                task.retry.succeeded()
        self._note_recovery()

    def _pace(self) -> None:
        """Pause inputs whose records cannot be used now, and resume the others."""
        pause: set[Input] = set()
        resume: set[Input] = set()
        for task in self.tasks.values():
            to_pause, to_resume = task.activity.pause(inputs_to_pause(task, self.rules.skew_ms_max))
            pause |= to_pause
            resume |= to_resume
        self.source.pause(pause)
        self.source.resume(resume)
        self.status.paused_inputs = sum(len(task.activity.paused) for task in self.tasks.values())

    def _failed(self, task: OwnedTask, where: str, error: Exception) -> None:
        """Note that a task cannot go on, and when it tries again."""
        now = self.clock.monotonic()
        self._outages[where].failed(error, now, self.rules.retry_seconds_max)
        task.retry.failed(where, now, self._backoff)

    @property
    def _is_failing(self) -> bool:
        """Whether some task waits for an external system."""
        return any(outage.trouble for outage in self._outages.values())

    def _note_recovery(self) -> None:
        """End the outages that no owned task waits for. A task that has moved fails at its new owner, if at all."""
        waited_for = {task.retry.waits_for for task in self.tasks.values()}
        for where, outage in self._outages.items():
            if where not in waited_for:
                outage.succeeded(self.clock.monotonic())

    def _update_status(self) -> None:
        status, states = self.status, [task.state for task in self.tasks.values()]
        status.store_trouble = self._outages["store"].trouble
        status.source_trouble = self._source_trouble()
        status.reader_trouble = self._reader_trouble()
        status.group_conflict = self.runner.rivals.conflict(self.clock.monotonic()) or self.source.health.conflict
        status.client_rebuilds = self.source.health.rebuilds
        is_standby = not states and status.beat_seconds - status.started_seconds > self.rules.fenced_wait_seconds
        all_claimed = bool(states) and all(state is not None for state in states)
        has_trouble = status.store_trouble or status.source_trouble or status.reader_trouble
        status.ready = not has_trouble and (all_claimed or is_standby)
        status.cached_users = sum(len(state.sessions.users) for state in states if state is not None)
        self._lag.update(self.tasks.values(), self.source.ends())

    def _reader_trouble(self) -> Trouble | None:
        """Return why inputs wait for their reader; None if none does."""
        waits = [
            Trouble(wait.since_seconds, wait.tries, f"{task.inputs[topic].topic} [{task.number}] waits: {wait.reason}")
            for task in self.tasks.values()
            for topic, wait in task.backlog.waits.items()
        ]
        trouble = min(waits, key=lambda wait: wait.since_seconds, default=None)
        limit = self.rules.retry_seconds_max
        if trouble is not None and limit and self.clock.monotonic() - trouble.since_seconds > limit:
            raise GaveUp(f"inputs have waited for more than worker.retry_seconds_max = {limit} s: {trouble.message}")
        return trouble

    def _source_trouble(self) -> Trouble | None:
        """Return what is wrong with the source. If it is unreachable, that is the cause of all other failures."""
        health, trouble = self.source.health, self._outages["source"].trouble or self._polling.trouble
        if health.reachable:
            return trouble
        limit = self.rules.retry_seconds_max
        if limit and self.clock.monotonic() - health.since > limit:
            raise GaveUp(f"the source has been unreachable for more than worker.retry_seconds_max = {limit} s: {health.last_error}")
        since_seconds, failures = (trouble.since_seconds, trouble.failures) if trouble else (health.since, 1)
        return Trouble(since_seconds, failures, health.last_error)


def inputs_to_pause(task: OwnedTask, skew_ms_max: int) -> frozenset[Input]:
    """Return the inputs of a task that must be paused now."""
    if task.retry.is_failing or task.state is None:
        return frozenset(task.inputs)
    return frozenset([*_too_far_ahead(task, task.state, skew_ms_max), *[task.inputs[topic] for topic in task.backlog.waits]])


def _too_far_ahead(task: OwnedTask, state: TaskState, skew_ms_max: int) -> list[Input]:
    """Return the inputs that are more than `skew_ms_max` of event time ahead of the slowest one that is not idle.

    An input without any event yet is the slowest. One without a supported time is where the least of its last events is. One that is
    behind the watermark holds back nothing: that time has passed.
    """
    positions = state.progress.positions()
    live = [position for index, position in enumerate(positions) if index not in task.activity.idle]
    if not live:
        return []
    slowest = max(min(live), state.progress.watermark)
    return [origin for origin, position in zip(task.inputs, positions, strict=True) if position - slowest > skew_ms_max]
