"""What a worker holds: how it paces itself, its tasks with what they still have to do and the commits on their way, and how long
it waits after a failure."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import NamedTuple, ParamSpec, TypeVar

import structlog

from streammetrics.connectors.base import Commit, CommitOutcome, DeadLetter, DueBefore, Input, PendingDueUsers, PendingUsers, Record
from streammetrics.engine.ingest import Batch, Decoded, users_of
from streammetrics.engine.task_state import TaskState
from streammetrics.runtime.status import Trouble
from streammetrics.runtime.user_sizes import UserSizes

CALM_SECONDS = 5.0
"""So long must all go well before it counts as mended."""

log = structlog.get_logger("streammetrics.runtime.owned_task")

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRules:
    """How the loop paces itself; nothing here changes a result but `idle_ms`, which decides when an input is idle."""

    commit_ms: int = 1_000
    commit_behind_ms: int = 3_000
    """The time between commits while records wait to be read, if that is longer."""
    commit_users_max: int = 8_000
    """How many users of the stream a commit takes; as many again, whose sessions may have ended, are looked at with it. Fewer of both
    where their totals would make it larger than `commit_bytes_max`, by those of the last commit."""
    commit_bytes_max: int = 32 << 20
    """How many bytes the records of a commit, and the large users whom they concern, have; a single record may be more. So many bytes
    again of users whose sessions may have ended are looked at with it."""
    cached_users_max: int = 200_000
    cached_bytes_max: int = 256 << 20
    """How many bytes of stored state the large users kept in memory may have."""
    idle_ms: int | None = 30_000
    out_of_orderness_ms: int = 5_000
    skew_ms_max: int = 3_600_000
    fenced_wait_seconds: float = 10.0
    retry_seconds_max: float = 0.0
    """How long the world may fail before the worker gives up; 0 means for ever."""

    def due_wanted(self, before_ms: int | None, users_max: int) -> DueBefore | None:
        """The users that are looked at with a commit because they are due; None: nobody is asked for."""
        return None if before_ms is None else DueBefore(before_ms, users_max, self.commit_bytes_max)

    def users_max(self, totals_bytes: int) -> int:
        """How many users a commit takes when the totals of each, which are written anew, have so many bytes.

        >>> WorkerRules().users_max(2_000), WorkerRules().users_max(100_000)
        (8000, 335)
        """
        return max(1, min(self.commit_users_max, self.commit_bytes_max // max(1, totals_bytes)))


class Backoff:
    """Waiting times that double up to a cap; of each, half is left to chance, so that workers do not come back all at once."""

    def __init__(self, first_seconds: float = 0.1, cap_seconds: float = 5.0) -> None:
        self._first, self._cap = first_seconds, cap_seconds

    def delay(self, failures: int) -> float:
        return random.uniform(0.5, 1.0) * min(self._cap, self._first * 2.0 ** min(failures - 1, 30))


class Outage:
    """Something of the world that fails, told of in two lines: when that begins, and when all has been well for CALM_SECONDS.

    In a network that flaps, each failure and each success between two of them would else be a line.
    """

    def __init__(self, where: str) -> None:
        self.trouble: Trouble | None = None
        """What fails now: None from the first success on."""
        self._where = where
        self._failures = 0
        self._well_from = 0.0

    def failed(self, error: Exception, now_seconds: float, retry_seconds_max: float) -> None:
        """Count one more failure; give up (raise the error) after so long without a success, 0 means never."""
        if not self._failures:
            log.warning(f"{self._where} unavailable, trying again", error=str(error))
        known = self.trouble or Trouble(now_seconds, 0, "")
        if retry_seconds_max and now_seconds - known.since_seconds > retry_seconds_max:
            raise error
        self.trouble = Trouble(known.since_seconds, known.failures + 1, str(error))
        self._failures += 1

    def well(self, now_seconds: float) -> None:
        """Nothing fails now. To be called again and again: the end is told by a later call."""
        if self.trouble is not None:
            self.trouble, self._well_from = None, now_seconds
        elif self._failures and now_seconds - self._well_from > CALM_SECONDS:
            log.info(f"{self._where} available again", failures=self._failures)
            self._failures = 0


class Chunk(NamedTuple):
    """Some records of one input that a step takes: decoded, and as they came for the dead letters."""

    records: Sequence[Record]
    arrived: Batch
    sizes: Sequence[int]
    """Of each record, in bytes."""
    total_bytes: int

    @classmethod
    def of(cls, topic: int, records: Sequence[Record], decoded: Sequence[Decoded]) -> Chunk:
        sizes = [len(record[2] or b"") for record in records]
        return cls(records, Batch(topic, decoded, records[-1].offset + 1), sizes, sum(sizes))

    def cut(self, count: int) -> tuple[Chunk | None, Chunk]:
        """The first so many records, fewer than there are, and the rest; None for no record."""
        topic, decoded = self.arrived.topic, self.arrived.records
        first = Chunk.of(topic, self.records[:count], decoded[:count]) if count else None
        return first, Chunk.of(topic, self.records[count:], decoded[count:])

    def joined(self, following: Chunk) -> Chunk:
        """This chunk and the one that it was cut from."""
        decoded = [*self.arrived.records, *following.arrived.records]
        return Chunk.of(self.arrived.topic, [*self.records, *following.records], decoded)


class CommitReply(NamedTuple):
    """What the store said to a commit, and how long it took."""

    outcome: CommitOutcome
    seconds: float


class InFlightCommit(NamedTuple):
    """A commit on its way, and what holds once it is written: offsets up to which all is read, users of whom nothing is left.

    `answer` is None while the commit waits to be sent again.
    """

    commit: Commit
    offsets: Mapping[Input, int]
    gone: frozenset[str]
    answer: Future[CommitReply] | None = None


class Prefetched(NamedTuple):
    """A chunk that comes later, decoded while another is taken, and those of its users whom the store was asked for then.

    Without those who were asked for with a chunk before it, and those whom a commit has written since. `answer` is None where nobody
    could be asked for.
    """

    chunk: Chunk
    users: AbstractSet[str]
    answer: PendingUsers | None


class InlineExecutor(Executor):
    """Runs what it is given before it returns: for a store in this process, which makes nobody wait."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # as an executor does: whoever asks for the result gets it
            future.set_exception(error)
        return future


