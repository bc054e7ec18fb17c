"""A store in the memory of this process, for the demo, replays and tests.

Mappings are copied, so that a returned one does not change later. The values are bytes and need no copy.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from streammetrics.connectors.store import (
    NO_BOUNDS,
    READ_SLICE,
    Claim,
    Commit,
    CommitOutcome,
    DueQuery,
    PendingDueUsers,
    PendingUsers,
    StoreNode,
    lost_state,
)
from streammetrics.state.tables import CommitMark, LoadedUsers, TaskView

STALE_MAX = 1_000
"""Stale entries that are allowed on top of one per user, before the collections are rebuilt."""


@dataclass(slots=True)
class _Task:
    """One task. `queue` is a heap of (due_ms, user). An entry is stale if `due` has another time for the user. `taken` are the entries of
    the users that were returned last. Most of them are stale after the next commit.

    `most` is the largest number of users, due times or totals since the last `tidy`.
    """

    epoch: int = 0
    token: str | None = None
    seq: int = 0
    control: bytes | None = None
    rows: dict[str, dict[str, bytes]] = field(default_factory=dict)
    rows_from: Mapping[str, int] = field(default_factory=dict)
    users: dict[str, bytes] = field(default_factory=dict)
    due: dict[str, int] = field(default_factory=dict)
    totals: dict[str, bytes] = field(default_factory=dict)
    queue: list[tuple[int, str]] = field(default_factory=list)
    taken: list[tuple[int, str]] = field(default_factory=list)
    most: int = 0

    def write(self, commit: Commit) -> None:
        changes = commit.changes
        self.seq, self.control = commit.seq, bytes(changes.control)
        self.rows_from = dict(changes.rows_from)
        self.users.update(changes.users)
        for user, piece in changes.pieces.items():
            self.users[user] += piece.data
        for table, rows in changes.rows.items():
            self.rows.setdefault(table, {}).update(rows)
        self.totals.update(changes.totals)
        for user in changes.users_gone:
            self.users.pop(user, None)
            self.due.pop(user, None)
        for user, due_ms in changes.due.items():
            if self.due.get(user) != due_ms:
                self.due[user] = due_ms
                heapq.heappush(self.queue, (due_ms, user))
        for table, keys in changes.rows_gone.items():
            for key in keys:
                self.rows.get(table, {}).pop(key, None)
        for user in changes.totals_gone:
            self.totals.pop(user, None)
        self.most = max(self.most, len(self.users), len(self.due), len(self.totals))
        if max(len(self.queue), self.most) > 2 * max(len(self.users), len(self.due), len(self.totals)) + STALE_MAX:
            self.tidy()

    def rows_since(self, rows_from: Mapping[str, int], tables: Collection[str] | None = None) -> dict[str, dict[str, bytes]]:
        """Return the rows of tables, without those before a number by table. Tables without such rows are absent."""
        newer = {}
        for table in self.rows if tables is None else self.rows.keys() & tables:
            rows, start = self.rows[table], rows_from.get(table)
            read = {key: value for key, value in rows.items() if start is None or int(key) >= start}
            if read:
                newer[table] = read
        return newer

    def tidy(self) -> None:
        """Rebuild the collections to free memory: neither a heap nor a dict shrinks by itself."""
        self.users, self.due, self.totals = dict(self.users), dict(self.due), dict(self.totals)
        self.most = max(len(self.users), len(self.due), len(self.totals))
        self.queue, self.taken = [(due_ms, user) for user, due_ms in self.due.items()], []
        heapq.heapify(self.queue)

    def first_due(self, wanted: DueQuery) -> tuple[list[str], int | None]:
        """Return the due users, and when the next one is due."""
        queue, due = self.queue, self.due
        for entry in self.taken:  # these users stay due until a commit changes that
            if due.get(entry[1]) == entry[0]:
                heapq.heappush(queue, entry)
        taken: list[tuple[int, str]] = []
        room = wanted.bytes_max
        while queue and queue[0][0] < wanted.ms and len(taken) < wanted.users_max:
            if len(taken) % READ_SLICE == 0 and room <= 0:
                break
            entry = heapq.heappop(queue)
            user = entry[1]
            if due.get(user) == entry[0] and not (taken and taken[-1] == entry):
                taken.append(entry)
                room -= len(self.users.get(user, b"")) + len(self.totals.get(user, b""))
        self._drop_stale(taken)
        self.taken = taken
        return [user for _, user in taken], queue[0][0] if queue else None

    def count_within(self, users: Sequence[str], bytes_wanted: int) -> int:
        """Return how many of these users to read until their states have `bytes_wanted` bytes."""
        for start in range(0, len(users), READ_SLICE):
            if bytes_wanted <= 0:
                return start
            bytes_wanted -= sum(len(self.users.get(user, b"")) for user in users[start : start + READ_SLICE])
        return len(users)

    def _drop_stale(self, taken: list[tuple[int, str]]) -> None:
        """Remove stale entries from the top. A due time that moved away and back leaves two equal entries: drop one."""
        while self.queue and (self.due.get(self.queue[0][1]) != self.queue[0][0] or (taken and self.queue[0] == taken[-1])):
            heapq.heappop(self.queue)


class MemoryStore:
    """A `Store` in memory. One thread may read while another commits.

    >>> from streammetrics.state.tables import StateChanges
    >>> store = MemoryStore()
    >>> claim = store.claim(0, token="mine")
    >>> changes = StateChanges(b"control", users={"u7": b"state"}, due={"u7": 90})
    >>> commit = Commit(0, claim.epoch, "mine", claim.seq + 1, changes)
    >>> store.commit(commit).value, store.commit(commit).value
    ('written', 'already')
    >>> store.load(0, [], DueQuery(91, users_max=10, bytes_max=1_000))
    LoadedUsers(users={}, due=['u7'], next_due_ms=None, totals={}, unread=())
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[int, _Task] = {}
        self._partitions: int | None = None
        self._values: dict[str, bytes] = {}

    def claim(self, task: int, token: str) -> Claim:
        with self._lock:
            stored = self._tasks.setdefault(task, _Task())
            if stored.token != token:
                stored.epoch += 1
                stored.token = token
            rows = stored.rows_since(stored.rows_from)
            older = {table: frozenset(stored_rows.keys() - rows.get(table, {}).keys()) for table, stored_rows in stored.rows.items()}
            return Claim(stored.epoch, stored.seq, stored.control, rows, {table: keys for table, keys in older.items() if keys})

    def owner(self, task: int) -> str | None:
        with self._lock:
            return self._tasks.get(task, _Task()).token

    def load(
        self,
        task: int,
        users: Collection[str],
        due: DueQuery | None = None,
        totals: Collection[str] = (),
        bytes_max: int | None = None,
    ) -> LoadedUsers:
        asked = tuple(users)
        with self._lock:
            stored = self._tasks.get(task, _Task())
            first, next_due_ms = ([], None) if due is None else stored.first_due(due)
            read = len(asked) if bytes_max is None else stored.count_within(asked, bytes_max)
            loaded = {user: stored.users[user] for user in asked[:read] if user in stored.users}
            sums = {user: stored.totals[user] for user in (*totals, *first) if user in stored.totals}
            return LoadedUsers(loaded, first, next_due_ms, sums, asked[read:])

    def request(self, task: int, users: Collection[str], bytes_max: int | None = None) -> PendingUsers | None:
        """See `Store.request`. The reply is ready at once."""
        loaded = self.load(task, users, bytes_max=bytes_max)
        return None if loaded.unread else lambda: loaded.users

    def request_due(self, task: int, due: DueQuery) -> PendingDueUsers | None:
        """See `Store.request_due`. The reply is ready at once."""
        loaded = self.load(task, [], due)
        return lambda: loaded

    def commit(self, commit: Commit) -> CommitOutcome:
        with self._lock:
            stored = self._tasks.get(commit.task, _Task())
            outcome = commit.check(stored.epoch, stored.token, stored.seq)
            if outcome is CommitOutcome.WRITTEN:
                stored.write(commit)
            return outcome

    def view(
        self,
        tasks: Collection[int],
        since: Mapping[int, CommitMark],
        rows_from: Mapping[int, Mapping[str, int]] = NO_BOUNDS,
        tables: Collection[str] | None = None,
    ) -> Mapping[int, TaskView]:
        """See `Store.view`. Each task is read atomically, several tasks are not."""
        views: dict[int, TaskView] = {}
        for task in tasks:
            with self._lock:
                stored, mark_before = self._tasks.get(task), since.get(task)
                if stored is None or stored.control is None:
                    if mark_before is not None:
                        raise lost_state(task)
                    continue
                mark = CommitMark(stored.token or "", stored.seq)
                if mark_before == mark:
                    continue
                is_snapshot = mark_before is not None and not mark.follows(mark_before)
                rows = stored.rows_since({} if is_snapshot else rows_from.get(task, {}), tables)
                views[task] = TaskView(mark, stored.control, len(stored.users), rows, is_snapshot)
        return views

    def announce(self, partitions: int) -> int | None:
        with self._lock:
            before = self._partitions
            self._partitions = partitions if before is None else before
            return before

    def partitions(self) -> int | None:
        return self._partitions

    def compare_and_set(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Mapping[str, bytes]:
        with self._lock:
            for name, (before, after) in changes.items():
                if self._values.get(name) == before:
                    self._values.pop(name, None)
                    if after is not None:
                        self._values[name] = after
            return dict(self._values)

    def clock_ms(self, task: int) -> None:
        """None: memory has no clock besides that of its process."""

    def ping(self) -> None:
        """Do nothing: memory is always available."""

    def nodes(self) -> tuple[StoreNode, ...]:
        """Return nothing: memory has no servers."""
        return ()

    def close(self) -> None:
        """Do nothing: the state stays readable."""
