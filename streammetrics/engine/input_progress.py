"""How far a task has read its inputs: offsets, watermarks, and the count of events by outcome.

The loop moves the watermark of an input with each event, and the task's with it. All other moves are here: idle inputs, clocks and the end.
No session and no pane is touched.

`Lateness` says how late the late events of an input are, and which event made them late. It is small, for reports and dead letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec

from streammetrics.engine.rules import EngineRules
from streammetrics.engine.supported_time import StoredSupport, SupportedTime
from streammetrics.events.event_time import FOREVER, NEVER, close_bound, final_bound

KEPT_BITS = 4
"""Significant bits of a delay that are kept: a median is exact to about 7 %."""


class ProgressState(msgspec.Struct, array_like=True):
    """What is stored of `InputProgress`. Lists are by topic index, and `counts` is (reason, topic index, count).

    `cluster_id` and `topic_ids` are those of the source ("" where unknown): offsets mean nothing anywhere else.
    `newest_supported` is the greatest supported time of any input, where windows end after a flush. NEVER: unknown.
    """

    cluster_id: str
    topic_ids: list[str]
    offsets: list[int | None]
    watermarks: list[int]
    watermark: int
    newest: int
    counts: list[tuple[str, int, int]]
    support: list[StoredSupport]
    setters: list[TimeSetter | None]
    lateness: list[StoredLateness]
    newest_supported: int
    record_times: list[int]


class InputProgress:
    """Offsets and watermarks of a task's inputs, by topic index, and the watermark of the task itself.

    `supported` are the supported times of the inputs. `watermarks` follow them: NEVER before the first supported time, then that time
    less the allowed disorder. `watermark` is the task's: the least one of its live inputs. It never goes back. `newest` is the time of
    the newest event that a session took. `counts` is by (reason, topic index). `changed` says that a commit has something to write.
    `record_times` are timestamps of the last records themselves; only ticks use them. `setters` are the events that last moved the
    times, and `lateness` says how late the late events were. The watermark of the task does not go beyond `hold` (ms): see `hold_at`.
    `ended_until`: the inputs have ended, and sessions close up to this time (ms): see `end`.
    """

    __slots__ = (
        "_rules",
        "changed",
        "cluster_id",
        "counts",
        "ended_until",
        "hold",
        "lateness",
        "newest",
        "offsets",
        "record_times",
        "setters",
        "supported",
        "topic_ids",
        "watermark",
        "watermarks",
    )

    def __init__(self, rules: EngineRules) -> None:
        self._rules = rules
        self.offsets: list[int | None] = [None] * len(rules.topics)
        self.cluster_id = ""
        self.topic_ids = [""] * len(rules.topics)
        self.watermarks = [NEVER] * len(rules.topics)
        self.supported = [
            SupportedTime(rules.support, out_of_orderness_ms=rules.out_of_orderness_ms, lateness_ms=rules.lateness_ms) for _ in rules.topics
        ]
        self.record_times = [NEVER] * len(rules.topics)
        self.setters: list[TimeSetter | None] = [None] * len(rules.topics)
        self.lateness = [Lateness() for _ in rules.topics]
        self.watermark = NEVER
        self.hold = FOREVER
        self.ended_until = NEVER
        self.newest = NEVER
        self.counts: Counter[tuple[str, int]] = Counter()
        self.changed = False

    def restore(self, stored: ProgressState) -> None:
        """Continue from the last commit."""
        self.cluster_id = stored.cluster_id
        self.topic_ids, self.offsets, self.watermarks = stored.topic_ids, stored.offsets, stored.watermarks
        self.watermark, self.newest = stored.watermark, stored.newest
        self.setters, self.record_times = stored.setters, stored.record_times
        for topic, watermark in enumerate(self.watermarks):
            time = NEVER if watermark == NEVER else watermark + self._rules.out_of_orderness_ms
            self.supported[topic].restore(stored.support[topic], time)
            self.lateness[topic].restore(stored.lateness[topic])
        self.counts.update({(reason, topic): count for reason, topic, count in stored.counts})

    def stored(self) -> ProgressState:
        """Return what the next commit writes."""
        return ProgressState(
            self.cluster_id,
            self.topic_ids,
            self.offsets,
            self.watermarks,
            self.watermark,
            self.newest,
            [(reason, topic, count) for (reason, topic), count in sorted(self.counts.items())],
            [supported.stored() for supported in self.supported],
            self.setters,
            [lateness.stored() for lateness in self.lateness],
            self.newest_supported(),
            self.record_times,
        )

    @property
    def closed_before(self) -> int:
        """No event before this time (ms) is admitted any more."""
        return close_bound(max(self.watermark, self.ended_until), self._rules.lateness_ms)

    def final_before(self, wait_ms: int) -> int:
        """No list of a pane that ends at or before this time (ms) is still waiting, if lists wait this long after their pane's end."""
        return final_bound(max(self.watermark, self.ended_until), self._rules.lateness_ms, wait_ms)

    def least_other(self, topic: int, idle: AbstractSet[int]) -> int:
        """Return the bound that the other live inputs and `hold` set to the watermark of the task; FOREVER if there is none."""
        others = [watermark for other, watermark in enumerate(self.watermarks) if other != topic and other not in idle]
        return min([self.hold, *others])

    def positions(self) -> list[int]:
        """Return how far each input is in event time, as a watermark. Without a supported time, the least of its last events counts."""
        times = [supported.time_or_least for supported in self.supported]
        return [time if time == NEVER else time - self._rules.out_of_orderness_ms for time in times]

    def ended_at(self) -> int:
        """Return the watermark when no input has more events: that of the furthest input, settled as far as its events allow."""
        ends = [supported.at_end() for supported in self.supported]
        newest = max((end for end in ends if end != NEVER), default=NEVER)
        return newest if newest == NEVER else newest - self._rules.out_of_orderness_ms

    def newest_supported(self) -> int:
        """Return the greatest time of any input at its end; NEVER without events."""
        return max((supported.at_end() for supported in self.supported), default=NEVER)

    def advance_idle(self, idle: AbstractSet[int], tick_ms: int | None) -> None:
        """Advance the task's watermark past idle inputs. If all inputs are idle, advance it to `tick_ms`."""
        live = [watermark for topic, watermark in enumerate(self.watermarks) if topic not in idle]
        bound = min(live) if live else tick_ms
        if bound is not None and min(bound, self.hold) > self.watermark:
            self.watermark = min(bound, self.hold)
            self.changed = True

    def hold_at(self, until_ms: int, idle: AbstractSet[int]) -> None:
        """Let the watermark of the task go on, and stop exactly at a time. What is committed there depends on the inputs' logs alone.

        No event becomes late by this: each is judged by the watermark of its own input, too, which does not stop.
        """
        self.hold = until_ms
        self.advance_idle(idle, self.ended_at())

    @property
    def earliest(self) -> int:
        """The least watermark that an event can set."""
        return -self._rules.out_of_orderness_ms

    @property
    def began_ms(self) -> int:
        """The least watermark at which an input began, or that of the end of inputs without a supported time; NEVER without events."""
        began = [supported.began - self._rules.out_of_orderness_ms for supported in self.supported if supported.began != NEVER]
        return min(began, default=self.ended_at())

    def end(self, until_ms: int) -> None:
        """End the inputs: no event will follow, so sessions close and lists become final up to a time (ms). FOREVER: all of them.

        Before FOREVER the watermark stays, so no old pane expires.
        """
        self.ended_until = until_ms
        if until_ms == FOREVER:
            self.watermark = FOREVER
        self.changed = True


