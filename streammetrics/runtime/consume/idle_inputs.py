"""Decides which inputs are idle, and how far time has passed on them.

A watermark never goes back. If one clock runs ahead for a moment only, all events would be late until real time has caught up. So idle
inputs follow the slower of two clocks: that of this machine and that of the store.

All inputs of a task may be silent while both clocks are wrong, for example on one host. So the watermark follows them no further than
events and the monotonic clock allow.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.source import Source
from streammetrics.connectors.store import Store
from streammetrics.engine.task_state import TaskState, decode_control
from streammetrics.events.event_time import FOREVER, NEVER, seems_seconds
from streammetrics.runtime.consume.limits import WorkerRules
from streammetrics.runtime.consume.owned_task import OwnedTask

BEHIND_MS = 10_000
"""If the events of a worker are further behind the clocks, it reads the times of other workers."""
READ_SECONDS = 30.0
"""How often the committed times of other tasks are read, at most."""
DIFFERENCE_MS_MAX = 10_000
"""Clocks that differ by more are logged."""
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


class EventClock:
    """The greatest time of any known event or record, carried on by the monotonic clock.

    Records count because a recorded history may be older than they are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading: tuple[int, float] | None = None
        """A time (ms), and the monotonic time (s) when it was seen."""
        self._read_seconds: float | None = None

    def note(self, time_ms: int, monotonic: float) -> None:
        """Note the time of events or records, as seen at a monotonic time (s)."""
        if time_ms not in (NEVER, FOREVER) and time_ms > self.at(monotonic):
            self._reading = time_ms, monotonic

    def at(self, monotonic: float) -> int:
        """Return the latest time (ms) that it can be at a monotonic time (s), as far as events show; NEVER without events."""
        if self._reading is None:
            return NEVER
        time_ms, seen = self._reading
        return time_ms + int((monotonic - seen) * 1_000)

    def read_others(self, owned: Collection[int], monotonic: float) -> None:
        """Note the committed times of tasks of other workers. Raises StoreError.

        A worker with silent inputs only has no time of its own to go by.
        """
        if self._read_seconds is not None and monotonic - self._read_seconds < READ_SECONDS:
            return
        self._read_seconds = monotonic
        others = sorted(set(range(self._store.partitions() or 0)) - set(owned))
        for view in self._store.view(others, {}, tables=()).values() if others else ():
            control = decode_control(view.control)
            self.note(max([control.progress.newest_supported, *control.progress.record_times]), monotonic)


class StoreClock:
    """Reads the store's time, and logs once when the two clocks differ."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._differing: set[int] = set()
        """Tasks whose store clock differs. Only the first of them is logged."""

    def wall_ms(self, task: int, monotonic: float, tasks: Collection[int]) -> int:
        """Return what the clock of a task's store showed at a monotonic time (s), in epoch ms; FOREVER if it has no clock.

        `tasks` are all owned tasks: if the clock of one is known to differ, another one is not logged.
        """
        stored_ms = self._store.clock_ms(task)
        if stored_ms is None:
            return FOREVER
        ahead_ms = self._clock.wall_ms() - stored_ms
        if abs(ahead_ms) <= DIFFERENCE_MS_MAX:
            self._differing.discard(task)
        else:
            if self._differing.isdisjoint(tasks):
                log.warning(
                    "the clocks of this machine and of the store differ: idle inputs follow the one that is behind; set both by NTP",
                    task=task,
                    ahead_seconds=round(ahead_ms / 1_000, 1),
                )
            self._differing.add(task)
        return stored_ms - int((self._clock.monotonic() - monotonic) * 1_000)
