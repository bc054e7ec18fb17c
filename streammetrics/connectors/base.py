"""What the service asks of the world, as protocols: a source of records, a store of state. No client is imported here."""

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
    """One record of an input: its place, when the log took it (epoch ms, -1 where unknown), and its bytes."""

    offset: int
    timestamp_ms: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class PollResult:
    """What one poll brought: records per input in offset order, and how ownership of tasks changed before them.

    A task in `assigned` must be claimed and its inputs sought before their records arrive: the source keeps newly
    assigned inputs paused until `start`.
    """

    records: Mapping[Input, Sequence[Record]] = field(default_factory=dict)
    assigned: frozenset[int] = frozenset()
    revoked: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """Whether a source answers, since when that is so (monotonic seconds), how often its client was rebuilt, the last error.

    `looked` is when the ends of the inputs were last asked for (monotonic seconds); None: they are always up to date.
    """

    reachable: bool = True
    since: float = 0.0
    rebuilds: int = 0
    last_error: str = ""
    looked: float | None = None


class Source(Protocol):
    """Where records come from. Raises SourceError when the world fails, StateError when the log's history does not fit."""

    @property
    def health(self) -> SourceHealth:
        """Whether records can come at all: a source that waits for a broker to return raises nothing."""
        ...

    def poll(self, timeout_s: float) -> PollResult: ...

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        """The inputs of a task: partition number `task` of every topic, in the configured order of the topics."""
        ...

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        """Seek each input of a claimed task to its offset (absent: where the configuration says) and let it flow.

        Returns where each input now stands, to be committed with the first events; nothing if the task has changed hands.
        """
        ...

    def pause(self, inputs: Collection[Input]) -> None: ...

    def resume(self, inputs: Collection[Input]) -> None: ...

    def ends(self) -> Mapping[Input, int]:
        """The end offset of every owned input, as last known; asks the broker at most every few seconds."""
        ...

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        """Tell the log what has been committed, for lag tools only; never waits, never fails."""
        ...

    def close(self) -> None: ...


class DeadLetter(NamedTuple):
    """What was refused, for somebody to read back: why, from where, and the raw bytes."""

    reason: str
    detail: str
    input: Input
    offset: int
    value: bytes | None

    @property
    def key(self) -> str:
        """What names it, the same for a letter that is written again after a crash.

        >>> DeadLetter("empty", "a record must hold an event", Input("feedback", 3), 17, None).key
        'feedback:3:17'
        """
        return f"{self.input.topic}:{self.input.partition}:{self.offset}"


