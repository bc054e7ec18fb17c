"""One task of a worker: its assignment, backlog, dead letters, commits, input activity and retries. Does no I/O.

Dead letters are always written before the commit that counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import NamedTuple, ParamSpec, TypeVar

from streammetrics.connectors.dead_letters import DeadLetter, DeadLetterSink
from streammetrics.connectors.source import Input
from streammetrics.connectors.store import Claim, Commit, CommitOutcome
from streammetrics.engine.batch import RefusedEvent
from streammetrics.engine.task_state import TaskState
from streammetrics.runtime.consume.backlog import Backlog, Chunk
from streammetrics.runtime.consume.limits import CommitRoom, CommitSchedule, WorkerRules
from streammetrics.runtime.retry import RetryState

LETTERS_MAX = 1_000
"""Letters that wait for the next commit; more are written at once."""
LETTERS_BYTES_MAX = 16 << 20
"""Bytes that wait, so that a stream of large rejected records cannot fill the memory."""
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Assignment:
    """Which task this is, and under which claim its commits are made."""

    task: int
    inputs: tuple[Input, ...]
    token: str = ""
    epoch: int = 0
    seq: int = 0
    """Number of the last written commit."""
    claim_after_seconds: float = 0.0
    """Monotonic time before which a fenced task is not claimed again; 0 if it was not fenced."""

    def claimed(self, claim: Claim) -> None:
        self.epoch, self.seq = claim.epoch, claim.seq


@dataclass(slots=True)
class InputActivity:
    """Which inputs of a task are idle or paused, and when each one last brought an event. Inputs are topic indexes."""

    idle: frozenset[int] = frozenset()
    """Caught up and silent: these do not hold back the watermark."""
    paused: frozenset[Input] = frozenset()
    untimed: set[int] = field(default_factory=set)
    """Inputs that have records, but no event among the last ones that moves the watermark."""
    last_refusals: dict[int, str] = field(default_factory=dict)
    """Why the last refused event of each input in `untimed` was refused."""
    last_event_seconds: list[float] = field(default_factory=list)
    """Monotonic time of the last event of each input that moved the watermark, or of the claim."""
    ticked_seconds: float = 0.0
    """Monotonic time of the last idle check."""

    def restart(self, inputs: int, now_seconds: float) -> None:
        """Begin again, after a claim. The source has resumed all inputs, and their records may be read again."""
        self.idle, self.paused = frozenset(), frozenset()
        self.untimed.clear()
        self.last_refusals.clear()
        self.last_event_seconds = [now_seconds] * inputs

    def records_came(self, topic: int) -> None:
        """An input with unread records is not idle."""
        self.idle -= {topic}

    def batch_processed(self, topic: int, timed: int, now_seconds: float, last_refusal: str = "") -> None:
        """Note how many events of a batch can move the watermark, and why its last refused event was refused.

        Without an event that can, the input counts as silent.
        """
        if timed:
            self.last_event_seconds[topic] = now_seconds
            self.untimed.discard(topic)
            self.last_refusals.pop(topic, None)
        else:
            self.untimed.add(topic)
            self.last_refusals[topic] = last_refusal

    def pause(self, paused: frozenset[Input]) -> tuple[AbstractSet[Input], AbstractSet[Input]]:
        """Set the paused inputs; returns which ones to pause and which ones to resume."""
        before, self.paused = self.paused, paused
        return paused - before, before - paused


@dataclass(slots=True)
class PendingLetters:
    """Letters that are not written yet, and their size."""

    letters: list[DeadLetter] = field(default_factory=list)
    total_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.letters)

    def add(self, chunk: Chunk, origin: Input, rejected: Sequence[RefusedEvent]) -> None:
        """Add the rejected events of a chunk: one letter per record and reason, however many events the record holds."""
        if not rejected:
            return
        records = {record.offset: record for record in chunk.records}
        first_events = {(event.offset, event.reason): event for event in reversed(rejected)}
        for event in reversed(first_events.values()):
            record = records[event.offset]
            self.letters.append(DeadLetter(event.reason, event.detail, origin, event.offset, record.value, record.timestamp_ms))
            self.total_bytes += len(record.value or b"")

    @property
    def is_full(self) -> bool:
        return len(self.letters) > LETTERS_MAX or self.total_bytes > LETTERS_BYTES_MAX

    def write(self, sink: DeadLetterSink) -> int:
        """Write all letters and forget them; returns how many. Raises SourceError and keeps them."""
        written = len(self.letters)
        if written:
            sink.write(self.letters)
            self.clear()
        return written

    def clear(self) -> None:
        self.letters.clear()
        self.total_bytes = 0


class CommitReply(NamedTuple):
    """The store's reply to a commit, and how long it took."""

    outcome: CommitOutcome
    seconds: float


