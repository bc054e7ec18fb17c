"""The protocols that the runtime needs: a source of records, a store of state, a sink for dead letters, a clock.

No client is imported here. The other modules of this folder implement these protocols.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

from streammetrics.engine.stored_state import CommitMark, StateChanges, TaskView
from streammetrics.errors import StateError

NO_BOUNDS: Mapping[int, int | None] = MappingProxyType({})


class Input(NamedTuple):
    """One (topic, partition); the task that owns it is the partition number."""

    topic: str
    partition: int


class Record(NamedTuple):
    """One record of an input: its offset, the timestamp of the log (epoch ms, -1 if unknown), and its bytes."""

    offset: int
    timestamp_ms: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of one poll: records per input in offset order, and how task ownership changed before them.

    A task in `assigned` must be claimed first. The source keeps its inputs paused until `start` is called.
    """

    records: Mapping[Input, Sequence[Record]] = field(default_factory=dict)
    assigned: frozenset[int] = frozenset()
    revoked: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class SchemaWait:
    """How many inputs wait for a schema and, if the registry failed: since when (monotonic seconds), how often, and the last error."""

    inputs: int = 0
    since: float = 0.0
    failures: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """Whether a source answers, since when (monotonic seconds), how often its client was rebuilt, and the last error.

    `ends_asked` is when the source last asked for the ends of its inputs (monotonic seconds); None: they are always current. `schemas`
    is what its records wait for; None: it uses no schema registry.
    """

    reachable: bool = True
    since: float = 0.0
    rebuilds: int = 0
    last_error: str = ""
    ends_asked: float | None = None
    schemas: SchemaWait | None = None


class Source(Protocol):
    """Where records come from. Raises SourceError if it fails, and StateError if the log does not match the stored offsets."""

    @property
    def health(self) -> SourceHealth:
        """Whether the source can be reached. `poll` raises nothing while it waits for a broker to return."""
        ...

    def poll(self, timeout_s: float) -> PollResult: ...

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        """Return the inputs of a task: partition number `task` of every topic, in the configured order of the topics."""
        ...

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        """Seek each input of a claimed task to its offset (absent: where the configuration says) and resume it.

        Returns the offset of each input, to be committed with the first events. Returns nothing if the task has a new owner.
        """
        ...

    def pause(self, inputs: Collection[Input]) -> None: ...

    def resume(self, inputs: Collection[Input]) -> None: ...

    def ends(self) -> Mapping[Input, int]:
        """Return the last known end offset of every owned input. Asks the broker every few seconds at most."""
        ...

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        """Report committed offsets to the log, for lag tools only. Never waits and never fails."""
        ...

    def close(self) -> None: ...


class DeadLetter(NamedTuple):
    """A rejected event or record that can be read back: the reason, where it came from, its raw bytes, and the record's own timestamp.

    `timestamp_ms` is -1 if it is unknown.
    """

    reason: str
    detail: str
    input: Input
    offset: int
    value: bytes | None
    timestamp_ms: int = -1

    @property
    def key(self) -> str:
        """The identity of the letter: the same when it is written again after a crash.

        >>> DeadLetter("empty", "a record must hold an event", Input("feedback", 3), 17, None).key
        'feedback:3:17'
        """
        return f"{self.input.topic}:{self.input.partition}:{self.offset}"


class DeadLetterSink(Protocol):
    """Where dead letters are kept."""

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Write the letters durably before returning: acknowledged by the log, or in the file. Raises SourceError."""
        ...

    def close(self) -> None: ...


class CommitOutcome(enum.Enum):
    """A store's reply to a commit."""

    WRITTEN = "written"
    ALREADY = "already"
    FENCED = "fenced"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed task: the new epoch, the number of the last commit, and the state that it left.

    `control` is None for a task without commits. `panes` are those from `panes_from_ms` on that the last commit named,
    and `user_counts` the unique users of panes from `user_counts_from_ms` on. `pane_starts` names every stored pane, and
    `experiments` are the totals of all experiments.
    """

    epoch: int
    seq: int
    control: bytes | None
    panes: Mapping[int, bytes]
    pane_starts: tuple[int, ...]
    experiments: Mapping[str, bytes] = field(default_factory=dict)
    user_counts: Mapping[int, bytes] = field(default_factory=dict)


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

        >>> commit = Commit(task=0, epoch=2, token="mine", seq=8, changes=StateChanges(control=b"", panes_from_ms=0))
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


@dataclass(frozen=True, slots=True)
class LoadedUsers:
    """Users read from the store: the requested ones (absent: no state), those that are due, and when the next one is due.

    Due users come without state, because most of them are cached by the caller. `totals` are those of due users and of
    users whose totals were requested. `unread` are requested users that were not read because the others reached the byte limit.
    """

    users: Mapping[str, bytes]
    due: Sequence[str] = ()
    next_due_ms: int | None = None
    totals: Mapping[str, bytes] = field(default_factory=dict)
    unread: Sequence[str] = ()


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

    `evicts`: it may delete state when memory is short. `forgets`: it may be empty after a restart.
    """

    name: str
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    evicts: bool | None = None
    forgets: bool | None = None


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
        panes_from_ms: Mapping[int, int | None],
        user_counts_from_ms: Mapping[int, int | None] = NO_BOUNDS,
    ) -> Mapping[int, TaskView]:
        """Read committed state for display. Tasks without commits are absent, and tasks whose mark equals `since[task]`.

        `panes_from_ms[task]`: return panes with start >= it; None or absent: all stored panes. `user_counts_from_ms` is the same for
        unique users. Both are ignored if `since[task]` is of another claim or of a later commit: see `TaskView.is_snapshot`.
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


class Clock(Protocol):
    """The time. Passed in, so that tests control it."""

    def monotonic(self) -> float: ...

    def wall_ms(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...


class BlobStore(Protocol):
    """One shared value for display, never an input of a result. The last writer wins. May raise StoreError and StateError."""

    def read(self) -> bytes | None:
        """Return the last written value; None before the first."""
        ...

    def write(self, value: bytes) -> None: ...

    def close(self) -> None: ...
