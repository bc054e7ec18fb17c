"""The commits of one task: the one in flight, when the last one was written, and whether the next one is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import NamedTuple, ParamSpec, TypeVar

from streammetrics.connectors.source import Input
from streammetrics.connectors.store import Commit, CommitOutcome
from streammetrics.runtime.consume.rules import WorkerRules

P = ParamSpec("P")
T = TypeVar("T")


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

    def is_due(self, rules: WorkerRules, now_seconds: float, is_behind: bool) -> bool:
        """Return whether enough time has passed for the next commit.

        The first commit after a claim is early because other workers wait for the task. So is the first one after a
        task has caught up, because its numbers did not move while it was behind.
        """
        if self.was_behind and not is_behind:
            return True
        passed_ms = (now_seconds - self.written_seconds) * 1_000
        if passed_ms < rules.commit_ms:
            return False
        return passed_ms >= rules.commit_behind_ms or not self.has_written or not is_behind


class InlineExecutor(Executor):
    """Runs each call before `submit` returns: for a store in this process, where no call waits."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # like any executor: the caller of `result` gets it
            future.set_exception(error)
        return future