class InFlightCommit(NamedTuple):
    """A commit that was sent, the offsets that it commits, and the users that it deletes.

    `reply` is None while the commit waits to be sent, or to be sent again.
    """

    commit: Commit
    offsets: Mapping[Input, int]
    users_gone: frozenset[str]
    reply: Future[CommitReply] | None = None


@dataclass(slots=True)
class CommitProgress:
    """The commit of a task that is in flight, if any, and the last one that was written."""

    in_flight: InFlightCommit | None = None
    written_seconds: float = 0.0
    """Monotonic time of the last written commit, or of the claim."""
    has_written: bool = False
    """Whether a commit was written since the claim."""
    offsets: Mapping[Input, int] = field(default_factory=dict)
    """The next offset of each input, as the last written commit has it."""
    was_behind: bool = False
    """Whether records waited to be read when the last commit was made."""

    def restart(self, now_seconds: float, offsets: Mapping[Input, int]) -> None:
        """Begin again, after a claim that returned these offsets."""
        self.written_seconds, self.has_written, self.was_behind, self.offsets = now_seconds, False, False, offsets

    @property
    def awaits_reply(self) -> bool:
        """Whether a commit is in flight and does not wait to be sent again."""
        return self.in_flight is not None and self.in_flight.reply is not None

    @property
    def users_gone(self) -> frozenset[str]:
        """Users that the commit in flight deletes. The store returns them until that commit is written."""
        return frozenset() if self.in_flight is None else self.in_flight.users_gone

    def written(self, now_seconds: float, offsets: Mapping[Input, int]) -> None:
        self.written_seconds, self.has_written, self.offsets = now_seconds, True, offsets

    def is_due(self, rules: WorkerRules, schedule: CommitSchedule, now_seconds: float, is_behind: bool) -> bool:
        """Return whether enough time has passed for the next commit.

        The first commit after a claim is early because other workers wait for the task. So is the first one after a
        task has caught up, because its numbers did not move while it was behind.
        """
        if self.was_behind and not is_behind:
            return True
        if self.written_seconds >= schedule.last(now_seconds) and rules.commit_ms:
            return False
        passed_ms = (now_seconds - self.written_seconds) * 1_000
        return passed_ms >= rules.commit_behind_ms or not self.has_written or not is_behind


@dataclass(slots=True)
class OwnedTask:
    """A task that this worker owns. `state` is None until the task is claimed."""

    assignment: Assignment
    room: CommitRoom
    state: TaskState | None = None
    backlog: Backlog = field(default_factory=Backlog)
    letters: PendingLetters = field(default_factory=PendingLetters)
    commits: CommitProgress = field(default_factory=CommitProgress)
    activity: InputActivity = field(default_factory=InputActivity)
    retry: RetryState = field(default_factory=RetryState)

    @property
    def number(self) -> int:
        return self.assignment.task

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.assignment.inputs

    @property
    def has_changes(self) -> bool:
        """Whether the next commit has anything to write."""
        return self.state is not None and (self.state.changed or bool(self.letters))

    @property
    def has_uncommitted(self) -> bool:
        return self.commits.in_flight is not None or self.has_changes

    def is_behind(self, ends: Mapping[Input, int]) -> bool:
        """Return whether records wait to be read, as far as the ends are known."""
        return self.state is not None and any(
            ends.get(origin, 0) > (offset or 0) for origin, offset in zip(self.inputs, self.state.progress.offsets, strict=True)
        )

    def next_offsets(self, state: TaskState) -> dict[Input, int]:
        """Return the next offset of each input that has one."""
        return {origin: offset for origin, offset in zip(self.inputs, state.progress.offsets, strict=True) if offset is not None}

    def claimed(self, claim: Claim, state: TaskState, now_seconds: float) -> None:
        """Start from the state of a new claim."""
        self.assignment.claimed(claim)
        self.state, self.room = state, CommitRoom(self.room.rules)
        self.backlog.clear()
        self.letters.clear()
        self.commits.restart(now_seconds, self.next_offsets(state))
        self.activity.restart(len(self.inputs), now_seconds)

    def drop_uncommitted(self) -> None:
        """Drop the state and everything that is not committed. The next owner reads it again."""
        self.state = None
        self.backlog.clear()
        self.letters.clear()


class InlineExecutor(Executor):
    """Runs each call before `submit` returns: for a store in this process, where no call waits."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # like any executor: the caller of `result` gets it
            future.set_exception(error)
        return future
