"""Compares the stages of the settings with the committed state of all tasks, before a worker claims any.

A worker that stops at its second task has processed the first one already. So all tasks are checked before.
"""

from __future__ import annotations

import structlog

from streammetrics.connectors.store import Store
from streammetrics.engine.engine import Engine
from streammetrics.engine.signature import fit_of
from streammetrics.engine.task_state import decode_control
from streammetrics.enrolment.stage_changes import StageChange, refuse_changed_stages, stage_changes

log = structlog.get_logger("streammetrics.runtime.consume.stage_check")


def check_stages(store: Store, engine: Engine) -> None:
    """Log what the settings change about stages that have begun. Raises StateError for a change that workers refuse, and StoreError."""
    changes = changed_stages(store, engine)
    rules = engine.rules.experiments
    if rules is not None and not rules.stages_may_change:
        refuse_changed_stages(changes)
    for change in changes:
        log.warning(change.message, fix=change.fix)


def changed_stages(store: Store, engine: Engine) -> list[StageChange]:
    """Return what the settings change about stages that have begun, over all tasks.

    Raises StoreError, and StateError for state of another version.
    """
    rules, tasks = engine.rules.experiments, store.partitions()
    if rules is None or tasks is None:
        return []
    views = store.view(range(tasks), {}, tables=())
    controls = [decode_control(view.control) for view in views.values()]
    return stage_changes([each.counted_stages() for each in controls if fit_of(each.signature, engine.signature) == "same"], rules)
