"""The state of a task, in words, for the table of coverage."""

from __future__ import annotations

from streammetrics.runtime.consume.owned_task import OwnedTask


def state_of(task: OwnedTask) -> str:
    """Return the state of a task before a turn."""
    if task.state is None:
        if task.assignment.claim_after_seconds:
            return "fenced, waits before it claims again"
        return "waits for the store to be claimed" if task.retry.is_failing else "assigned, not claimed"
    if task.retry.is_failing:
        has_commit = task.commits.in_flight is not None
        return f"waits for the {task.retry.waits_for}, " + ("with a commit to send again" if has_commit else "with no commit")
    if task.commits.in_flight is not None:
        return "commit in flight" + (", has newer changes" if task.has_changes else "")
    if task.activity.paused:
        return "an input is paused"
    if task.activity.idle:
        return "an input is idle"
    return "has changes to commit" if task.has_changes else "all is committed"
