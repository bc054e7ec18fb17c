"""Enrolment: adding final lists to what is counted of users, in experiments and in the panes' unique users.

A list is enrolled when its session has closed, or some time after its pane is final, whichever is first. It never changes after that. A
user's earlier lists are never enrolled after later ones. All lists that wait are enrolled together, once per commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypedDict

from streammetrics.engine.assignments import ExposureTargets, ScopeKey
from streammetrics.engine.codec import (
    Control,
    decode_scope,
    decode_user_totals,
    encode_scope,
    encode_user_totals,
    parse_scope_name,
    scope_name,
)
from streammetrics.engine.experiment_runs import WHOLE, CovariatePeriod, ExperimentRules, ExperimentRun, ExperimentRuns
from streammetrics.engine.label_index import LabelIndex
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.unique_user_panes import UniqueUserPanes
from streammetrics.engine.user_totals import TotalsBatch, UserRecord, UserTotalsLayout
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER, pane_start
from streammetrics.events.model import Labels
from streammetrics.sessions.session import Session
from streammetrics.sessions.shown_list import ShownList
from streammetrics.sessions.user import User
from streammetrics.windows.final_lists import FinalList, FinalLists, LabelRun
from streammetrics.windows.last_seen import LastSeenBatch


class EnrolmentChanges(NamedTuple):
    """What a commit writes of enrolment.

    `totals` are users' records to store; `totals_gone` are users without a record. `due` says until when (event time, ms) a record matters.
    `scopes` and `scopes_gone` are sums of experiments, by their names in the store.
    """

    totals: dict[str, bytes]
    totals_gone: list[str]
    due: dict[str, int]
    scopes: dict[str, bytes]
    scopes_gone: list[str]


class StoredEnrolment(TypedDict):
    """The fields of a task's control record that `Enrolments` owns."""

    enrolled_before: int
    counted_from: int
    enrolment_wait_ms: int
    ends: list[tuple[str, int]]
    feedback_by_day: list[tuple[int, int, int]]


