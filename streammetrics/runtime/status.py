"""The status of one process: updated where the work is done, read by the exporter and the health checks.

Results are not kept here; they come from committed state. Each field has one writer. Readers may see a slightly old value.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from streammetrics.connectors.source import Input
from streammetrics.connectors.store import StoreNode

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


@dataclass(slots=True)
class Trouble:
    """A current outage: since when (monotonic seconds), failures in a row, and the last error message."""

    since_seconds: float
    failures: int
    message: str


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
