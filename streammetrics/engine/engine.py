"""The engine: `needs` says which users a step lacks, `step` takes a batch of events, `save` returns what to commit.

Pure: no clock, no I/O, no logging. A step changes a task's state in place. If a commit is rejected, the caller drops the state and
restores it from the store. Results depend on each input's log alone. How inputs interleave, where batches are cut, and when sessions are
checked does not matter, but for the limits that the page of this room names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple

from streammetrics.engine.batch import Batch, BatchResult
from streammetrics.engine.loop import Loop
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.signature import Signature
from streammetrics.engine.task_state import TaskState
from streammetrics.enrolment.rows import UserTotalsLayout
from streammetrics.metrics import TallyLayout
from streammetrics.sessions.user_sessions import MisplacedUsers
from streammetrics.state.tables import LoadedUsers, Rows, StateChanges
from streammetrics.windows.pane_tallies import FinalPane


class Needs(NamedTuple):
    """What to load before a step: users, users that are due before a time (ms), and users' totals.

    Totals are needed before the next commit, with a step without a batch. Load them only while no commit is in flight: they are not kept
    from one commit to the next.
    """

    users: AbstractSet[str]
    due_before_ms: int | None
    totals: AbstractSet[str] = frozenset()


class SaveResult(NamedTuple):
    """What the next commit must write, and the panes that became final, in order of time."""

    changes: StateChanges
    final_panes: list[FinalPane]


class Engine:
    """The compiled rules. One engine serves any number of tasks."""

    def __init__(self, rules: EngineRules, layout: TallyLayout) -> None:
        self.rules, self.layout = rules, layout
        self.user_totals: UserTotalsLayout | None = None
        if rules.experiments is not None:
            self.user_totals = UserTotalsLayout(layout, rules.experiments.metrics, rules.grades.grades)
        self.signature = Signature(
            f"{rules.describe()} {layout.describe()}", None if self.user_totals is None else self.user_totals.measures.names
        )

    def open(
        self,
        control: bytes | None,
        rows: Rows = MappingProxyType({}),
        older: Mapping[str, AbstractSet[str]] = MappingProxyType({}),
    ) -> TaskState:
        """Restore a task's state from its last commit; `control` is None for a new task. Raises StateError if other rules made it.

        `older` are the keys of rows that do not change any more, by table.

        Experiments may have been switched on or off since. Windows continue then, and counting of users starts again.
        """
        state = TaskState(self.rules, self.signature, self.layout, self.user_totals)
        if control is not None:
            state.restore(control, rows, older)
        return state

    def needs(self, state: TaskState, batch: Batch | None) -> Needs:
        """Return what to load before a step. Due users are requested once between two commits."""
        due = state.sessions.due_before(state.progress.closed_before)
        if batch is None:
            return Needs(frozenset(), due, state.enrolments.missing_records())
        return Needs(state.sessions.missing(batch.users), due)

    def load(self, state: TaskState, needs: Needs, loaded: LoadedUsers, misplaced: MisplacedUsers | None = None) -> None:
        """Add what was loaded to the state. Users in memory are newer and stay. The next step gets those that are due."""
        state.enrolments.load_records(needs.totals, loaded.due, loaded.totals)
        state.sessions.load((*needs.users, *loaded.due), loaded.users, misplaced)
        if needs.due_before_ms is not None:
            state.sessions.note_due(loaded.next_due_ms)

    def step(
        self,
        state: TaskState,
        batch: Batch | None,
        due: Sequence[str] = (),
        idle: frozenset[int] = frozenset(),
        tick_ms: int | None = None,
        ended_until: int | None = None,
    ) -> BatchResult:
        """Take a batch of one input, or none. Write the rejected events as dead letters before the next commit.

        All users in `needs` must have been loaded. `due` are the loaded users that are due. Lists are joined here and tallied by `save`.

        `idle` are the inputs (by topic index) that are caught up and silent, never the batch's own. If all inputs are idle, `tick_ms` is
        the time up to which they are known to be silent. `ended_until` ends the task's input: sessions close and lists become final up to
        this time (ms), and at FOREVER all of them.
        """
        loop = Loop(self.rules, state)
        if idle:
            state.progress.advance_idle(idle, tick_ms)
        if batch is not None:
            loop.process(batch, idle)
        if ended_until is not None:
            state.labels.flush()
            state.runs.end_input(state.progress.closed_before)
            state.enrolments.end_input(state.progress.newest_supported())
            state.progress.end(ended_until)
        state.sessions.close_due(due, state.progress.closed_before)
        state.enrolments.forget_records(user for user in due if user in state.sessions.put_off)
        final = state.sessions.take_final()
        for on_final in state.on_final:
            on_final(final)
        return loop.result

    def save(self, state: TaskState, *, with_sessions: bool = True) -> SaveResult:
        """Return what to commit. The state counts as saved from now on; if the commit is rejected, drop the state.

        Without sessions, step 3 encodes no users: they stay unsaved. Readers see all that such a commit has counted, but no task can be
        restored from it.

        The steps, in order; each later one needs the results of those before:

        0. Lists: note their times in groups and runs, join the sessions that are stale, and give lists their late labels.
        1. Panes: tally the lists that changed, finalize complete panes, expire old ones.
        2. Enrolments: add the lists that became final to users' totals.
        3. Sessions: encode the users that changed, and when each is due again.
        4. Rows of all tables.
        5. Control record: how far the inputs are read, and every other field that is not stored by user or as rows.
        """
        bound = state.progress.closed_before
        state.labels.flush()
        changed = state.sessions.take_changed(bound)
        state.list_labels.advance(bound, state.sessions.next_due)
        final_panes = state.panes.on_changed(changed, state.labels, self.final_bound(state), state.progress.watermark)
        records = state.enrolments.enrol(state.sessions.users, bound, state.panes.oldest_kept)
        sessions = state.sessions.changes(records.due, with_sessions=with_sessions)
        tables = state.table_changes(state.enrolments.advance(bound, state.sessions.next_due))
        changes = StateChanges(
            control=state.control_record(),
            rows={name: table.rows for name, table in tables.items()},
            rows_gone={name: table.gone for name, table in tables.items()},
            rows_from={name: table.settled_before for name, table in tables.items() if table.settled_before is not None},
            users=sessions.users,
            due=sessions.due,
            users_gone=sessions.gone,
            pieces=sessions.pieces,
            pieces_gone=sessions.pieces_gone,
            totals=records.changed,
            totals_gone=records.gone,
        )
        return SaveResult(changes, final_panes)

    def forget(self, state: TaskState, users_max: int) -> None:
        """Drop saved users from memory, down to about `users_max`."""
        state.sessions.evict(users_max)

    def drop(self, state: TaskState, users: Iterable[str]) -> None:
        """Drop these users from memory, except those that are not saved. `users` may be a live view of the state's users."""
        state.sessions.drop(users)

    def final_bound(self, state: TaskState) -> int:
        """Every pane that ends at or before this time (ms) is complete."""
        return min(state.progress.final_before(self.rules.join.attribution_ms), state.list_labels.labelled_before)
