"""From a store into a ledger: what is settled first, then the tasks, then what has become due to be settled.

The order is a law. A scale that was settled after the tasks were read may be of a life that they do not know yet, and would be taken for
one of the life before it.
"""

from __future__ import annotations

from streammetrics.ledger import Ledger
from streammetrics.ports import Store


def read_all(store: Store, ledger: Ledger, tasks: int) -> None:
    """Take what was committed of all tasks since the ledger last did. Raises StoreError, and StateError for state of other rules."""
    if not ledger.has_scales:
        ledger.freeze(store.settle({}))
    every = range(tasks)
    wanted = ({task: ledger.panes_wanted(task) for task in every}, {task: ledger.reaches_wanted(task) for task in every})
    for task, view in store.view(every, ledger.marks, *wanted).items():
        ledger.update(task, view)


def settle_due(store: Store, ledger: Ledger, tasks: int) -> None:
    """Settle what is due by what was read, and take what is settled then. Raises StoreError."""
    if changes := ledger.scales_due(tasks):
        ledger.freeze(store.settle(changes))