@dataclass(slots=True)
class OwnedTask:
    """One owned task: None for `state` until it is claimed."""

    task: int
    inputs: tuple[Input, ...]
    claim_after: float = 0.0
    token: str = ""
    epoch: int = 0
    seq: int = 0
    state: TaskState | None = None
    backlog: deque[tuple[int, Sequence[Record]]] = field(default_factory=deque)
    """The index of a topic, and some records of it as they came, in the order in which steps take them."""
    letters: list[DeadLetter] = field(default_factory=list)
    weights: UserSizes = field(default_factory=UserSizes)
    sent: InFlightCommit | None = None
    ahead: deque[Prefetched] = field(default_factory=deque)
    """What is known of the chunks after the one at hand, as they stand in the backlog."""
    due_prefetched: PendingDueUsers | None = None
    """The store was asked who is due, while a step was taken; the next one looks at them."""
    failing: str = ""
    """What of the world it waits for: the store or the source; none when all is well."""
    failures: int = 0
    retry_at: float = 0.0
    users_max: int = 0
    """How many users the next commit takes, by `WorkerRules.users_max`."""
    committed_seconds: float = 0.0
    has_committed: bool = False
    """Since it was claimed."""
    was_behind: bool = False
    """Whether records waited to be read when the last commit was made."""
    ticked_seconds: float = 0.0
    last_event_seconds: dict[Input, float] = field(default_factory=dict)
    """When each input last brought an event that counts for its time."""
    untimed: set[int] = field(default_factory=set)
    """The inputs, by topic index, whose last records held no such event."""
    idle: frozenset[int] = frozenset()
    paused: frozenset[Input] = frozenset()

    def forget(self) -> None:
        """Nothing waits to be taken or written any more."""
        self.backlog.clear()
        self.ahead.clear()
        self.due_prefetched = None
        self.letters.clear()

    @property
    def awaits_answer(self) -> bool:
        """Whether a commit is on its way, and does not wait to be sent again."""
        return self.sent is not None and self.sent.answer is not None

    def is_behind(self, ends: Mapping[Input, int]) -> bool:
        """Whether records wait to be read, as far as the ends are known."""
        return self.state is not None and any(
            ends.get(origin, 0) > (offset or 0) for origin, offset in zip(self.inputs, self.state.offsets, strict=True)
        )


def fitting(chunk: Chunk, weights: UserSizes, dirty: AbstractSet[str], users_max: int, bytes_max: int) -> tuple[Chunk | None, Chunk | None]:
    """As much of a chunk as the next commit has room for, beside what was taken for it, and the rest of it; noted as taken.

    A commit has room for so many users and bytes, and for one record whatever it holds. What a record adds to it is at most its own
    bytes, and once for each user the state that is written anew.
    """
    sizes, users = chunk.sizes, chunk.arrived.users
    taken_bytes = chunk.total_bytes
    fits = len(dirty) + len(users) <= users_max and weights.taken_bytes + taken_bytes + weights.total_bytes <= bytes_max
    if not fits:  # usually it does, whoever they are
        room = bytes_max - weights.taken_bytes - weights.of(dirty)
        users = users - dirty
        fits = len(dirty) + len(users) <= users_max and taken_bytes + weights.of(users) <= room
    if fits:
        weights.taken_bytes += taken_bytes
        return chunk, None
    empty, seen = not (dirty or weights.taken_bytes), set(dirty)
    for count, (size, record) in enumerate(zip(sizes, chunk.arrived.records, strict=True)):
        users = users_of((record,)) - seen
        seen |= users
        room -= size + weights.of(users)
        if (len(seen) > users_max or room < 0) and not (empty and count == 0):
            weights.taken_bytes += sum(sizes[:count])
            return chunk.cut(count)
    weights.taken_bytes += taken_bytes
    return chunk, None