class TimeSetter(NamedTuple):
    """The event that last moved the time of an input: its offset, user and time (ms)."""

    offset: int
    user: str
    ts: int


class StoredLateness(NamedTuple):
    """Late events of one input by rounded delay (ms), the greatest delay, and the event that set the time for the latest one."""

    delays: tuple[tuple[int, int], ...] = ()
    greatest_ms: int = 0
    setter: TimeSetter | None = None


class Lateness:
    """Counts late events by their delay: how long before the oldest admitted time they are (ms)."""

    __slots__ = ("delays", "greatest_ms", "setter")

    def __init__(self) -> None:
        self.restore(StoredLateness())

    def restore(self, stored: StoredLateness) -> None:
        self.delays, self.greatest_ms, self.setter = dict(stored.delays), stored.greatest_ms, stored.setter

    def stored(self) -> StoredLateness:
        return StoredLateness(tuple(sorted(self.delays.items())), self.greatest_ms, self.setter)

    def add(self, delay_ms: int, setter: TimeSetter | None) -> None:
        """Count a late event. `setter` moved the time of its input; None if the input has no time yet."""
        delay = rounded(delay_ms)
        self.delays[delay] = self.delays.get(delay, 0) + 1
        if delay_ms > self.greatest_ms:
            self.greatest_ms, self.setter = delay_ms, setter

    def merge(self, other: StoredLateness) -> None:
        """Add other late events of the same input. Of several latest ones, that of the least setter counts."""
        for delay, count in other.delays:
            self.delays[delay] = self.delays.get(delay, 0) + count
        greatest = (self.greatest_ms, self.setter)
        if other.greatest_ms > self.greatest_ms or (other.greatest_ms == self.greatest_ms and _is_before(other.setter, self.setter)):
            greatest = (other.greatest_ms, other.setter)
        self.greatest_ms, self.setter = greatest


def _is_before(one: TimeSetter | None, other: TimeSetter | None) -> bool:
    return one is not None and (other is None or one.offset < other.offset)


def rounded(delay_ms: int) -> int:
    """Return a delay with its first bits only.

    >>> rounded(9), rounded(1_000), rounded(65_537)
    (9, 960, 65536)
    """
    shift = max(0, delay_ms.bit_length() - KEPT_BITS)
    return delay_ms >> shift << shift


def median_ms(delays: dict[int, int]) -> int:
    """Return the lower median of delays by count; 0 if there are none.

    >>> median_ms({10: 1, 20: 1, 900: 2}), median_ms({})
    (20, 0)
    """
    half = (sum(delays.values()) + 1) // 2
    for delay, count in sorted(delays.items()):
        half -= count
        if half <= 0:
            return delay
    return 0
