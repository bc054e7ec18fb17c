"""Enrolment: adding final lists to what is counted of users, in experiments and in the panes' unique users.

A list is enrolled when its session has closed, or when all lists of its turn are final, whichever is first. It never changes after that.
A user's earlier lists are never enrolled after later ones. All lists that wait are enrolled together, once per commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from streammetrics.enrolment.records import StoredRecord, UserRecord, decode_record, encode_record
from streammetrics.enrolment.rows import UserTotalsLayout
from streammetrics.enrolment.rules import EVER, EnrolmentRules
from streammetrics.enrolment.runs import ExperimentRuns
from streammetrics.enrolment.split import ExposureSplit
from streammetrics.enrolment.targets import ListTargets
from streammetrics.enrolment.totals import TotalsBatch
from streammetrics.events.event_time import FOREVER, NEVER, pane_start
from streammetrics.sessions.exposures import FinalExposure
from streammetrics.sessions.state import ShownList, User
from streammetrics.sessions.user_sessions import FinalEvents
from streammetrics.state.tables import RowChanges, TaskTimes
from streammetrics.windows.final_lists import FinalList, FinalLists, LabelRun
from streammetrics.windows.last_seen import LastSeenBatch
from streammetrics.windows.unique_users import UniqueUserPanes


class RecordChanges(NamedTuple):
    """Users' records to store, users without a record, and until when (event time, ms) the records matter."""

    changed: dict[str, bytes]
    gone: list[str]
    due: dict[str, int]


class ReactionTimes(NamedTuple):
    """Until when (ms) a user has reacted, in sessions that have closed, and until when without a list. NEVER: not at all."""

    last: int = NEVER
    last_unmatched: int = NEVER


_NOTHING: Final = ReactionTimes()


class EnrolmentState(msgspec.Struct, array_like=True):
    """What is stored of `Enrolments` besides sums and users' records.

    All lists of panes before `enrolled_before` (ms) are enrolled, except those that do not count: in experiments, lists before
    `counted_from` (ms). `longest_wait_ms` is the longest time that a list waits for enrolment. `spans` is (experiment, configured start,
    configured end), for experiments with a run and one of both. `open_lists` are the lists of each experiment that do not
    count, because the input ended before all their time for feedback.
    """

    enrolled_before: int = NEVER
    counted_from: int = NEVER
    longest_wait_ms: int = 0
    spans: list[tuple[str, int | None, int | None]] = []
    open_lists: list[tuple[str, int]] = []


