"""Claims a task: takes over its ownership in the store, restores its state, and starts its inputs.

If workers of another consumer group use the same namespace, the two groups would take each task from the other for ever. The token of a
claim ends with the consumer group of its worker, so a fenced worker learns which group took the task. A single case is a changed
`kafka.group_id`: the workers of the former group stop, and it does not happen again.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Sequence
from typing import Final

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.source import Input, LogIds, Source
from streammetrics.connectors.store import Store
from streammetrics.engine.engine import Engine
from streammetrics.engine.task_state import TaskState
from streammetrics.errors import StateError
from streammetrics.runtime.consume.limits import WorkerRules
from streammetrics.runtime.consume.owned_task import OwnedTask

TIMES_MIN: Final = 2
"""Tasks taken by another group within RECENT_SECONDS, before it is a conflict."""
RECENT_SECONDS: Final = 120.0
log = structlog.get_logger("streammetrics.runtime.consume.claims")


class Claims:
    """Claims the tasks of one worker. `logs` says which logs its source reads.

    `group_id` is the consumer group of this worker; it is stored with each claim.
    """

    def __init__(self, engine: Engine, source: Source, store: Store, clock: Clock, rules: WorkerRules, logs: LogIds, group_id: str) -> None:
        self._engine, self._source, self._store, self._clock, self._rules = engine, source, store, clock, rules
        self._logs, self._group_id = logs, group_id

    def is_allowed(self, task: OwnedTask) -> bool:
        """Return whether this worker may claim the task now.

        A worker that cannot reach Kafka does not learn that a task has a new owner, and each of its claims would fence
        that owner. A fenced worker therefore waits until the group must have informed it, counted from when Kafka answers again.
        """
        health, claim_after = self._source.health, task.assignment.claim_after_seconds
        if not claim_after:
            return health.reachable
        informed_by = max(claim_after, health.since + self._rules.fenced_wait_seconds)
        return health.reachable and self._clock.monotonic() >= informed_by

    def claim(self, task: OwnedTask) -> Sequence[Input] | None:
        """Claim a task and start its inputs. Returns those that do not start at a stored offset; None if it has a new owner.

        Raises StoreError and SourceError, and StateError if the stored state does not belong to these topics or rules.
        """
        assignment = task.assignment
        assignment.token = new_claim_token(secrets.token_hex(8), self._group_id)
        claim = self._store.claim(task.number, assignment.token)
        if claim.control is None and assignment.seq:
            raise StateError(
                f"the store has lost all state of task {task.number}, after {assignment.seq} written commits",
                "restore it and start again, or start again without it to count from where kafka.start says",
            )
        state = self._engine.open(claim.control, claim.rows, claim.older)
        if state.changed:
            log.warning("experiments were switched on or off: their users' totals are dropped", task=task.number)
        self._check_logs(state)
        stored = {origin: offset for origin, offset in zip(task.inputs, state.progress.offsets, strict=True) if offset is not None}
        starts = self._source.start(task.number, stored)
        if not starts:
            return None
        state.progress.offsets = [starts[origin] for origin in task.inputs]
        task.claimed(claim, state, self._clock.monotonic())
        return [origin for origin in task.inputs if starts[origin] != stored.get(origin)]

    def _check_logs(self, state: TaskState) -> None:
        """Refuse other logs than those of the stored offsets. An id that the broker does not give leaves the stored one."""
        progress, logs, topics = state.progress, self._logs, self._engine.rules.topics
        logs.require_same(LogIds(progress.cluster_id, dict(zip(topics, progress.topic_ids, strict=True))))
        progress.cluster_id = logs.cluster_id or progress.cluster_id
        progress.topic_ids = [logs.topic_ids.get(topic) or stored for topic, stored in zip(topics, progress.topic_ids, strict=True)]


def new_claim_token(random_part: str, group_id: str) -> str:
    """Return the token of a claim.

    >>> new_claim_token("c0ffee", "ranking"), group_of_token("c0ffee:ranking"), group_of_token("c0ffee")
    ('c0ffee:ranking', 'ranking', None)
    """
    return f"{random_part}:{group_id}" if group_id else random_part


def group_of_token(token: str | None) -> str | None:
    """Return the consumer group of a claim. None if the task has no claim, or its worker has no group."""
    _, separator, group = (token or "").partition(":")
    return group if separator else None


class RivalGroups:
    """The other consumer groups that have taken tasks from this worker lately. `group_id` is this worker's own group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self._takeovers: deque[tuple[float, str]] = deque()

    def task_taken(self, owner_token: str | None, now_seconds: float) -> str | None:
        """Note who owns a task that was taken from this worker. Returns the group if it is another one."""
        group = group_of_token(owner_token)
        if group is None or group == self.group_id:
            return None
        self._takeovers.append((now_seconds, group))
        return group

    def conflict(self, now_seconds: float) -> str:
        """Return what is wrong and what to do, or an empty string.

        >>> rivals = RivalGroups("one")
        >>> [rivals.task_taken(token, 0) for token in ("a:one", "b", "c:two", "d:two")]
        [None, None, 'two', 'two']
        >>> rivals.conflict(0)[:66], rivals.conflict(1 + RECENT_SECONDS)
        ("consumer groups 'one' and 'two' use the same redis.namespace, and ", '')
        """
        while self._takeovers and now_seconds - self._takeovers[0][0] > RECENT_SECONDS:
            self._takeovers.popleft()
        if len(self._takeovers) < TIMES_MIN:
            return ""
        other = self._takeovers[-1][1]
        return (
            f"consumer groups {self.group_id!r} and {other!r} use the same redis.namespace, and take each task from the other; "
            "give all workers of a namespace the same kafka.group_id, or one of the groups another redis.namespace"
        )
