"""Tracks which tasks this process owns. The group decides it on the client's I/O thread; the consumer loop learns it in `poll`.

On the I/O thread the listener only seeks, pauses and sets flags, because nothing else is safe there. All of it happens under one lock.
A task that has just changed hands therefore cannot be started or resumed with outdated offsets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from kafka import ConsumerRebalanceListener

log = structlog.get_logger("streammetrics.kafka")


class TaskAssignment(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
    """The tasks of one client. `hold` is called with every newly assigned partition and must keep it from being read.

    A task is first assigned by the group, then granted (`poll` has returned it), then flowing (it was started). A revocation ends all
    three at once. A task that stays with this process through a rebalance is revoked and granted again.
    """

    def __init__(self, topics: Collection[str], hold: Callable[[Any], None]) -> None:
        self._topics = frozenset(topics)
        self._hold = hold
        self._lock = threading.RLock()
        self._revoked: set[int] = set()
        self._assigned: set[int] = set()
        self._granted: set[int] = set()
        self._flowing: set[int] = set()
        self._split: set[int] = set()
        """Tasks of which this client has some topics, and another member has the others."""

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        with self._lock:
            topics_of: dict[int, set[str]] = {}
            for place in assigned:
                self._hold(place)
                topics_of.setdefault(place.partition, set()).add(place.topic)
            whole = {task for task, topics in topics_of.items() if topics == self._topics}
            self._split = topics_of.keys() - whole
            if partial := sorted(self._split):
                log.warning(
                    "the group split the topics of a task between members, so no member can read it: do all members read the same topics?",
                    tasks=partial,
                )
            self._end(whole & self._granted)
            self._assigned |= whole

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        with self._lock:
            self._end({place.partition for place in revoked})

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.on_partitions_revoked(lost)

    def _end(self, tasks: set[int]) -> None:
        self._split -= tasks
        self._assigned -= tasks
        self._revoked |= tasks & self._granted
        self._granted -= tasks
        self._flowing -= tasks

    def take(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the tasks (revoked, assigned) since the last call. A task in both was revoked and then assigned again."""
        with self._lock:
            revoked, assigned = frozenset(self._revoked), frozenset(self._assigned)
            self._granted |= assigned
            self._revoked, self._assigned = set(), set()
            return revoked, assigned

    def end_all(self) -> None:
        """Revoke all tasks, because their client is closed."""
        with self._lock:
            self._end(self._granted | self._assigned)

    def start(self, task: int) -> bool:
        """Mark a task as flowing. Returns False if it has changed hands since it was granted. Call it within `locked`."""
        with self._lock:
            if task in self._granted:
                self._flowing.add(task)
            return task in self._granted

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep tasks from changing hands meanwhile, so that they can be sought and resumed safely."""
        with self._lock:
            yield

    @property
    def granted(self) -> frozenset[int]:
        with self._lock:
            return frozenset(self._granted)

    @property
    def split(self) -> frozenset[int]:
        with self._lock:
            return frozenset(self._split)

    @property
    def flowing(self) -> frozenset[int]:
        with self._lock:
            return frozenset(self._flowing)
