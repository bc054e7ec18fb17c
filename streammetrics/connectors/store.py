"""Where state is kept: the protocol of a store, and what it takes and returns. No client is imported here."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

from streammetrics.errors import StateError
from streammetrics.state.tables import CommitMark, LoadedUsers, Rows, StateChanges, TaskView

NO_BOUNDS: Mapping[int, Mapping[str, int]] = MappingProxyType({})


class CommitOutcome(enum.Enum):
    """A store's reply to a commit."""

    WRITTEN = "written"
    ALREADY = "already"
    FENCED = "fenced"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed task: the new epoch, the number of the last commit, and the state that it left.

    `control` is None for a task without commits. `rows` are those from `rows_from` of the last commit on. `older` are the keys of all
    other rows, by table.
    """

    epoch: int
    seq: int
    control: bytes | None
    rows: Rows = field(default_factory=dict)
    older: Mapping[str, AbstractSet[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a task: its sequence number, the claim that it belongs to, and its changes."""

    task: int
    epoch: int
    token: str
    seq: int
    changes: StateChanges

    def check(self, epoch: int, token: str | None, seq: int) -> CommitOutcome:
        """Return what a store replies if its task has this epoch (0: never claimed), owner token and last commit.

        WRITTEN means that the store may write it.

        >>> commit = Commit(task=0, epoch=2, token="mine", seq=8, changes=StateChanges(control=b""))
        >>> [commit.check(2, "mine", seq).value for seq in (6, 7, 8)]
        ['conflict', 'written', 'already']
        >>> commit.check(2, "another's", 7).value, commit.check(3, "another's", 7).value
        ('fenced', 'fenced')

        If the store has lost the claim, it has lost commits as well, and the task must be read again:

        >>> commit.check(1, "mine", 7).value, commit.check(0, None, 0).value
        ('conflict', 'conflict')
        """
        if self.epoch < epoch:
            return CommitOutcome.FENCED
        if self.epoch > epoch:
            return CommitOutcome.CONFLICT
        if self.token != token:
            return CommitOutcome.FENCED
        if self.seq == seq:
            return CommitOutcome.ALREADY
        return CommitOutcome.WRITTEN if self.seq == seq + 1 else CommitOutcome.CONFLICT


READ_SLICE = 20
"""Users that a store reads at a time, before it checks how large they are."""


class DueQuery(NamedTuple):
    """A request for the users that are due before `ms`, earliest first.

    The store reads READ_SLICE users at a time, up to `users_max`, or until their states and totals have `bytes_max` bytes.
    """

    ms: int
    users_max: int
    bytes_max: int


PendingUsers: TypeAlias = Callable[[], Mapping[str, bytes] | None]
"""Waits for the requested users and returns them; None if the reply was lost. Raises StoreError if none arrives."""
PendingDueUsers: TypeAlias = Callable[[], LoadedUsers | None]
"""The same for due users."""


def lost_state(task: int) -> StateError:
    """Return the error for a reader that has seen a commit of a task, while the store now has none."""
    return StateError(
        f"the store has lost all state of task {task}, which was shown: it was flushed, or the namespace deleted",
        "restore a backup if this was not intended, then start again; without a backup the numbers begin at zero",
    )


class StoreNode(NamedTuple):
    """One server of a store and how safe state is there. None: the server did not say. A limit of 0 bytes means no limit.

    `evicts`: it may delete state when memory is short. `forgets`: it may be empty after a restart. `refusal`: why it accepts no commits
    although it answers; empty while it does.
    """

    name: str
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    evicts: bool | None = None
    forgets: bool | None = None
    refusal: str = ""


class Store(Protocol):
    """Where state is kept. Every method may raise StoreError: try again."""

    def claim(self, task: int, token: str) -> Claim:
        """Raise the task's epoch, set its owner token, and return the state of the last commit."""
        ...

    def owner(self, task: int) -> str | None:
        """Return the token of the task's last claim; None if it was never claimed."""
        ...

    def load(
        self,
        task: int,
        users: Collection[str],
        due: DueQuery | None = None,
        totals: Collection[str] = (),
        bytes_max: int | None = None,
    ) -> LoadedUsers:
        """Read users, the totals of other users, and due users with their totals, in one round trip.

        Users are read in the given order, READ_SLICE at a time, until their states have `bytes_max` bytes; None: no limit.
        """
        ...

    def request(self, task: int, users: Collection[str], bytes_max: int | None = None) -> PendingUsers | None:
        """Begin to read users. The reply has their state at some time between the request and the reply.

        Only the thread that loads may call this. Returns None if the store cannot be asked now, or if the states may have more
        than `bytes_max` bytes; the caller then loads them. Raises nothing, because it is called in the middle of a step.
        """
        ...

    def request_due(self, task: int, due: DueQuery) -> PendingDueUsers | None:
        """Begin to read due users with their totals, like `request`."""
        ...

    def commit(self, commit: Commit) -> CommitOutcome:
        """Write a commit. Older epoch or other token: FENCED. Same number and token again: ALREADY. A gap: CONFLICT."""
        ...

    def view(
        self,
        tasks: Collection[int],
        since: Mapping[int, CommitMark],
        rows_from: Mapping[int, Mapping[str, int]] = NO_BOUNDS,
        tables: Collection[str] | None = None,
    ) -> Mapping[int, TaskView]:
        """Read committed state for display. Tasks without commits are absent, and tasks whose mark equals `since[task]`.

        `tables` are those to read; None: all. `rows_from[task]` may have a whole number for a table whose keys are whole numbers: earlier
        rows are not read. It is ignored if `since[task]` is of another claim or of a later commit: see `TaskView.is_snapshot`.
        Raises StateError if `since` has a mark and the task has no commit any more.
        """
        ...

    def announce(self, partitions: int) -> int | None:
        """Record how many tasks the namespace has, once. Returns the number that was recorded before; None: this is the first."""
        ...

    def partitions(self) -> int | None:
        """Return how many tasks the namespace has; None before the first announcement."""
        ...

    def compare_and_set(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Mapping[str, bytes]:
        """Change values of the namespace, each given as (expected, new); None: no value. Returns all values.

        A value that differs from the expected one stays as it is, so the first of two writers wins.
        """
        ...

    def clock_ms(self, task: int) -> int | None:
        """Return the time (epoch ms) of the server that holds a task; None if there is no server, or it does not say."""
        ...

    def ping(self) -> None:
        """Raise StoreError when the store cannot serve."""
        ...

    def nodes(self) -> tuple[StoreNode, ...]:
        """Return the status of each server that takes writes, by name; empty if there are no servers."""
        ...

    def close(self) -> None: ...


class BlobStore(Protocol):
    """One shared value for display, never an input of a result. The last writer wins. May raise StoreError and StateError."""

    def read(self) -> bytes | None:
        """Return the last written value; None before the first."""
        ...

    def write(self, value: bytes) -> None: ...

    def close(self) -> None: ...


class FieldStore(Protocol):
    """Named values that processes show each other, never an input of a result. May raise StoreError and StateError."""

    def read(self) -> Mapping[str, bytes]:
        """Return all values by name."""
        ...

    def change(self, changes: Mapping[str, bytes | None]) -> None:
        """Write values. None removes one."""
        ...