class DeadLetters(Protocol):
    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Keep the letters for good before returning (acknowledged by the log, or in the file). Raises SourceError."""
        ...

    def close(self) -> None: ...


class CommitOutcome(enum.Enum):
    """What a store says to a commit."""

    WRITTEN = "written"
    ALREADY = "already"
    FENCED = "fenced"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Claim:
    """A task taken over: the new epoch, the sequence number of the last commit, and the state that commit left.

    `control` is None for a task that was never committed. `panes` are those with start >= the `panes_from_ms` that the
    control bytes were stored with, `reaches` the users of panes from `reaches_from_ms` on; `pane_starts` names every stored pane.
    `experiments` are all cells of experiments.
    """

    epoch: int
    seq: int
    control: bytes | None
    panes: Mapping[int, bytes]
    pane_starts: tuple[int, ...]
    experiments: Mapping[str, bytes] = field(default_factory=dict)
    reaches: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a task: its number, and by which claim it is made."""

    task: int
    epoch: int
    token: str
    seq: int
    changes: StateChanges

    def judge(self, epoch: int, token: str | None, seq: int) -> CommitOutcome:
        """What every store says to it whose task has this epoch (0: never claimed), owner and last commit; WRITTEN: it may be.

        >>> commit = Commit(task=0, epoch=2, token="mine", seq=8, changes=StateChanges(control=b"", panes_from_ms=0))
        >>> [commit.judge(2, "mine", seq).value for seq in (6, 7, 8)]
        ['conflict', 'written', 'already']
        >>> commit.judge(2, "another's", 7).value, commit.judge(3, "another's", 7).value
        ('fenced', 'fenced')

        A store that has lost the claim itself, with the end of what it had written or with all of it, must be read again:

        >>> commit.judge(1, "mine", 7).value, commit.judge(0, None, 0).value
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
"""How many users are read at a time, before a look at how large they are."""


class DueBefore(NamedTuple):
    """Who is wanted because he is due before `ms`, the earliest first: READ_SLICE users at a time, as many as `users_max`, or until their
    states and totals have `bytes_max` bytes."""

    ms: int
    users_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class LoadedUsers:
    """Users read from the store: those asked for (absent: no state), who is due, and when the next one is.

    Of who is due no states come: most are at hand where they are asked about. `totals` are those of the users that were asked for by
    them, and of the users that are due. `unread` are those asked for of whom nothing is known yet, because the others were as large as
    was wanted.
    """

    users: Mapping[str, bytes]
    due: Sequence[str] = ()
    next_due_ms: int | None = None
    totals: Mapping[str, bytes] = field(default_factory=dict)
    unread: Sequence[str] = ()


PendingUsers: TypeAlias = Callable[[], Mapping[str, bytes] | None]
"""Waits for what a store was asked, and tells it; None where it was lost on the way. Raises StoreError where it does not come."""
PendingDueUsers: TypeAlias = Callable[[], LoadedUsers | None]
"""Tells likewise who is due."""


def lost_view(task: int) -> StateError:
    """What every store says to a reader who knows a commit of a task of which nothing is committed any more."""
    return StateError(
        f"the store has lost all state of task {task}, which was shown: it was flushed, or the namespace deleted",
        "start again to show what is counted anew; if that was not meant, restore a backup first",
    )


class StoreNode(NamedTuple):
    """One server of a store, and how safe state is there; None for what it would not say. A limit of 0 bytes is none.

    `evicts`: it may delete state when memory is short. `forgets`: a restart may begin empty.
    """

    name: str
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    evicts: bool | None = None
    forgets: bool | None = None


class Store(Protocol):
    """Where state lives. Every method may raise StoreError (try again) and nothing else that is the world's fault."""

    def claim(self, task: int, token: str) -> Claim:
        """Raise the task's epoch, set its owner token, and return what the last commit left."""
        ...

    def load(
        self,
        task: int,
        users: Collection[str],
        due: DueBefore | None = None,
        totals: Collection[str] = (),
        bytes_max: int | None = None,
    ) -> LoadedUsers:
        """Read users, the totals of others, and who is due with his totals, in one round trip.

        Users are read in the order in which they are given, READ_SLICE at a time, until their states have `bytes_max` bytes; None: all.
        """
        ...

    def request(self, task: int, users: Collection[str], bytes_max: int | None = None) -> PendingUsers | None:
        """Begin to read users, as they are now or will be by the time when that is told; only the thread that loads may ask.

        None where they cannot be asked for so, perhaps because their states may have more than `bytes_max` bytes, or because nobody
        answers: whoever is not told loads them. Raises nothing, for it is asked in the middle of a step.
        """
        ...

    def request_due(self, task: int, due: DueBefore) -> PendingDueUsers | None:
        """Begin to read who is due, with his totals; as `request` does."""
        ...

    def commit(self, commit: Commit) -> CommitOutcome:
        """Write a commit: older epoch or another token -> FENCED; same seq and token again -> ALREADY; gap -> CONFLICT."""
        ...

    def view(
        self,
        tasks: Collection[int],
        since: Mapping[int, CommitMark],
        panes_from_ms: Mapping[int, int | None],
        reaches_from_ms: Mapping[int, int | None] = NO_BOUNDS,
    ) -> Mapping[int, TaskView]:
        """Read committed state for display. A task whose mark equals `since[task]`, or that was never committed, is absent.

        `panes_from_ms[task]`: panes with start >= it are returned; None or absent: all that are stored. So with `reaches_from_ms`.
        Where `since[task]` is of another claim, or of a later commit, the bounds do not count: see `TaskView.is_snapshot`. Raises StateError
        where there is a mark, and nothing committed any more.
        """
        ...

    def announce(self, partitions: int) -> int | None:
        """Record how many tasks the namespace has, once; returns the number recorded before (None: this is the first)."""
        ...

    def partitions(self) -> int | None:
        """How many tasks the namespace has, or None before the first announcement."""
        ...

    def compare_and_set(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Mapping[str, bytes]:
        """Change values of the namespace, each from what it was to what it shall be, None for not at all; returns all there are.

        A value that is not what it was said to be stays: of two who change the same one, the first one counts, whoever asks.
        """
        ...

    def clock_ms(self, task: int) -> int | None:
        """What the clock says (epoch ms) of the server that has a task; None where there is none, or it does not say."""
        ...

    def ping(self) -> None:
        """Raise StoreError when the store cannot serve."""
        ...

    def nodes(self) -> tuple[StoreNode, ...]:
        """What each server of the store that takes writes says of itself, by name; nothing where there are none."""
        ...

    def close(self) -> None: ...


class Clock(Protocol):
    """Time as a value, so that tests own it."""

    def monotonic(self) -> float: ...

    def wall_ms(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...


class BlobStore(Protocol):
    """A place for bytes that are shown and never computed from; the last writer counts. May raise StoreError and StateError."""

    def read(self) -> bytes | None:
        """What was written last; None before the first."""
        ...

    def write(self, value: bytes) -> None: ...

    def close(self) -> None: ...
