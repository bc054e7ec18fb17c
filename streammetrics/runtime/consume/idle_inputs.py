"""Decides which inputs are idle, and how far time has passed on them."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.source import Source
from streammetrics.connectors.store import Store
from streammetrics.engine.task_state import TaskState
from streammetrics.events.event_time import NEVER, seems_seconds
from streammetrics.runtime.consume.event_clock import EventClock
from streammetrics.runtime.consume.owned_task import OwnedTask
from streammetrics.runtime.consume.rules import WorkerRules
from streammetrics.runtime.consume.store_clock import StoreClock

BEHIND_MS = 10_000
"""If the events of a worker are further behind the clocks, it reads the times of other workers."""

log = structlog.get_logger("streammetrics.runtime.consume.idle_inputs")


class IdleInputs:
    """Checks the inputs of all tasks of a worker. An input is idle if it is caught up and silent for `idle_ms`.

    Paused and unreachable inputs are not idle.
    """

    def __init__(self, source: Source, store: Store, clock: Clock, rules: WorkerRules) -> None:
        self._source, self._clock, self._rules = source, clock, rules
        self._store_clock = StoreClock(store, clock)
        self._event_clock = EventClock(store)
        self._ends_asked: tuple[float, int] | None = None
        """When the source last asked for the ends of the inputs: monotonic seconds, and the wall clock at that time (ms)."""
        self._warned_untimed: set[str] = set()
        self._warned_seconds: set[str] = set()

    def note_time(self) -> None:
        """Read the wall clock soon after the source has asked for ends.

        The two clocks drift apart while the machine sleeps: only the wall clock goes on, and no ends are asked for.
        """
        asked = self._source.health.ends_asked
        if asked is not None and self._rules.idle_ms is not None and (self._ends_asked is None or asked != self._ends_asked[0]):
            self._ends_asked = asked, self._clock.wall_ms() - int((self._clock.monotonic() - asked) * 1_000)

    def check(self, task: OwnedTask, tasks: Collection[int]) -> int | None:
        """Find out which inputs of a task are idle, at most once per commit interval.

        Returns the event time up to which the idle ones hold back nothing; None if there are none. `tasks` are all owned tasks.
        """
        idle_ms, state, now = self._rules.idle_ms, task.state, self._clock.monotonic()
        activity = task.activity
        if idle_ms is None or state is None or (now - activity.ticked_seconds) * 1_000 < self._rules.commit_ms:
            return None
        activity.ticked_seconds = now
        self._event_clock.note(max(state.progress.newest_supported(), *state.progress.record_times), now)
        health = self._source.health
        ends = self._source.ends() if health.reachable else {}
        asked = now if health.ends_asked is None else health.ends_asked  # later records are not known yet
        activity.idle = frozenset(
            index
            for index, origin in enumerate(task.inputs)
            if origin in ends
            and ends[origin] <= (state.progress.offsets[index] or 0)  # newer records may exist, and some may be read
            # Silence counts from when the source answers again: during an outage the senders could not write either.
            and (asked - max(activity.last_event_seconds[index], health.since)) * 1_000 >= idle_ms
        )
        self._warn_untimed(task, state)
        self._warn_seconds(task, state)
        if not activity.idle:
            return None
        silent_until_ms = self._clock.wall_ms() if self._ends_asked is None else self._ends_asked[1]
        if len(activity.idle) == len(task.inputs):  # then time alone moves the watermark
            silent_until_ms = min(silent_until_ms, self._store_clock.wall_ms(task.number, asked, tasks))
            silent_until_ms = self._limited_by_events(silent_until_ms, asked, tasks)
            if silent_until_ms == NEVER:
                return None
        return silent_until_ms - idle_ms - self._rules.out_of_orderness_ms

    def _limited_by_events(self, clock_ms: int, asked: float, tasks: Collection[int]) -> int:
        """Return the time that the clocks show, or the one that events show if it is earlier; NEVER without any event."""
        if self._event_clock.at(asked) < clock_ms - BEHIND_MS:
            self._event_clock.read_others(tasks, asked)
        return min(clock_ms, self._event_clock.at(asked))

    def _warn_untimed(self, task: OwnedTask, state: TaskState) -> None:
        activity, positions = task.activity, state.progress.positions()
        indexes = sorted(index for index in activity.idle & activity.untimed if positions[index] == NEVER)
        untimed = {task.inputs[index].topic: activity.last_refusals.get(index, "") for index in indexes}
        for topic in sorted(untimed.keys() - self._warned_untimed):
            self._warned_untimed.add(topic)
            log.warning(
                "an input has records but no valid event, so it counts as idle: does the topic hold events, and is events.reader right?",
                topic=topic,
                task=task.number,
                last_refused=untimed[topic],
            )

    def _warn_seconds(self, task: OwnedTask, state: TaskState) -> None:
        seconds = {
            origin.topic for origin, position in zip(task.inputs, state.progress.positions(), strict=True) if seems_seconds(position)
        }
        for topic in sorted(seconds - self._warned_seconds):
            self._warned_seconds.add(topic)
            log.warning("events of an input are dated 1970 and hold back all others: ts must be milliseconds, not seconds", topic=topic)
