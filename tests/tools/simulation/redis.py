"""Simulated Redis: the product's memory store behind a bad network, which may lose what it has acknowledged, or evict keys."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping

from streammetrics.connectors.source import Input
from streammetrics.connectors.store import NO_BOUNDS, Claim, Commit, CommitOutcome
from streammetrics.engine.task_state import decode_control
from streammetrics.errors import StateError, StoreError
from streammetrics.state.tables import CommitMark, TaskView
from tests.support.faults import FaultyStore
from tests.tools.simulation.fate import Fate


class SimulatedRedis(FaultyStore):
    """The store of all processes. `meanwhile` lets something else happen in the middle of a call."""

    def __init__(self, fate: Fate, meanwhile: Callable[[], None]) -> None:
        super().__init__(fate.chance)
        self._fate, self._meanwhile = fate, meanwhile
        self.evicted: set[int] = set()
        """Tasks of which a key is missing."""
        self.has_evicted = False
        """Whether it had evicted keys before an operator deleted everything. A process may learn of them later."""
        self.losses = 0
        """How often written commits were lost."""
        self._reached: dict[Input, int] = {}
        self._in_commit = False

    @contextlib.contextmanager
    def _network(self, task: int) -> Iterator[None]:
        is_commit, self._in_commit = self._in_commit, False
        self._meanwhile()
        if task in self.unreachable:
            raise StoreError(f"no server answers for task {task}")
        if not is_commit:  # commits are sent in a thread of their own
            self._fate.may_die()
        if self._fate.strikes("a request to the store is lost"):
            raise StoreError("the request was lost")
        if task in self.evicted:
            raise StateError(f"keys of task {task} are missing")
        yield
        if self._fate.strikes("a reply of the store is lost"):
            raise StoreError("the reply was lost")

    def claim(self, task: int, token: str) -> Claim:
        claim = super().claim(task, token)
        self._fate.may_die()
        return claim

    def commit(self, commit: Commit) -> CommitOutcome:
        if self._fate.strikes("another process claims the task"):
            self.steal(commit.task, f"thief-{self._fate.seen.total()}")
        before = self._inner.view([commit.task], {}).get(commit.task)
        self._in_commit = True
        try:
            return super().commit(commit)
        finally:
            self._in_commit = False
            self._check(commit, before)

    def _check(self, commit: Commit, before: TaskView | None) -> None:
        """Note the offsets of a written commit, and check that its watermark does not go back."""
        after = self._inner.view([commit.task], {}).get(commit.task)
        if after is None or after.control is not commit.changes.control:
            return
        control = decode_control(after.control)
        for topic, offset in zip(control.topics, control.progress.offsets, strict=True):
            place = Input(topic, commit.task)
            self._reached[place] = max(self.reached(place), offset or 0)
        if before is not None:
            former = decode_control(before.control).progress.watermark
            assert former <= control.progress.watermark, f"the watermark of task {commit.task} has gone back"

    def reached(self, place: Input) -> int:
        """Return the greatest offset of an input that was ever committed."""
        return self._reached.get(place, 0)

    def committed(self) -> Mapping[int, TaskView]:
        """Return the committed state of all tasks, without faults."""
        return self._inner.view(range(self._inner.partitions() or 0), {})

    def fail_over(self, task: int, count: int) -> None:
        """Lose the last claims and commits of a task, and now and then all values of the namespace."""
        self.losses += 1
        self.forget_last(task, count)
        if self._fate.chance.random() < 0.2:
            self._lose_values()

    def _lose_values(self) -> None:
        self._inner.compare_and_set({name: (value, None) for name, value in self._inner.compare_and_set({}).items()})

    def flush(self) -> None:
        """Delete everything, as an operator does after keys were evicted."""
        self.losses += 1
        for task in range(self._inner.partitions() or 0):
            self.forget_last(task, 1 << 30)
        self._lose_values()
        self.has_evicted |= bool(self.evicted)
        self.evicted.clear()

    def view(
        self,
        tasks: Collection[int],
        since: Mapping[int, CommitMark],
        rows_from: Mapping[int, Mapping[str, int]] = NO_BOUNDS,
        tables: Collection[str] | None = None,
    ) -> Mapping[int, TaskView]:
        views: dict[int, TaskView] = {}
        for task in tasks:
            with self._network(task):
                views |= super().view([task], since, rows_from, tables)
        return views

    def compare_and_set(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Mapping[str, bytes]:
        with self._network(-1):
            return super().compare_and_set(changes)
