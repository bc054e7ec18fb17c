"""The status of one process, and of several worker processes as one: counters are summed, and the worst state counts.

It is updated where the work is done, and read by the exporter and the health checks. Results are not kept here; they come from committed
state. Each field has one writer. Readers may see a slightly old value.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streammetrics.connectors.source import Input
from streammetrics.connectors.store import StoreNode
from streammetrics.runtime.retry import Trouble

COMMIT_BUCKETS_SECONDS = (0.0025, 0.01, 0.025, 0.1, 0.5, 2.5)
RATE_SECONDS = 5.0
"""Time span of a rate, or the time between the last two samples if that is longer."""


class Rate:
    """The current growth of a count per second.

    >>> rate = Rate()
    >>> [rate.add(seconds, count) for seconds, count in [(0, 0), (2, 10), (6, 30), (12, 30), (13, 4)]]
    [None, 5.0, 5.0, 0.0, None]
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, seconds: float, count: int) -> float | None:
        """Add a sample and return the rate; None for the first sample, and for one below the last: the count was reset."""
        if self._samples and count < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((seconds, count))
        while len(self._samples) > 2 and seconds - self._samples[1][0] >= RATE_SECONDS:
            self._samples.popleft()
        since_seconds, before = self._samples[0]
        return (count - before) / (seconds - since_seconds) if seconds > since_seconds else None


@dataclass(slots=True)
class CommitTimes:
    """Durations of commits, as a cumulative histogram."""

    count: int = 0
    sum_seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * len(COMMIT_BUCKETS_SECONDS))

    def observe(self, seconds: float) -> None:
        self.count += 1
        self.sum_seconds += seconds
        for index, bound in enumerate(COMMIT_BUCKETS_SECONDS):
            if seconds <= bound:
                self.buckets[index] += 1


class Standstill(NamedTuple):
    """An input that has records and does not move: its next offset, since when (monotonic seconds), and what holds it."""

    offset: int
    since_seconds: float
    reason: str


@dataclass(slots=True)
class ProcessStatus:
    """Status of one process. Times are monotonic seconds unless the name says otherwise."""

    started_seconds: float = 0.0
    beat_seconds: float = 0.0
    """When the loop last began a turn. `/healthz` fails if that is too long ago."""
    ready: bool = False
    """True if the source and the store answer and every assigned task is claimed."""
    source_trouble: Trouble | None = None
    store_trouble: Trouble | None = None
    reader_trouble: Trouble | None = None
    """Why an input waits: its reader cannot read the next record yet."""
    publish_trouble: Trouble | None = None
    outages: tuple[str, ...] = ()
    """Why workers of this namespace cannot read their source, as they say."""
    group_conflict: str = ""
    """What is wrong while workers of another consumer group take tasks of this namespace."""
    down: dict[str, Trouble] = field(default_factory=dict)
    """Worker processes that do not run, by name, with the reason; always empty for a single process."""
    store_nodes: tuple[StoreNode, ...] = ()
    """Last known status of the store's servers; empty while they do not answer."""
    commit_times: CommitTimes = field(default_factory=CommitTimes)
    commits: Counter[str] = field(default_factory=Counter)
    """By outcome: written, already, fenced, conflict, failed."""
    state_bytes: int = 0
    """Bytes of state that commits wrote, keys and names not counted."""
    rebalances: int = 0
    client_rebuilds: int = 0
    dead_letters: int = 0
    dead_letters_lost: Counter[str] = field(default_factory=Counter)
    """Dead letters that their topic refuses in every form, by the topic of their records."""
    results: Counter[str] = field(default_factory=Counter)
    """Records of results: sent, and failed writes; empty without a topic for them."""
    records: Counter[str] = field(default_factory=Counter)
    """Records read, by topic. Records that are read again after a crash count again."""
    paused_inputs: int = 0
    cached_users: int = 0
    lag_records: dict[Input, int] = field(default_factory=dict)
    lag_seconds: dict[Input, float] = field(default_factory=dict)
    standstills: dict[Input, Standstill] = field(default_factory=dict)
    """Inputs that have not moved for STANDSTILL_SECONDS although they have records."""


def snapshot(status: ProcessStatus) -> ProcessStatus:
    """Return a copy that the loop does not change any more. The loop may add and remove inputs meanwhile."""
    times = status.commit_times
    return replace(
        status,
        commit_times=CommitTimes(times.count, times.sum_seconds, list(times.buckets)),
        commits=Counter(dict(status.commits)),
        records=Counter(dict(status.records)),
        dead_letters_lost=Counter(dict(status.dead_letters_lost)),
        lag_records=dict(status.lag_records),
        lag_seconds=dict(status.lag_seconds),
        standstills=dict(status.standstills),
    )


def update_merged(merged: ProcessStatus, running: Sequence[ProcessStatus], ended: Sequence[ProcessStatus], expected: int) -> None:
    """Set `merged` to the status of all worker processes, `expected` of which should run.

    `ended` are the last statuses of processes that have ended, so that no counter decreases. The oldest beat counts, so that one hanging
    process is noticed. What the parent itself sets stays: its reads of committed state, its start, and which processes are down.
    """
    everyone = [*ended, *running]
    merged.commits = sum((status.commits for status in everyone), Counter())
    merged.records = sum((status.records for status in everyone), Counter())
    merged.state_bytes = sum(status.state_bytes for status in everyone)
    merged.rebalances = sum(status.rebalances for status in everyone)
    merged.client_rebuilds = sum(status.client_rebuilds for status in everyone)
    merged.dead_letters = sum(status.dead_letters for status in everyone)
    merged.dead_letters_lost = sum((status.dead_letters_lost for status in everyone), Counter())
    merged.commit_times = _sum([status.commit_times for status in everyone])
    merged.paused_inputs = sum(status.paused_inputs for status in running)
    merged.cached_users = sum(status.cached_users for status in running)
    merged.lag_records, merged.lag_seconds = _lags(running)
    merged.standstills = {origin: standstill for status in running for origin, standstill in status.standstills.items()}
    if running:
        merged.beat_seconds = min(max(status.beat_seconds, status.started_seconds) for status in running)
    merged.ready = len(running) == expected and all(status.ready for status in running)
    merged.group_conflict = next((status.group_conflict for status in running if status.group_conflict), "")
    merged.source_trouble = _longest(status.source_trouble for status in running)
    merged.store_trouble = _longest(status.store_trouble for status in running)
    merged.reader_trouble = _longest(status.reader_trouble for status in running)


def total(statuses: Sequence[ProcessStatus]) -> ProcessStatus:
    """Return one status with the counters of all, in place of many that have ended."""
    together = ProcessStatus()
    update_merged(together, [], statuses, 0)
    return together


def _sum(times: Sequence[CommitTimes]) -> CommitTimes:
    summed = CommitTimes(sum(part.count for part in times), sum(part.sum_seconds for part in times))
    for part in times:
        summed.buckets = [one + other for one, other in zip(summed.buckets, part.buckets, strict=True)]
    return summed


def _lags(running: Iterable[ProcessStatus]) -> tuple[dict[Input, int], dict[Input, float]]:
    """Return the lag of all inputs. While an input moves, two processes may report it."""
    records: dict[Input, int] = {}
    seconds: dict[Input, float] = {}
    for status in running:
        records |= status.lag_records
        seconds |= status.lag_seconds
    return records, seconds


def _longest(troubles: Iterable[Trouble | None]) -> Trouble | None:
    """Return the trouble that has lasted longest; None if there is none."""
    return min((trouble for trouble in troubles if trouble is not None), key=lambda trouble: trouble.since_seconds, default=None)
