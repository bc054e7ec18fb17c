"""From a store into a ledger: what is settled first, then the tasks, then what has become due to be settled.

The order is a law. A scale that was settled after the tasks were read may be of a life that they do not know yet, and would be taken for
one of the life before it.
"""

from __future__ import annotations

from streammetrics.connectors.base import Store
from streammetrics.reports.builder import ReportBuilder


def read_all(store: Store, builder: ReportBuilder, tasks: int) -> None:
    """Take what was committed of all tasks since the ledger last did. Raises StoreError, and StateError for state of other rules."""
    if not builder.has_scales:
        builder.freeze(store.compare_and_set({}))
    every = range(tasks)
    wanted = ({task: builder.panes_wanted(task) for task in every}, {task: builder.reaches_wanted(task) for task in every})
    for task, view in store.view(every, builder.marks, *wanted).items():
        builder.update(task, view)


def settle_due(store: Store, builder: ReportBuilder, tasks: int) -> None:
    """Settle what is due by what was read, and take what is settled then. Raises StoreError."""
    if changes := builder.scales_due(tasks):
        builder.freeze(store.compare_and_set(changes))
