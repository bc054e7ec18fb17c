"""The limits and intervals of a worker, and how much the next commit of a task has room for: users, and bytes. Pure.

The room of a commit bounds what is read, processed and kept in memory. The bytes of a commit are those of its records, plus the stored
state of their large users. Only large users are recorded, so this costs nothing while all users are small. The limits on the number of
users cover those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from streammetrics.connectors.store import DueQuery
from streammetrics.engine.batch import users_of
from streammetrics.runtime.consume.backlog import Chunk
from streammetrics.state.tables import StateChanges

LARGE_BYTES = 4_096
"""A user with at least this many bytes of stored state is large. A typical user has less than a thousand."""
FETCH_LEAD_SECONDS = 0.05
"""How long before a commit the last records for it are fetched, if that is not more than a twentieth of `commit_ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRules:
    """How a worker paces itself. Only `idle_ms` can change a result: it decides when an input is idle."""

    commit_ms: int = 1_000
    commit_behind_ms: int = 3_000
    """Time between commits while records wait to be read, if it is longer than `commit_ms`."""
    commit_users_max: int = 8_000
    """Users from the stream per commit. A commit may process as many due users on top.

    The number is lower when the users' totals in the last commit were large: see `CommitRoom`.
    """
    commit_bytes_max: int = 32 << 20
    """Bytes per commit: its records plus the stored state of their large users. A single larger record still fits.

    A commit may process as many bytes of due users on top.
    """
    due_with_commits: bool = False
    """Whether users that are due wait for the next commit. Otherwise the first step after a commit reads them."""
    cached_users_max: int = 200_000
    cached_bytes_max: int = 256 << 20
    """Bytes of stored state that the large users in memory may have."""
    idle_ms: int | None = 30_000
    out_of_orderness_ms: int = 5_000
    skew_ms_max: int = 3_600_000
    fenced_wait_seconds: float = 10.0
    retry_seconds_max: float = 0.0
    """How long an outage may last before the worker gives up; 0 means no limit."""


class CommitSchedule(NamedTuple):
    """The times at which all tasks of a worker commit while they are caught up. They are the same for all, so that one fetch serves them.

    >>> schedule = CommitSchedule(start_seconds=10.0, every_seconds=1.0)
    >>> schedule.last(10.9), schedule.last(12.0), round(schedule.next_in(12.25), 2)
    (10.0, 12.0, 0.75)
    >>> [round(schedule.fetch_in(now), 2) for now in (12.25, 12.94, 12.96)]
    [0.7, 1.01, 0.99]
    """

    start_seconds: float
    every_seconds: float

    def last(self, now_seconds: float) -> float:
        """Return the last of these times, in monotonic seconds."""
        if not self.every_seconds:
            return now_seconds
        return now_seconds - (now_seconds - self.start_seconds) % self.every_seconds

    def next_in(self, now_seconds: float) -> float:
        """Return the seconds until the next one."""
        return self.last(now_seconds) + self.every_seconds - now_seconds

    def fetch_in(self, now_seconds: float) -> float:
        """Return the seconds until the last fetch before a commit: before the one after next if the next one has its records."""
        lead_seconds = min(FETCH_LEAD_SECONDS, self.every_seconds / 20)
        seconds = self.next_in(now_seconds) - lead_seconds
        return seconds if seconds > lead_seconds else seconds + self.every_seconds


@dataclass(slots=True)
class CommitRoom:
    """The limits of a task's next commit, and what it has taken of them."""

    rules: WorkerRules
    users_max: int = field(init=False)
    """Users from the stream. It is lower while users' totals in experiments are large."""
    large: dict[str, int] = field(default_factory=dict)
    """Bytes of the stored state of each large user, least recently read or written first."""
    large_bytes: int = 0
    """Of all large users together."""
    taken_bytes: int = 0
    """Of the records that the next commit has so far."""

    def __post_init__(self) -> None:
        self.users_max = self.rules.commit_users_max

    @property
    def bytes_max(self) -> int:
        return self.rules.commit_bytes_max

    def due_query(self, before_ms: int | None) -> DueQuery | None:
        """Return the query for the due users of one commit; None if no bound is given."""
        return None if before_ms is None else DueQuery(before_ms, self.users_max, self.bytes_max)

    def readable_bytes(self, chunk: Chunk | None) -> int | None:
        """Return how many bytes of users to read for a chunk. A single record has no limit."""
        return self.bytes_max if chunk is not None and len(chunk.records) > 1 else None

    def read(self, stored: Mapping[str, bytes]) -> None:
        """Note states that were read, or are about to be written.

        >>> room = CommitRoom(WorkerRules())
        >>> room.read({"u1": bytes(5_000), "u2": bytes(50)}), room.read({"u2": bytes(9_000), "u1": bytes(6_000)}), room.large
        (None, None, {'u2': 9000, 'u1': 6000})
        """
        for user_id, state in stored.items():
            self._note(user_id, len(state))

    def committed(self, changes: StateChanges) -> None:
        """Note what a commit writes, and begin the next one. It takes fewer users if their totals in experiments are large.

        Totals are not measured one by one: those of the next commit are about as large.
        """
        self.taken_bytes = 0
        self.read(changes.users)
        for user_id, piece in changes.pieces.items():
            self._note(user_id, piece.state_bytes)
        self.forget(changes.users_gone)
        if changes.totals:
            totals_bytes = sum(map(len, changes.totals.values())) // len(changes.totals)
            self.users_max = max(1, min(self.rules.commit_users_max, self.bytes_max // max(1, totals_bytes)))

    def forget(self, gone: Collection[str]) -> None:
        """Forget users that a commit deletes."""
        for user_id in gone if self.large else ():
            self.large_bytes -= self.large.pop(user_id, 0)

    def split(self, chunk: Chunk, dirty: AbstractSet[str]) -> tuple[Chunk | None, Chunk | None]:
        """Split a chunk into the part that the next commit has room for and the rest, and count the first part's bytes as taken.

        `dirty` are the users that the commit already contains. An empty commit takes one record of any size. A record adds its own bytes,
        and the stored state of each large user once.
        """
        users = chunk.batch.users
        fits = len(dirty) + len(users) <= self.users_max and self.taken_bytes + chunk.total_bytes + self.large_bytes <= self.bytes_max
        if not fits:  # the bound above counts all large users; this one only those in the commit
            users = users - dirty
            room = self.bytes_max - self.taken_bytes - self._bytes_of(dirty)
            fits = len(dirty) + len(users) <= self.users_max and chunk.total_bytes + self._bytes_of(users) <= room
        if fits:
            self.taken_bytes += chunk.total_bytes
            return chunk, None
        is_empty, seen = not (dirty or self.taken_bytes), set(dirty)
        for count, (size, record) in enumerate(zip(chunk.sizes, chunk.batch.records, strict=True)):
            users = users_of((record,)) - seen
            seen |= users
            room -= size + self._bytes_of(users)
            if (len(seen) > self.users_max or room < 0) and not (is_empty and count == 0):
                self.taken_bytes += sum(chunk.sizes[:count])
                return chunk.cut(count)
        self.taken_bytes += chunk.total_bytes
        return chunk, None

    def beyond(self, cached: Collection[str], bytes_max: int) -> Iterator[str]:
        """Return the cached large users to evict, oldest first, so that the others have at most `bytes_max` bytes."""
        held = [(user_id, size) for user_id, size in self.large.items() if user_id in cached]
        excess = sum(size for _, size in held) - bytes_max
        for user_id, size in held:
            if excess <= 0:
                return
            excess -= size
            yield user_id

    def _note(self, user_id: str, size: int) -> None:
        if user_id in self.large:
            self.large_bytes -= self.large.pop(user_id)
        if size >= LARGE_BYTES:
            self.large[user_id] = size
            self.large_bytes += size

    def _bytes_of(self, users: Collection[str]) -> int:
        """Return the bytes of state of the large users among these."""
        if not self.large:
            return 0
        if len(users) < len(self.large):
            return sum(self.large.get(user_id, 0) for user_id in users)
        return sum(size for user_id, size in self.large.items() if user_id in users)