class Enrolments:
    """Lists that wait to be enrolled, and what is summed over the users of each experiment run.

    `waiting` are lists that became final since the last commit, by user. `records` are the stored totals of users that are due or have
    waiting lists; None: the user has none. All lists of panes before `enrolled_before` (ms) are enrolled. Lists before `counted_from`
    (ms) do not count: experiments were switched on then. `feedback_by_day`: how much feedback matched a list and how much did not, by the
    UTC day in which its session ended.

    Lists up to `_former_until` (ms) may have been shown under former rules. While some of them may wait, `_longest_wait_ms` is the longest
    wait under any of these rules.
    """

    __slots__ = (
        "_counts",
        "_former_until",
        "_labels",
        "_layout",
        "_longest_wait_ms",
        "_restarted",
        "_rules",
        "_scopes_changed",
        "_scopes_gone",
        "_wait_ms",
        "counted_from",
        "enrolled_before",
        "feedback_by_day",
        "records",
        "waiting",
    )

    def __init__(self, rules: EngineRules, layout: UserTotalsLayout | None, labels: LabelIndex, counts: Counter[tuple[str, int]]) -> None:
        self._rules, self._layout, self._labels, self._counts = rules, layout, labels, counts
        self._scopes_changed: set[ScopeKey] = set()
        self._scopes_gone: set[ScopeKey] = set()
        self._restarted = False
        self._wait_ms = self._longest_wait_ms = rules.enrolment_wait_ms
        self._former_until = NEVER
        self.waiting: dict[str, list[FinalList]] = {}
        self.records: dict[str, bytes | None] = {}
        self.enrolled_before = NEVER
        self.counted_from = NEVER
        self.feedback_by_day: dict[int, list[int]] = {}

    def restore(self, stored: Control) -> None:
        """Continue from the last commit. Follow with `restore_scopes` or `restart`."""
        self.enrolled_before = stored.enrolled_before
        self._longest_wait_ms, self._former_until = max(self._wait_ms, stored.enrolment_wait_ms), stored.newest
        if self._rules.experiments is not None:
            self.feedback_by_day = {day: [matched, unmatched] for day, matched, unmatched in stored.feedback_by_day}

    def restore_scopes(self, stored: Control, scopes: Mapping[str, bytes]) -> None:
        """Continue the sums of experiments, which are counted as at the last commit."""
        self.counted_from = stored.counted_from
        self._labels.restore_runs(stored)
        for name, scope in scopes.items():
            number, day = parse_scope_name(name)
            self.runs.of_number[number].scopes[day] = decode_scope(scope)

    def restart(self, newest: int, scopes: Iterable[str]) -> None:
        """Drop all that is known of experiments: they were switched on or off since the last commit.

        Lists up to the newest event may not have been counted, so counting begins after it. Users' totals of former runs are dropped
        when these users are next due.
        """
        self._scopes_gone.update(map(parse_scope_name, scopes))
        self.counted_from = newest if newest == NEVER else newest + 1
        self._restarted = True

    def stored(self) -> StoredEnrolment:
        """Return the part of the control record that the next commit writes."""
        return {
            "enrolled_before": self.enrolled_before,
            "counted_from": self.counted_from,
            "enrolment_wait_ms": self._longest_wait_ms,
            "ends": self._ends(),
            "feedback_by_day": [(day, matched, unmatched) for day, (matched, unmatched) in sorted(self.feedback_by_day.items())],
        }

    def _ends(self) -> list[tuple[str, int]]:
        """The configured end of each experiment that has a run, if there is one."""
        rules = self._rules.experiments
        if rules is None:
            return []
        spans = {run.experiment: rules.span(run.experiment) for run in self.runs}
        return [(experiment, span.end_ms) for experiment, span in sorted(spans.items()) if span.end_ms is not None]

    @property
    def changed(self) -> bool:
        """Whether experiments were restarted since the last commit."""
        return self._restarted

    @property
    def runs(self) -> ExperimentRuns:
        """The experiment runs of the task."""
        return self._labels.runs

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

    def add_session(self, user_id: str, user: User, session: Session, matched: int, unmatched: int) -> None:
        """Let the lists of a session that has closed wait for enrolment, and count its feedback."""
        if self._rules.experiments is not None and (matched or unmatched):
            of_day = self.feedback_by_day.setdefault(session.last // DAY_MS, [0, 0])
            of_day[0] += matched
            of_day[1] += unmatched
        if self._rules.users_counted:
            self._add_lists(user_id, user, session.lists.values())

    def add_open_sessions(self, user_id: str, user: User, bound: int) -> None:
        """Let those lists of open sessions wait for enrolment that have waited for their session long enough."""
        if bound in (NEVER, FOREVER) or not self._rules.users_counted:
            return
        final = pane_start(bound - self._wait_ms, self._rules.pane_ms)
        self._add_lists(user_id, user, [shown for session in user.sessions for shown in session.lists.values() if shown.ts < final])
        user.enrolled_before = max(user.enrolled_before, final)

    def _add_lists(self, user_id: str, user: User, lists: Iterable[ShownList]) -> None:
        """Let final lists wait, except those that do not count and those that are enrolled already.

        If only experiments count users, lists without experiments matter only as covariates: before the start of some experiment.
        Nothing is asked of the store for those alone; they are enrolled together with the user's next list that has experiments.
        """
        waiting, experiments, enrolled_before = self.waiting.setdefault(user_id, []), self._rules.experiments, user.enrolled_before
        if self._rules.unique_users is None and experiments is not None and experiments.earlier:
            lists = [shown for shown in lists if shown.impression.experiments or experiments.is_earlier(shown.ts)]
        elif self._rules.unique_users is None:
            lists = [shown for shown in lists if shown.impression.experiments]
        gaps = self._rules.join.absolute_positions
        waiting += [FinalList.of(shown, gaps) for shown in lists if shown.ts >= enrolled_before]

    def fitting_variants(self, experiments: Labels, ts: int, closed_before: int) -> Labels:
        """Return those variants of a list that stay within `variants_max`, the first ones by experiment.

        Runs that have ended are dropped to make room.
        """
        rules = self._rules.experiments
        if rules is None or not experiments:
            return experiments
        runs = self.runs
        if runs.variants() + runs.new_variants(experiments, ts) <= rules.variants_max:
            return experiments
        self.end_runs(closed_before)
        room = rules.variants_max - runs.variants()
        fitting = []
        for label in experiments:
            new = runs.new_variants((label,), ts)
            if new <= max(room, 0):
                fitting.append(label)
                room -= new
        return tuple(fitting)

    def end_runs(self, bound: int) -> None:
        """Drop the runs that have ended, with their sums. Users' totals of these runs are dropped when the users are next due.

        FOREVER drops none: the end of the input does not end an experiment.
        """
        if bound == FOREVER:
            return
        for run in self.runs.drop_ended(bound):
            scopes = {(run.number, day) for day in run.scopes}
            self._scopes_gone |= scopes
            self._scopes_changed -= scopes

    def changes(self, users: Mapping[str, User], unique_users: UniqueUserPanes, bound: int, oldest_kept: int) -> EnrolmentChanges:
        """Enrol all waiting lists and return what to commit. `bound` is that of ended sessions (ms), `oldest_kept` that of panes."""
        totals, totals_gone, due = self._enrol(users, unique_users, bound, oldest_kept)
        self._restarted = False
        return EnrolmentChanges(totals, totals_gone, due, *self._scope_changes(oldest_kept))

    def advance(self, bound: int, next_due: int) -> int:
        """Return the new `enrolled_before`: all users that were due before it have been processed, and so have the lists of final panes."""
        processed = min(bound, next_due)
        if processed not in (NEVER, FOREVER):
            processed = pane_start(processed - self._longest_wait_ms, self._rules.pane_ms)
        self.enrolled_before = max(self.enrolled_before, processed)
        if self.enrolled_before > self._former_until:  # no list of former rules is left
            self._longest_wait_ms = self._wait_ms
        return self.enrolled_before

    def _enrol(
        self, users: Mapping[str, User], unique_users: UniqueUserPanes, bound: int, oldest_kept: int
    ) -> tuple[dict[str, bytes], list[str], dict[str, int]]:
        if not self._rules.users_counted:
            former, self.records = list(self.records), {}
            return {}, former, {}
        assert not self.missing_records(), "lists of a user are enrolled without the user's record"
        lists = FinalLists([self.waiting.get(user_id, ()) for user_id in self.records])
        totals, seen = self._totals_batch(lists, bound, oldest_kept), unique_users.new_batch(lists)
        loaded = [
            self._add_user(users[user_id], stored, label_runs, lists, totals, seen, bound)
            for (user_id, stored), label_runs in zip(self.records.items(), lists.label_runs, strict=True)
        ]
        until: dict[int, int] = {}
        until_earlier: dict[CovariatePeriod, int] = {}
        if totals is not None:
            self._scopes_changed |= totals.sum()
            until, until_earlier = self._matter_until(totals.targets.rules)
        if seen is not None:
            unique_users.add(seen)
        changed: dict[str, bytes] = {}
        gone: list[str] = []
        due: dict[str, int] = {}
        for (user_id, stored), record in zip(self.records.items(), loaded, strict=True):
            entries, earlier, last_seen = record.entries, record.earlier, record.last_seen
            flushed = bound == FOREVER and not users[user_id].sessions
            if flushed or not (entries or earlier or last_seen):
                if stored is not None:
                    gone.append(user_id)
                continue
            if record.changed:
                changed[user_id] = encode_user_totals(list(entries.values()), list(earlier.values()), list(last_seen.values()))
            ends = [until[number] for number, _ in entries]
            if earlier:
                ends += [until_earlier[period] for period in earlier]
            if not ends and seen is not None:  # totals keep the rest of the record for as long as they matter themselves
                ends = [seen.relevant_until(last_seen)]
            due[user_id] = max(bound, min(ends))
        self.waiting, self.records = {}, {}
        return changed, gone, due

    def _totals_batch(self, lists: FinalLists, bound: int, oldest_kept: int) -> TotalsBatch | None:
        """Begin to add lists to users' totals in experiments. None if experiments are not counted."""
        rules = self._rules.experiments
        if rules is None or self._layout is None:
            return None
        self.end_runs(bound)
        self._forget_feedback(oldest_kept)
        targets = ExposureTargets(
            self.runs,
            rules,
            lists.labels,
            pane_ms=self._rules.pane_ms,
            counted_from=self.counted_from,
            enrolled_before=self.enrolled_before,
            oldest_kept=oldest_kept,
        )
        return TotalsBatch(targets, self._layout, lists, self._counts)

    def _add_user(
        self,
        user: User,
        stored: bytes | None,
        label_runs: Sequence[LabelRun],
        lists: FinalLists,
        totals: TotalsBatch | None,
        seen: LastSeenBatch | None,
        bound: int,
    ) -> UserRecord:
        """Read a user's record and add the user's waiting lists to both batches."""
        record = UserRecord({}, {}, {}, bool(label_runs))
        if stored is not None:
            stored_totals, earlier, last_seen = decode_user_totals(stored)
            if totals is not None:
                totals.restore(record, stored_totals, earlier)
            if seen is not None and last_seen:
                oldest = lists.times[label_runs[0][1]] if label_runs else self.enrolled_before if user.sessions else bound
                record.last_seen = seen.restore(last_seen, oldest // self._rules.pane_ms)
            kept = len(record.entries) + len(record.earlier) + len(record.last_seen)
            record.changed = record.changed or kept < len(stored_totals) + len(earlier) + len(last_seen)
        if label_runs and totals is not None:
            totals.add_lists(record, label_runs)
        if label_runs and seen is not None:
            seen.add_lists(record.last_seen, label_runs)
        return record

    def _matter_until(self, rules: ExperimentRules) -> tuple[dict[int, int], dict[CovariatePeriod, int]]:
        """When (ms) a user's part in each run, and in each period before an experiment, may no longer matter."""
        wait_ms = self._rules.pane_ms + self._wait_ms
        until = {run.number: _run_until(run, rules, wait_ms) for run in self.runs}
        until_earlier = {period: _period_until(period, rules, wait_ms) for period in rules.earlier}
        until_earlier |= {run.earlier: until[run.number] for run in self.runs if run.earlier is not None}
        return until, until_earlier

    def _scope_changes(self, oldest_kept: int) -> tuple[dict[str, bytes], list[str]]:
        """Return the scopes that changed, and the names of those to delete: of ended runs, and of days before the oldest pane."""
        runs = self.runs
        for run in runs:
            for day in [day for day in run.scopes if day != WHOLE and (day + 1) * DAY_MS <= oldest_kept]:
                del run.scopes[day]
                self._scopes_changed.discard((run.number, day))
                self._scopes_gone.add((run.number, day))
        of_number = runs.of_number
        scopes = {scope_name(number, day): encode_scope(of_number[number].scopes[day]) for number, day in self._scopes_changed}
        gone = sorted(scope_name(*scope) for scope in self._scopes_gone - self._scopes_changed)
        self._scopes_changed, self._scopes_gone = set(), set()
        return scopes, gone

    def _forget_feedback(self, oldest_kept: int) -> None:
        """Drop the days before every experiment and before the panes that are kept."""
        first = min([oldest_kept, *(run.first for run in self.runs)]) // DAY_MS
        for day in [day for day in self.feedback_by_day if day < first]:
            del self.feedback_by_day[day]


def _run_until(run: ExperimentRun, rules: ExperimentRules, wait_ms: int) -> int:
    """When (ms) a run may be over."""
    last, end = run.last + rules.idle_ms, rules.span(run.experiment).end_ms
    return last if end is None else min(last, end + 2 * wait_ms)


def _period_until(earlier: CovariatePeriod, rules: ExperimentRules, wait_ms: int) -> int:
    """When (ms) the experiment that follows a covariate period should have begun, or is over."""
    last, end = earlier.start_ms + rules.idle_ms, rules.span(earlier.experiment).end_ms
    return (last if end is None else min(last, end)) + 2 * wait_ms