class Enrolments:
    """Lists that wait to be enrolled, and what is summed over the users of each experiment run.

    `waiting` are lists that became final since the last commit, by user; none for a user with exposures only. `records` are the stored
    totals of users that are due or in `waiting`; None: the user has none. All lists of panes before `enrolled_before` (ms) are enrolled.
    Lists before `counted_from` (ms) do not count: experiments were switched on then. Nor do `open_lists`, those from `counted_until` (ms)
    on: the input ended before all their time for feedback.

    Lists up to `_former_until` (ms) may have been shown under former rules. While some of them may wait, `_longest_wait_ms` is the longest
    wait under any of these rules.
    """

    __slots__ = (
        "_counts",
        "_exposed",
        "_former_until",
        "_layout",
        "_longest_wait_ms",
        "_reacted",
        "_restarted",
        "_rules",
        "_runs",
        "_unique_users",
        "_wait_ms",
        "counted_from",
        "counted_until",
        "enrolled_before",
        "open_lists",
        "records",
        "waiting",
    )

    def __init__(
        self,
        rules: EnrolmentRules,
        layout: UserTotalsLayout | None,
        runs: ExperimentRuns,
        unique_users: UniqueUserPanes,
        counts: Counter[tuple[str, int]],
    ) -> None:
        self._rules, self._layout, self._runs, self._unique_users, self._counts = rules, layout, runs, unique_users, counts
        self._restarted = False
        self._wait_ms = self._longest_wait_ms = rules.enrolment_wait_ms
        self._former_until = NEVER
        self._exposed: dict[str, list[FinalExposure]] = {}
        self._reacted: dict[str, ReactionTimes] = {}
        self.waiting: dict[str, list[FinalList]] = {}
        self.records: dict[str, bytes | None] = {}
        self.enrolled_before = NEVER
        self.counted_from = NEVER
        self.counted_until = FOREVER
        self.open_lists: Counter[str] = Counter()

    def restore(self, stored: EnrolmentState, newest: int) -> None:
        """Continue from the last commit. `newest`: the time (ms) of its newest event. Follow with `restore_scopes` or `restart`."""
        self.enrolled_before = stored.enrolled_before
        self._longest_wait_ms, self._former_until = max(self._wait_ms, stored.longest_wait_ms), newest

    def restore_scopes(self, stored: EnrolmentState, scopes: Mapping[str, bytes]) -> None:
        """Continue the sums of experiments, which are counted as at the last commit. The runs are restored."""
        self.counted_from = stored.counted_from
        self._runs.restore_scopes(scopes)

    def restart(self, newest: int, scopes: Iterable[str]) -> None:
        """Drop all that is known of experiments: they were switched on or off since the last commit.

        Lists up to the newest event may not have been counted, so counting begins after it. Users' totals of former runs are dropped
        when these users are next due.
        """
        self._runs.delete_scopes(scopes)
        self.counted_from = newest if newest == NEVER else newest + 1
        self._restarted = True

    def stored(self) -> EnrolmentState:
        """Return what the next commit writes besides sums and records."""
        open_lists = sorted(self.open_lists.items())
        return EnrolmentState(self.enrolled_before, self.counted_from, self._longest_wait_ms, self._spans(), open_lists)

    def _spans(self) -> list[tuple[str, int | None, int | None]]:
        """The configured start and end of each experiment that has a run, if there is one of both."""
        rules = self._rules.experiments
        spans = {} if rules is None else {run.experiment: rules.span(run.experiment) for run in self._runs}
        return [(experiment, *span) for experiment, span in sorted(spans.items()) if span != EVER]

    @property
    def changed(self) -> bool:
        """Whether experiments were restarted since the last commit."""
        return self._restarted

    def end_input(self, newest: int) -> None:
        """Take the end of the input, whose newest event has this time (ms). Lists that could get feedback after it do not count.

        None of them is enrolled yet: neither all lists of its turn are final, nor has its session closed.
        """
        if newest != NEVER:
            self.counted_until = newest - min(self._rules.join.attribution_ms, self._rules.join.gap_ms) + 1

    def missing_records(self) -> AbstractSet[str]:
        """Users that have waiting lists and no loaded record."""
        return self.waiting.keys() - self.records.keys()

    def load_records(self, missing: Iterable[str], due: Iterable[str], stored: Mapping[str, bytes]) -> None:
        """Keep the stored records of users until the next commit."""
        if self._rules.users_counted:
            for user_id in (*missing, *due):
                self.records.setdefault(user_id, stored.get(user_id))
        else:  # records of the time when users were counted
            self.records.update({user_id: stored[user_id] for user_id in due if user_id in stored})

    def forget_records(self, users: Iterable[str]) -> None:
        """Drop the loaded records of users, except those with lists that wait to be enrolled."""
        for user_id in users:
            if user_id not in self.waiting:
                self.records.pop(user_id, None)

    def on_final(self, final: FinalEvents) -> None:
        """Let final lists and exposures wait for the next commit, which enrols them."""
        if self._rules.users_counted:
            for user_id, lists in final.lists.items():
                self._add_lists(user_id, lists)
            for user_id, exposures in final.exposures.items():
                self._exposed.setdefault(user_id, []).extend(exposures)
                self.waiting.setdefault(user_id, [])
        if self._rules.experiments is not None:
            for user_id, ended_ms, matched, unmatched in final.closed:
                if matched or unmatched:
                    reacted = self._reacted.get(user_id, _NOTHING)
                    last_unmatched = ended_ms if unmatched else NEVER
                    self._reacted[user_id] = ReactionTimes(max(reacted.last, ended_ms), max(reacted.last_unmatched, last_unmatched))
                    self.waiting.setdefault(user_id, [])

    def _add_lists(self, user_id: str, lists: Iterable[ShownList]) -> None:
        """Let final lists wait that are not enrolled already, except those that do not count.

        If only experiments count users, lists without experiments matter only as covariates: before the start of some experiment.
        Nothing is asked of the store for those alone; they are enrolled together with the user's next list that has experiments.
        """
        waiting, experiments = self.waiting.setdefault(user_id, []), self._rules.experiments
        if self._rules.unique_users is None and experiments is not None and experiments.earlier:
            lists = [final_list for final_list in lists if final_list.experiments or experiments.is_earlier(final_list.ts)]
        elif self._rules.unique_users is None:
            lists = [final_list for final_list in lists if final_list.experiments]
        for final_list in lists:
            if final_list.ts >= self.counted_until:
                for experiment, _ in final_list.experiments:
                    self.open_lists[experiment] += 1
            waiting.append(FinalList.of(final_list, self._rules.join, final_list.segments if final_list.experiments else ()))

    def changes(self, times: TaskTimes) -> RowChanges:
        """Return what to commit of the sums of experiments, by scope."""
        self._restarted = False
        return self._runs.scope_changes(times.oldest_kept)

    def advance(self, bound: int, next_due: int) -> int:
        """Return the new `enrolled_before`: all users that were due before it have been processed, and so have the lists of final panes."""
        processed = min(bound, next_due)
        if processed not in (NEVER, FOREVER):
            processed = pane_start(processed - self._longest_wait_ms, self._rules.pane_ms)
        self.enrolled_before = max(self.enrolled_before, processed)
        if self.enrolled_before > self._former_until:  # no list of former rules is left
            self._longest_wait_ms = self._wait_ms
        return self.enrolled_before

    def enrol(self, users: Mapping[str, User], bound: int, oldest_kept: int) -> RecordChanges:
        """Enrol all waiting lists: read the records of users, add their final lists, and return the records to commit.

        `bound` is that of ended sessions (ms), `oldest_kept` that of panes.
        """
        if not self._rules.users_counted:
            former, self.records = list(self.records), {}
            return RecordChanges({}, former, {})
        assert not self.missing_records(), "lists of a user are enrolled without the user's record"
        assert self._exposed.keys() <= self.records.keys(), "exposures of a user are counted without the user's record"
        lists = FinalLists([self.waiting.get(user_id, ()) for user_id in self.records])
        totals, seen, pane_ms = self._totals_batch(lists, bound, oldest_kept), self._unique_users.new_batch(lists), self._rules.pane_ms
        split = None if totals is None else ExposureSplit(totals.targets)
        batch = _Batch(lists, totals, seen, split, pane_ms, self.enrolled_before, bound)
        records = [
            batch.add_user(users[user_id], stored, label_runs, self._exposed.get(user_id, ()), self._reacted.get(user_id, _NOTHING))
            for (user_id, stored), label_runs in zip(self.records.items(), lists.label_runs, strict=True)
        ]
        if totals is not None:
            self._runs.note_changed(totals.sum())
        if split is not None:
            self._runs.note_changed(split.sum())
        if seen is not None:
            self._unique_users.add(seen)
        changes = RecordChanges({}, [], {})
        for (user_id, stored), record in zip(self.records.items(), records, strict=True):
            if not record.matters or (bound == FOREVER and batch.is_flushed(users[user_id])):
                if stored is not None:
                    changes.gone.append(user_id)
                continue
            if record.changed:
                changes.changed[user_id] = batch.encode(record)
            changes.due[user_id] = batch.due(record, pane_ms + self._wait_ms)
        self.waiting, self.records, self._exposed, self._reacted = {}, {}, {}, {}
        return changes

    def _totals_batch(self, lists: FinalLists, bound: int, oldest_kept: int) -> TotalsBatch | None:
        """Begin to add lists to users' totals in experiments. None if experiments are not counted."""
        rules = self._rules.experiments
        if rules is None or self._layout is None:
            return None
        self._runs.drop_ended(bound)
        targets = ListTargets(
            self._runs,
            rules,
            lists.labels,
            pane_ms=self._rules.pane_ms,
            counted_from=self.counted_from,
            counted_until=self.counted_until,
            enrolled_before=self.enrolled_before,
            oldest_kept=oldest_kept,
        )
        return TotalsBatch(targets, self._layout, lists, self._counts)


