"""Who owns which task, as the consumer group decides it on the client's I/O thread and the service learns it in `poll`.

The listener does the only things that are safe on that thread: seek, pause and set flags, each under one lock, so that a
task which changed hands a moment ago can neither be started nor resumed with what was known before.
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
    """The tasks of one client. `hold` is called with every newly assigned partition: it must stop it from flowing.

    A task passes through: assigned by the group, then granted (the service was told), then flowing (the service started
    it). A revocation ends all three at once. A task kept through a rebalance is revoked and granted anew.
    """

    def __init__(self, topics: Collection[str], hold: Callable[[Any], None]) -> None:
        self._topics = frozenset(topics)
        self._hold = hold
        self._lock = threading.RLock()
        self._lost: set[int] = set()
        self._gained: set[int] = set()
        self._granted: set[int] = set()
        self._flowing: set[int] = set()

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        with self._lock:
            topics_of: dict[int, set[str]] = {}
            for place in assigned:
                self._hold(place)
                topics_of.setdefault(place.partition, set()).add(place.topic)
            whole = {task for task, topics in topics_of.items() if topics == self._topics}
            if partial := sorted(topics_of.keys() - whole):
                log.warning(
                    "some topics of a task went to another member, so nobody can work on it: do all members read the same topics?",
                    tasks=partial,
                )
            self._end(whole & self._granted)
            self._gained |= whole

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        with self._lock:
            self._end({place.partition for place in revoked})

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.on_partitions_revoked(lost)

    def _end(self, tasks: set[int]) -> None:
        self._gained -= tasks
        self._lost |= tasks & self._granted
        self._granted -= tasks
        self._flowing -= tasks

    def take(self) -> tuple[frozenset[int], frozenset[int]]:
        """The tasks (revoked, assigned) since the last call. A task may be in both: lost, then given back."""
        with self._lock:
            lost, gained = frozenset(self._lost), frozenset(self._gained)
            self._granted |= gained
            self._lost, self._gained = set(), set()
            return lost, gained

    def end_all(self) -> None:
        """All tasks are gone, because their client is."""
        with self._lock:
            self._end(self._granted | self._gained)

    def start(self, task: int) -> bool:
        """Whether the task may flow: false if it has changed hands since it was granted. Call it within `unchanging`."""
        with self._lock:
            if task in self._granted:
                self._flowing.add(task)
            return task in self._granted

    @contextmanager
    def unchanging(self) -> Iterator[None]:
        """Within this, nothing changes hands: for seeking and resuming what has just been found to be ours."""
        with self._lock:
            yield

    @property
    def granted(self) -> frozenset[int]:
        with self._lock:
            return frozenset(self._granted)

    @property
    def flowing(self) -> frozenset[int]:
        with self._lock:
            return frozenset(self._flowing)
