"""What one process knows of its own work: counted where the work is done, read by the exporter and the health checks.

No results live here: those come from committed state (`report`). One writer a field; readers tolerate a value a moment old.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from streammetrics.connectors.base import Input, StoreNode

COMMIT_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
RATE_SECONDS = 5.0
"""What a rate is taken over, or the time between the last two looks where they are farther apart."""


class Rate:
    """How fast a count grows now.

    >>> rate = Rate()
    >>> [rate.look(seconds, count) for seconds, count in [(0, 0), (2, 10), (6, 30), (12, 30), (13, 4)]]
    [None, 5.0, 5.0, 0.0, None]
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, seconds: float, count: int) -> float | None:
        """Its growth in a second up to this look; None for the first, and for one that finds less than the last: it began anew."""
        if self._looks and count < self._looks[-1][1]:
            self._looks.clear()
        self._looks.append((seconds, count))
        while len(self._looks) > 2 and seconds - self._looks[1][0] >= RATE_SECONDS:
            self._looks.popleft()
        since_seconds, before = self._looks[0]
        return (count - before) / (seconds - since_seconds) if seconds > since_seconds else None


@dataclass(slots=True)
class CommitTimes:
    """How long commits took, as a cumulative histogram."""

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
    """Something of the world that fails now: since when (monotonic seconds), how often in a row, and the last words."""

    since_seconds: float
    failures: int
    message: str


@dataclass(slots=True)
class ProcessStatus:
    """The state of one process. Times are monotonic seconds unless the name says otherwise."""

    started_seconds: float = 0.0
    beat_seconds: float = 0.0
    """When the loop last came round: `/healthz` fails when this is long ago."""
    ready: bool = False
    """True once the source has answered, every assigned task is claimed and the store serves."""
    source_trouble: Trouble | None = None
    store_trouble: Trouble | None = None
    publish_trouble: Trouble | None = None
    store_nodes: tuple[StoreNode, ...] = ()
    """What the servers of the store said when they were last asked; nothing while they do not answer."""
    commit_times: CommitTimes = field(default_factory=CommitTimes)
    commits: Counter[str] = field(default_factory=Counter)
    """By outcome: written, already, fenced, conflict, failed."""
    rebalances: int = 0
    client_rebuilds: int = 0
    dead_letters: int = 0
    records: Counter[str] = field(default_factory=Counter)
    """Records consumed, by topic; counted again when they are read again after a crash."""
    paused_inputs: int = 0
    cached_users: int = 0
    lag_records: dict[Input, int] = field(default_factory=dict)
    lag_seconds: dict[Input, float] = field(default_factory=dict)
