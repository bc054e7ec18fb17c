"""One task of a worker: its assignment, backlog, dead letters, commits, input activity and retries. Does no I/O."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from streammetrics.connectors.source import Input
from streammetrics.connectors.store import Claim
from streammetrics.engine.task_state import TaskState
from streammetrics.runtime.consume.backlog import Backlog
from streammetrics.runtime.consume.commit_room import CommitRoom
from streammetrics.runtime.consume.commits import CommitProgress
from streammetrics.runtime.consume.pending_letters import PendingLetters
from streammetrics.runtime.consume.rival_groups import new_claim_token
from streammetrics.runtime.retry import RetryState


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

    def new_token(self, group_id: str) -> str:
        """Make the token for the next claim, by a worker of this consumer group."""
        self.token = new_claim_token(secrets.token_hex(8), group_id)
        return self.token

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
