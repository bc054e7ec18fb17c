"""Enrolment: adding final lists to what is counted of users, in experiments and in the panes' unique users.

A list is enrolled when its session has closed, or when all lists of its turn are final, whichever is first. It never changes after that.
A user's earlier lists are never enrolled after later ones. All lists that wait are enrolled together, once per commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

import msgspec

from streammetrics.enrolment.batch import EnrolmentBatch, RecordChanges
from streammetrics.enrolment.lifetimes import RecordLifetimes
from streammetrics.enrolment.rows import UserTotalsLayout
from streammetrics.enrolment.rules import EVER, EnrolmentRules
from streammetrics.enrolment.runs import ExperimentRuns
from streammetrics.enrolment.scope_store import ScopeStore
from streammetrics.enrolment.split import ExposureSplit
from streammetrics.enrolment.targets import ExposureTargets
from streammetrics.enrolment.totals import TotalsBatch
from streammetrics.events.event_time import FOREVER, NEVER, pane_start
from streammetrics.events.model import Labels
from streammetrics.sessions.exposures import FinalExposure
from streammetrics.sessions.state import ShownList, User
from streammetrics.sessions.store import FinalEvents
from streammetrics.windows.final_lists import FinalList, FinalLists
from streammetrics.windows.unique_user_panes import UniqueUserPanes


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


class EnrolmentState(msgspec.Struct, array_like=True):
    """What is stored of `Enrolments` besides sums and users' records.

    All lists of panes before `enrolled_before` (ms) are enrolled, except those that do not count: in experiments, lists before
    `counted_from` (ms). `longest_wait_ms` is the longest time that a list waits for enrolment. `spans` is (experiment, configured start,
    configured end), for experiments with a run and one of both.
    """

    enrolled_before: int = NEVER
    counted_from: int = NEVER
    longest_wait_ms: int = 0
    spans: list[tuple[str, int | None, int | None]] = []


class KnownRuns(Protocol):
    """Who knows the experiment runs of a task."""

    @property
    def runs(self) -> ExperimentRuns: ...


class Enrolments:
    """Lists that wait to be enrolled, and what is summed over the users of each experiment run.

    `waiting` are lists that became final since the last commit, by user. `records` are the stored totals of users that are due or have
    waiting lists; None: the user has none. All lists of panes before `enrolled_before` (ms) are enrolled. Lists before `counted_from`
    (ms) do not count: experiments were switched on then.

    Lists up to `_former_until` (ms) may have been shown under former rules. While some of them may wait, `_longest_wait_ms` is the longest
    wait under any of these rules.
    """

    __slots__ = (
        "_counts",
        "_exposed",
        "_former_until",
        "_labels",
        "_layout",
        "_longest_wait_ms",
        "_restarted",
        "_rules",
        "_scopes",
        "_wait_ms",
        "counted_from",
        "enrolled_before",
        "records",
        "waiting",
    )

    def __init__(self, rules: EnrolmentRules, layout: UserTotalsLayout | None, labels: KnownRuns, counts: Counter[tuple[str, int]]) -> None:
        self._rules, self._layout, self._labels, self._counts = rules, layout, labels, counts
        self._scopes = ScopeStore()
        self._restarted = False
        self._wait_ms = self._longest_wait_ms = rules.enrolment_wait_ms
        self._former_until = NEVER
        self._exposed: dict[str, list[FinalExposure]] = {}
        self.waiting: dict[str, list[FinalList]] = {}
        self.records: dict[str, bytes | None] = {}
        self.enrolled_before = NEVER
        self.counted_from = NEVER

    def restore(self, stored: EnrolmentState, newest: int) -> None:
        """Continue from the last commit. `newest`: the time (ms) of its newest event. Follow with `restore_scopes` or `restart`."""
        self.enrolled_before = stored.enrolled_before
        self._longest_wait_ms, self._former_until = max(self._wait_ms, stored.longest_wait_ms), newest

    def restore_scopes(self, stored: EnrolmentState, scopes: Mapping[str, bytes]) -> None:
        """Continue the sums of experiments, which are counted as at the last commit. The runs are restored."""
        self.counted_from = stored.counted_from
        self._scopes.restore(self.runs, scopes)

    def restart(self, newest: int, scopes: Iterable[str]) -> None:
        """Drop all that is known of experiments: they were switched on or off since the last commit.

        Lists up to the newest event may not have been counted, so counting begins after it. Users' totals of former runs are dropped
        when these users are next due.
        """
        self._scopes.drop_all(scopes)
        self.counted_from = newest if newest == NEVER else newest + 1
        self._restarted = True

    def stored(self) -> EnrolmentState:
        """Return what the next commit writes besides sums and records."""
        return EnrolmentState(self.enrolled_before, self.counted_from, self._longest_wait_ms, self._spans())

    def _spans(self) -> list[tuple[str, int | None, int | None]]:
        """The configured start and end of each experiment that has a run, if there is one of both."""
        rules = self._rules.experiments
        spans = {} if rules is None else {run.experiment: rules.span(run.experiment) for run in self.runs}
        return [(experiment, *span) for experiment, span in sorted(spans.items()) if span != EVER]

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

    def _add_lists(self, user_id: str, lists: Iterable[ShownList]) -> None:
        """Let final lists wait that are not enrolled already, except those that do not count.

        If only experiments count users, lists without experiments matter only as covariates: before the start of some experiment.
        Nothing is asked of the store for those alone; they are enrolled together with the user's next list that has experiments.
        """
        waiting, experiments = self.waiting.setdefault(user_id, []), self._rules.experiments
        if self._rules.unique_users is None and experiments is not None and experiments.earlier:
            lists = [shown for shown in lists if shown.experiments or experiments.is_earlier(shown.ts)]
        elif self._rules.unique_users is None:
            lists = [shown for shown in lists if shown.experiments]
        if experiments is None or not experiments.plans:
            waiting += [FinalList.of(shown, self._rules.join) for shown in lists]
            return
        for shown in lists:
            stages = experiments.stage_labels(shown.experiments, shown.segments)
            waiting.append(FinalList.of(shown, self._rules.join, stages))

    def fitting_variants(self, experiments: Labels, ts: int, closed_before: int) -> Labels:
        """Return those variants of a list that stay within `variants_max`, the first ones by experiment.

        Runs that have ended are dropped to make room.
        """
        rules = self._rules.experiments
        if rules is None or not experiments:
            return experiments
        runs, room = self.runs, rules.variants_max - self.runs.variants()
        if room >= 0 and (runs.know_all(experiments, ts) or runs.new_variants(experiments, ts) <= room):
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
        self._scopes.end_runs(self.runs, bound)

    def changes(self, users: Mapping[str, User], unique_users: UniqueUserPanes, bound: int, oldest_kept: int) -> EnrolmentChanges:
        """Enrol all waiting lists and return what to commit. `bound` is that of ended sessions (ms), `oldest_kept` that of panes."""
        records = self._enrol(users, unique_users, bound, oldest_kept)
        self._restarted = False
        return EnrolmentChanges(*records, *self._scopes.changes(self.runs, oldest_kept))

    def advance(self, bound: int, next_due: int) -> int:
        """Return the new `enrolled_before`: all users that were due before it have been processed, and so have the lists of final panes."""
        processed = min(bound, next_due)
        if processed not in (NEVER, FOREVER):
            processed = pane_start(processed - self._longest_wait_ms, self._rules.pane_ms)
        self.enrolled_before = max(self.enrolled_before, processed)
        if self.enrolled_before > self._former_until:  # no list of former rules is left
            self._longest_wait_ms = self._wait_ms
        return self.enrolled_before

    def _enrol(self, users: Mapping[str, User], unique_users: UniqueUserPanes, bound: int, oldest_kept: int) -> RecordChanges:
        if not self._rules.users_counted:
            former, self.records = list(self.records), {}
            return RecordChanges({}, former, {})
        assert not self.missing_records(), "lists of a user are enrolled without the user's record"
        assert self._exposed.keys() <= self.records.keys(), "exposures of a user are counted without the user's record"
        lists = FinalLists([self.waiting.get(user_id, ()) for user_id in self.records])
        totals, seen, pane_ms = self._totals_batch(lists, bound, oldest_kept), unique_users.new_batch(lists), self._rules.pane_ms
        split = None if totals is None else ExposureSplit(totals.targets)
        batch = EnrolmentBatch(
            users,
            self.records,
            lists,
            totals,
            seen,
            split,
            self._exposed,
            pane_ms=pane_ms,
            enrolled_before=self.enrolled_before,
            bound=bound,
        )
        lifetimes = None
        if totals is not None:
            self._scopes.note(totals.sum())
        if split is not None and totals is not None:
            self._scopes.note(split.sum())
            lifetimes = RecordLifetimes(self.runs, totals.targets.rules, pane_ms + self._wait_ms)
        if seen is not None:
            unique_users.add(seen)
        self.waiting, self.records, self._exposed = {}, {}, {}
        return batch.changes(lifetimes)

    def _totals_batch(self, lists: FinalLists, bound: int, oldest_kept: int) -> TotalsBatch | None:
        """Begin to add lists to users' totals in experiments. None if experiments are not counted."""
        rules = self._rules.experiments
        if rules is None or self._layout is None:
            return None
        self.end_runs(bound)
        targets = ExposureTargets(
            self.runs,
            rules,
            lists.labels,
            lists.stages,
            pane_ms=self._rules.pane_ms,
            counted_from=self.counted_from,
            enrolled_before=self.enrolled_before,
            oldest_kept=oldest_kept,
        )
        return TotalsBatch(targets, self._layout, lists, self._counts)
