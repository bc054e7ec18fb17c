"""The whole machine without the world: `needs` says which users it lacks, `step` takes events, `save` says what to keep.

Pure: no clock, no I/O, no logging. A task's state belongs to whoever steps it; a step changes it in place, and a caller
whose commit was refused throws it away and opens it again from the store. Results are a function of each input's log
alone: not of how inputs interleave, how batches are cut, or when sessions are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from streammetrics.engine.codec import (
    Signature,
    cell_name,
    decode_user,
    encode_control,
    encode_pane,
    encode_reach,
    encode_scope,
    encode_user,
)
from streammetrics.engine.enrolment import EnrolmentResult, EnrolmentRound, enter_lists, waiting
from streammetrics.engine.experiment_runs import WHOLE
from streammetrics.engine.ingest import Batch, BatchProcessor, BatchResult, close_ended
from streammetrics.engine.snapshot import control_of, open_task
from streammetrics.engine.stored_state import StateChanges
from streammetrics.engine.task_state import EngineRules, TaskState
from streammetrics.engine.user_totals import TotalsRound, UserTotalsLayout
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER, close_bound, final_bound, pane_start
from streammetrics.events.model import Labels
from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.sessions.user import User
from streammetrics.windows.last_seen import LastSeenBatch
from streammetrics.windows.panes import Group, Pane, add_to, groups_of
from streammetrics.windows.tally_deltas import add_tallies, tally_deltas
from streammetrics.windows.unique_users import UserCountLayout

PASSED_OVER: Final = 4
"""How many users `forget` looks at for each one that is too many. No call takes long, even when all were saved lately; and less than
a third of those who may stay are left beside them, for with so many it looks at all."""


class Needs(NamedTuple):
    """What a step lacks: users that are not at hand, whether users due before a time are wanted, and users whose totals are.

    Totals are wanted before the next commit, with no batch, and may be read only while none is on its way: they are not kept from one to
    the next.
    """

    users: AbstractSet[str]
    due_before_ms: int | None
    totals: AbstractSet[str] = frozenset()


class FinalPane(NamedTuple):
    start_ms: int
    pane: Pane


class SaveResult(NamedTuple):
    """What the next commit must write, and the panes that are now final, ascending."""

    changes: StateChanges
    final_panes: list[FinalPane]


class Engine:
    """The rules, compiled. One engine serves any number of tasks."""

    def __init__(self, rules: EngineRules, scorer: Scorer) -> None:
        self.rules = rules
        self.entering_ms = rules.entering_ms
        self.layout = TallyLayout(scorer, moments=False)
        self.users: UserTotalsLayout | None = None
        if rules.experiments is not None:
            self.users = UserTotalsLayout(self.layout, rules.experiments.metrics)
        self.signature = Signature(
            f"{rules.describe()} spec={scorer.spec.digest()} metrics[{','.join(map(str, scorer.metrics))}]",
            None if self.users is None else self.users.measures.names,
        )
        self.reach = None if rules.reach is None else UserCountLayout(scorer)

    def open(
        self,
        control: bytes | None,
        panes: Mapping[int, bytes],
        pane_starts: Iterable[int],
        experiments: Mapping[str, bytes] = MappingProxyType({}),
        reaches: Mapping[int, bytes] = MappingProxyType({}),
    ) -> TaskState:
        """A task's state as the store holds it; StateError when other rules made it.

        Experiments may be switched on and off between: windows go on, and what is known of users begins anew.
        """
        return open_task(self.rules, self.signature, control, panes, pane_starts, experiments, reaches)

    def needs(self, state: TaskState, batch: Batch | None) -> Needs:
        """Which users to load before a step; asks for users that are due once between two commits."""
        bound = close_bound(state.watermark, self.rules.lateness_ms)
        due = bound if bound > state.next_due and not state.due_asked and bound > NEVER else None
        if batch is None:
            return Needs(frozenset(), due, state.finalized.keys() - state.records.keys())
        return Needs(batch.users.difference(state.users), due)

    def take(
        self,
        state: TaskState,
        needs: Needs,
        users: Mapping[str, bytes],
        due: Sequence[str] = (),
        next_due_ms: int | None = None,
        wrong_partition: Callable[[str], bool] | None = None,
        totals: Mapping[str, bytes] = MappingProxyType({}),
    ) -> list[str]:
        """Take in what was loaded; returns the users that are due. What is at hand already is newer and stays."""
        if self.users is not None or self.reach is not None:
            for user_id in (*needs.totals, *due):
                state.records.setdefault(user_id, totals.get(user_id))
        else:  # from when experiments were switched on
            state.records.update({user_id: totals[user_id] for user_id in due if user_id in totals})
        for user_id in (*needs.users, *due):
            if user_id not in state.users:
                wrong = wrong_partition is not None and wrong_partition(user_id)
                stored = users.get(user_id)
                state.users[user_id] = User(wrong) if stored is None else decode_user(stored, self.rules.join, wrong)
        if needs.due_before_ms is not None:
            state.due_asked = True
            state.next_due = FOREVER if next_due_ms is None else next_due_ms
        return list(due)

    def step(
        self,
        state: TaskState,
        batch: Batch | None,
        due: Sequence[str] = (),
        idle: frozenset[int] = frozenset(),
        tick_ms: int | None = None,
        flush: bool = False,
    ) -> BatchResult:
        """Take a batch of one input, or none; what was refused must be written as dead letters before the next commit.

        All users in `needs` must have been taken in before. What changes in lists is joined here and tallied by `save`.

        `idle` are the inputs (by topic index) that are caught up and silent, the batch's own never among them; when all are,
        `tick_ms` is the time up to which they are known to be silent. `flush` ends the task's input: everything becomes final.
        """
        step = BatchProcessor(self.rules, state, idle)
        if idle:
            step.advance_idle(tick_ms)
        if batch is not None:
            step.input(batch)
        if flush:
            self._end_runs(state)
            state.watermark = FOREVER
            state.changed = True
        self._close(state, due)
        return BatchResult(step.refused, step.timed)

    def save(self, state: TaskState) -> SaveResult:
        """What to commit now. The state counts as saved from here on; if the commit is refused, throw it away."""
        self._tally(state)
        finals = self._finish_panes(state)
        self._expire_panes(state)
        entered = self._enter_lists(state)
        users: dict[str, bytes] = {}
        due: dict[str, int] = {}
        gone: list[str] = []
        for user_id, user in state.dirty.items():
            if user.sessions:
                users[user_id] = encode_user(user)
                user.recently_saved = True
            else:
                del state.users[user_id]
                gone.append(user_id)
        for user_id in state.due_moved:
            if user_id in users:
                due[user_id] = self._next_due(state.users[user_id])
        due |= {user_id: entered.until[user_id] for user_id in gone if user_id in entered.until}
        if due:
            state.next_due = min(state.next_due, *due.values())
        written = {start: state.panes.get(start) or state.panes_finalized.get(start) or {} for start in state.panes_dirty}
        panes = {start: encode_pane(pane) for start, pane in written.items() if pane}
        expired = [start for start in state.pane_starts if start < state.oldest_kept]
        emptied = [start for start, pane in written.items() if not pane and start in state.pane_starts]
        state.pane_starts.update(panes)
        state.pane_starts.difference_update(expired, emptied)
        for start in expired:
            panes.pop(start, None)
        state.dirty, state.due_moved, state.panes_dirty = {}, set(), set()
        state.panes_finalized = {}
        state.due_asked = state.changed = False
        reaches = {start: encode_reach(state.reaches[start]) for start in state.reaches_dirty if start >= state.oldest_kept}
        state.reaches_dirty = set()
        self._note_entered(state)
        cells, cells_gone = self._cells(state)
        changed = StateChanges(
            control=encode_control(control_of(state, self.rules, self.signature)),
            panes_from_ms=state.final_before,
            users=users,
            due=due,
            users_gone=gone,
            panes=panes,
            panes_gone=[*expired, *emptied],
            totals=entered.totals,
            totals_gone=entered.gone,
            experiments=cells,
            experiments_gone=cells_gone,
            reaches=reaches,
            reaches_from_ms=state.entered_before,
        )
        return SaveResult(changed, finals)

    def forget(self, state: TaskState, users_max: int) -> None:
        """Let go of users, down to a number, or to less than 4/3 of it for now; those not yet saved stay.

        By second chance: from the one who came first, each goes, or to the end if he was saved since he was last passed over. The more
        there are too many, the more are passed over at once, all of them twice in the end; what is left goes the next time.
        """
        users, excess = state.users, len(state.users) - users_max
        if excess <= 0:
            return
        passed = list(islice(users, PASSED_OVER * excess))
        for user_id in 2 * passed if len(passed) == len(users) else passed:
            if user_id in state.dirty or user_id not in users:
                continue
            user = users.pop(user_id)
            if user.recently_saved:
                user.recently_saved = False
                users[user_id] = user
            elif (excess := excess - 1) == 0:
                return

    def drop(self, state: TaskState, users: Iterable[str]) -> None:
        """Let go of these users; those not yet saved stay. May be given what looks at the state's users while it goes on."""
        for user_id in [user_id for user_id in users if user_id not in state.dirty]:
            state.users.pop(user_id, None)

    def final_bound(self, state: TaskState) -> int:
        return final_bound(state.watermark, self.rules.lateness_ms, self.rules.join.attribution_ms)

    def _enter_lists(self, state: TaskState) -> EnrolmentResult:
        """Let what has become final enter the experiments, after those that are over have gone, and the reach of its panes."""
        rules, pane_ms, bound = self.rules, self.rules.pane_ms, close_bound(state.watermark, self.rules.lateness_ms)
        if (rules.experiments is None or self.users is None) and (rules.reach is None or self.reach is None):
            left, state.records = list(state.records), {}  # what is left of users is from when they were counted
            return EnrolmentResult({}, left, {})
        lists = waiting(state)
        rounds = EnrolmentRound(lists)
        if rules.experiments is not None and self.users is not None:
            self._end_runs(state)
            state.forget_joined()
            rounds = rounds._replace(experiments=TotalsRound(state, rules.experiments, self.users, pane_ms, lists))
        if rules.reach is not None and self.reach is not None:
            rounds = rounds._replace(reach=LastSeenBatch(self.reach, rules.reach.panes, pane_ms, state.reach_from // pane_ms, lists))
        return enter_lists(state, rounds, pane_ms=pane_ms, waiting_ms=pane_ms + self.entering_ms, bound=bound)

    def _end_runs(self, state: TaskState) -> None:
        """Drop the experiments that are over as far as the watermark has come; the end of the input is no silence."""
        state.note_newest()
        if state.watermark != FOREVER:
            state.end_runs(close_bound(state.watermark, self.rules.lateness_ms))

    def _next_due(self, user: User) -> int:
        """When a user wants to be looked at: when a session may close, or a list of his becomes final that has not entered yet."""
        entering_ms, entered = self.entering_ms, user.enrolled_before
        due = user.next_due(self.rules.join.gap_ms)
        if user.sessions[0].first + entering_ms >= due:  # the first session closes before its first list enters
            return due
        lists = [shown for session in user.sessions for shown in session.lists.values() if shown.ts >= entered]
        if self.reach is None:
            lists = [shown for shown in lists if self.rules.counts_users(shown.impression.experiments)]
        if not lists:
            return due
        first = min([shown.ts for shown in lists])
        return min(due, pane_start(first, self.rules.pane_ms) + self.rules.pane_ms + entering_ms - 1)

    def _note_entered(self, state: TaskState) -> None:
        """Everybody who was due before this has been looked at; so all lists of the panes that were final then have entered."""
        looked = min(close_bound(state.watermark, self.rules.lateness_ms), state.next_due)
        if looked not in (NEVER, FOREVER):
            looked = pane_start(looked - state.entering_ms, self.rules.pane_ms)
        state.entered_before = max(state.entered_before, looked)
        if state.entered_before > state.promised_until:  # who has lists of former rules has been looked at, and is due by these now
            state.entering_ms = self.entering_ms
        for start in [start for start in state.reaches if start < state.entered_before]:
            del state.reaches[start]

    def _cells(self, state: TaskState) -> tuple[dict[str, bytes], list[str]]:
        """The scopes that have changed, and those that are no more: of lives that are over, and of days that panes are not kept of."""
        for run in state.runs:
            for day in [day for day in run.scopes if day != WHOLE and (day + 1) * DAY_MS <= state.oldest_kept]:
                del run.scopes[day]
                state.cells_dirty.discard((run.number, day))
                state.cells_gone.add((run.number, day))
        of_number = state.runs.of_number
        cells = {cell_name(number, day): encode_scope(of_number[number].scopes[day]) for number, day in state.cells_dirty}
        gone = sorted(cell_name(*cell) for cell in state.cells_gone - state.cells_dirty)
        state.cells_dirty, state.cells_gone = set(), set()
        return cells, gone

    def _close(self, state: TaskState, due: Iterable[str]) -> None:
        """Close what can be touched no more among the users that are due; the others' time has not come."""
        for user_id in due:
            state.due_moved.add(user_id)
            user = state.dirty[user_id] = state.users[user_id]
            state.changed = True
            close_ended(user_id, user, state, self.rules)
            if self.users is not None or self.reach is not None:
                self._enter_final(user_id, user, state)

    def _enter_final(self, user_id: str, user: User, state: TaskState) -> None:
        """Let the lists enter that have waited for their session to close, though it is open."""
        pane_ms = self.rules.pane_ms
        bound = close_bound(state.watermark, self.rules.lateness_ms)
        if bound in (NEVER, FOREVER):
            return
        final = pane_start(bound - self.entering_ms, pane_ms)
        finals = [shown for session in user.sessions for shown in session.lists.values() if shown.ts < final]
        state.leave(user_id, user, finals, self.rules)
        user.enrolled_before = max(user.enrolled_before, final)

    def _tally(self, state: TaskState) -> None:
        """Bring the panes up to date: a list that was shown and answered since the last commit is scored once."""

        def groups(experiments: Labels, segments: Labels) -> tuple[Group, ...]:
            known = state.label_sets.get((experiments, segments))
            return groups_of(experiments, segments, self.rules.segments) if known is None else known.groups

        for (start, group), change in tally_deltas(state.touched, self.layout, self.rules.pane_ms, groups).items():
            assert start >= state.final_before, "a final pane changed"
            add_to(state.panes.setdefault(start, {}), group, change)
            state.panes_dirty.add(start)
        state.touched = []

    def _finish_panes(self, state: TaskState) -> list[FinalPane]:
        """Take leave of the panes that are now final: their lists enter the cumulative totals."""
        bound = self.final_bound(state)
        if bound == NEVER:
            return []
        if bound != FOREVER:
            state.final_before = max(state.final_before, pane_start(bound, self.rules.pane_ms))
        finals = []
        for start in sorted(state.panes):
            if start + self.rules.pane_ms > bound:
                break
            pane = state.panes.pop(start)
            for group, tally in pane.items():
                if not group.segment and start + self.rules.pane_ms > state.since.get(group, FOREVER):
                    key = (group.experiment, group.variant)
                    known = state.totals.get(key)
                    state.totals[key] = tally if known is None else add_tallies(known, tally)
            if start in state.panes_dirty:
                state.panes_finalized[start] = pane
            if pane:
                finals.append(FinalPane(start, pane))
        return finals

    def _expire_panes(self, state: TaskState) -> None:
        if state.watermark not in (NEVER, FOREVER):
            kept = pane_start(state.watermark - self.rules.retention_ms, self.rules.pane_ms)
            state.oldest_kept = max(state.oldest_kept, min(kept, state.final_before))
