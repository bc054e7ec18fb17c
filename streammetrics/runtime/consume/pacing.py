"""Which inputs of a task must wait: all while it cannot use records, and those too far ahead or not readable yet. Pure."""

from __future__ import annotations

from streammetrics.connectors.source import Input
from streammetrics.engine.task_state import TaskState
from streammetrics.runtime.consume.owned_task import OwnedTask


def inputs_to_pause(task: OwnedTask, skew_ms_max: int) -> frozenset[Input]:
    """Return the inputs of a task that must be paused now."""
    if task.retry.is_failing or task.state is None:
        return frozenset(task.inputs)
    return frozenset([*_too_far_ahead(task, task.state, skew_ms_max), *[task.inputs[topic] for topic in task.backlog.waits]])


def _too_far_ahead(task: OwnedTask, state: TaskState, skew_ms_max: int) -> list[Input]:
    """Return the inputs that are more than `skew_ms_max` of event time ahead of the slowest one that is not idle.

    An input without any event yet is the slowest. One without a supported time is where the least of its last events is. One that is
    behind the watermark holds back nothing: that time has passed.
    """
    positions = state.progress.positions()
    live = [position for index, position in enumerate(positions) if index not in task.activity.idle]
    if not live:
        return []
    slowest = max(min(live), state.progress.watermark)
    return [origin for origin, position in zip(task.inputs, positions, strict=True) if position - slowest > skew_ms_max]
