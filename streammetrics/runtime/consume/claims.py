"""Claims a task: takes over its ownership in the store, restores its state, and starts its inputs."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.source import Input, LogIds, Source
from streammetrics.connectors.store import Store
from streammetrics.engine.engine import Engine
from streammetrics.engine.task_state import TaskState
from streammetrics.errors import StateError
from streammetrics.runtime.consume.owned_task import OwnedTask
from streammetrics.runtime.consume.rules import WorkerRules

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
        claim = self._store.claim(task.number, assignment.new_token(self._group_id))
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
