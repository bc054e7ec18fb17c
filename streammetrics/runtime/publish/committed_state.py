"""Reads committed state from a store into a report builder: first the frozen scales, then the tasks, then the scales that are due.

The order matters. A scale that was frozen after the tasks were read may belong to an experiment run that they do not show
yet. It would then be used for the run before.
"""

from __future__ import annotations

from streammetrics.connectors.store import Store
from streammetrics.reports.builder import ReportBuilder


def read_committed(store: Store, builder: ReportBuilder, tasks: int) -> bool:
    """Read what was committed since the last call, and return whether anything was.

    Raises StoreError, and StateError if other rules made the state.
    """
    if not builder.experiments.has_scales:
        builder.experiments.update_scales(store.compare_and_set({}))
    every = range(tasks)
    views = store.view(every, builder.marks, {task: builder.rows_from(task) for task in every})
    for task, view in views.items():
        builder.update(task, view)
    return bool(views)


def freeze_due_scales(store: Store, builder: ReportBuilder, tasks: int) -> bool:
    """Freeze the scales that are due by the state that was read, and update the builder from the store. Raises StoreError.

    Returns whether any were due.
    """
    changes = builder.experiments.scale_changes(tasks)
    if changes:
        builder.experiments.update_scales(store.compare_and_set(changes))
    return bool(changes)