@dataclass(frozen=True, slots=True)
class _Batch:
    """What the lists of one commit are added to: users' totals in experiments, the unique users of panes, and the split of exposures.

    `totals` and `split` are None if experiments are not counted, and `seen` if unique users are not. `enrolled_before` (ms) is that of the
    task, and `bound` that of ended sessions.
    """

    lists: FinalLists
    totals: TotalsBatch | None
    seen: LastSeenBatch | None
    split: ExposureSplit | None
    pane_ms: int
    enrolled_before: int
    bound: int

    def add_user(
        self,
        user: User,
        stored: bytes | None,
        label_runs: Sequence[LabelRun],
        exposed: Sequence[FinalExposure],
        reacted: ReactionTimes,
    ) -> UserRecord:
        """Read a user's record and add the user's lists, exposures and reactions."""
        record, totals, seen, split = UserRecord({}, {}, {}, bool(label_runs)), self.totals, self.seen, self.split
        if not (label_runs or exposed or reacted is not _NOTHING) and self.is_flushed(user):
            return record
        if stored is not None:
            self._restore(record, decode_record(stored), user, label_runs)
        if split is not None and exposed:
            exposed_before = set(record.exposed)
            split.add(exposed_before, exposed)
            record.changed |= len(exposed_before) > len(record.exposed)
            record.exposed = exposed_before
        if totals is not None and (label_runs or reacted is not _NOTHING):
            before = tuple(record.totals), record.reacted
            entered = totals.add_lists(record, label_runs) if label_runs else {}
            totals.add_reactions(record, entered, *reacted)
            totals.count_reacting(before, (tuple(record.totals), record.reacted))
        if label_runs and seen is not None:
            seen.add_lists(record.last_seen, label_runs)
        return record

    def _restore(self, record: UserRecord, stored: StoredRecord, user: User, label_runs: Sequence[LabelRun]) -> None:
        """Read what is stored of a user."""
        totals, seen, split = self.totals, self.seen, self.split
        if stored.exposed:
            record.exposed = frozenset() if split is None else split.restored(stored.exposed)
            record.changed |= len(record.exposed) < len(stored.exposed)
        if totals is not None:
            totals.restore(record, stored)
        elif stored.totals or stored.earlier:
            record.changed = True
        if seen is not None and stored.last_seen:
            without_lists = self.enrolled_before if user.sessions else self.bound
            oldest = self.lists.times[label_runs[0][1]] if label_runs else without_lists
            record.last_seen = seen.restore(stored.last_seen, oldest // self.pane_ms)
        record.changed |= len(record.last_seen) < len(stored.last_seen)

    def is_flushed(self, user: User) -> bool:
        """Whether no more lists and exposures of a user can follow, so that the record is deleted."""
        if self.bound != FOREVER or user.sessions:
            return False
        return self.split is None or user.exposures is None or user.exposures.first_from(user.exposed_before) == FOREVER

    def encode(self, record: UserRecord) -> bytes:
        """Return a record in its stored form, after the sums of the batch."""
        past = [] if self.seen is None else self.seen.stored(record.last_seen)
        earlier = list(record.earlier.values())
        return encode_record(record.stored_totals(), earlier, past, sorted(record.exposed), record.came, record.reacted)

    def due(self, record: UserRecord, wait_ms: int) -> int:
        """Return until when (event time, ms) a record matters, after the sums of the batch."""
        until = None if self.totals is None else self.totals.targets.relevant_until(record, wait_ms)
        if until is None:  # totals keep the rest of the record for as long as they matter themselves
            assert self.seen is not None
            until = self.seen.relevant_until(record.last_seen)
        return max(self.bound, until)
