"""The experiments of all tasks, merged: their stored state, their frozen scales, and their reports. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from streammetrics.engine.signature import Signature, fit_of
from streammetrics.engine.task_state import ControlRecord
from streammetrics.enrolment.feedback_days import decode_feedback_day
from streammetrics.enrolment.rules import Span
from streammetrics.enrolment.scopes import WHOLE, Scope
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.experiments import ExperimentReport, FeedbackCounts, StoredSums, build_report, choose_scales, new_decisions
from streammetrics.experiments.comparison_warnings import same_people
from streammetrics.experiments.experiment_report import SINCE_START, THIS_DAY
from streammetrics.experiments.experiment_state import states_of
from streammetrics.experiments.hours import Hours, MergedRows
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import Reactions
from streammetrics.reports.experiment_lists import LaterLists
from streammetrics.reports.experiment_warnings import user_warnings
from streammetrics.reports.history import EarlierSnapshots, HistorySnapshot, earlier_snapshots
from streammetrics.reports.merged_runs import (
    Change,
    FrozenScales,
    MergedRun,
    ScopeReader,
    TaskScopes,
    shown_runs,
    started_runs,
    sum_scopes,
    times_of,
)
from streammetrics.reports.report import SinceReports
from streammetrics.reports.rules import ReportRules
from streammetrics.statistics.measures import Measures
from streammetrics.windows.panes import WindowRules
from streammetrics.words.names import name_order
from streammetrics.words.sentences import DataWarning, join, named, say


class JudgedInput(NamedTuple):
    """What a report is made of."""

    measures: Measures
    policy: Policy
    stored: StoredSums
    scales: Mapping[str, float]
    warnings: Sequence[DataWarning]
    """Those that come from other experiments."""

    def report(self, since_ms: int | None = None) -> ExperimentReport:
        """Return the report. since_ms: see `build_report`."""
        report = build_report(self.measures, self.policy, self.stored, self.scales, since_ms=since_ms)
        of_users = user_warnings(report) if report.scope == SINCE_START else ()
        return replace(report, warnings=(*report.warnings, *self.warnings, *of_users))

    def earlier(self, after_ms: int, before_ms: int) -> Iterator[tuple[int, HistorySnapshot]]:
        """Yield what the history lacks between two times: see `earlier_snapshots`."""
        return earlier_snapshots(self.measures, self.policy, self.stored, self.scales, after_ms, before_ms)


class MergedExperiments:
    """Collects what tasks store of experiments. `report_rules`: None if experiments are not reported.

    `signature` is the engine's. If experiments are on in some tasks and off in others, or here, their numbers are incomplete.
    """

    def __init__(self, rules: WindowRules, signature: Signature, report_rules: ReportRules | None, later_lists: LaterLists) -> None:
        self._later_lists = later_lists
        self.report_rules, self._rules, self._signature = report_rules, rules, signature
        self._idle_ms = FOREVER if report_rules is None else report_rules.idle_ms
        self._patience_ms = 0 if report_rules is None else report_rules.patience_ms
        self._scales = FrozenScales(self._idle_ms)
        self.has_scales = False
        """Whether frozen scales were read: they must be known before tasks are read."""
        self._controls: dict[int, ControlRecord] = {}
        self._started: dict[int, dict[str, MergedRun]] = {}
        self._scopes: dict[int, TaskScopes] = {}
        self._readers: dict[int, ScopeReader] = {}
        self._merged_rows: dict[tuple[str, int], MergedRows] = {}
        self._feedback_days: dict[int, dict[int, tuple[int, int]]] = {}
        self._judged: tuple[object, tuple[ExperimentReport, ...]] = None, ()
        """The last reports, and what they were made for."""
        self._looked: dict[str, int] = {}
        """By experiment, the last list of the arms whose verdicts were looked at when they had stopped."""
        self._inputs: Mapping[tuple[str, str], JudgedInput] = {}
        """What the last reports were made of, by experiment and scope."""

    def update(self, task: int, control: ControlRecord, rows: Mapping[str, bytes], feedback_days: Mapping[str, bytes]) -> None:
        """Update from the committed state of a task. `rows` are its stored rows of experiments."""
        self._controls[task] = control
        self._feedback_days[task] = {int(day): decode_feedback_day(row) for day, row in feedback_days.items()}
        names = started_runs(control, rows) if fit_of(control.signature, self._signature) == "same" else {}
        self._started[task] = times_of(control, names)
        self._scopes[task] = self._readers.setdefault(task, ScopeReader()).read(names, rows)

    def _controls_of(self, tasks: int) -> list[ControlRecord]:
        return [self._controls[task] for task in sorted(self._controls) if task < tasks]

    def have_same_rules(self, tasks: int) -> bool:
        """Return whether experiments are configured alike in all tasks and here."""
        return all(fit_of(control.signature, self._signature) == "same" for control in self._controls_of(tasks))

    def _runs(self, tasks: int) -> dict[str, MergedRun]:
        """Return the shown run of each experiment."""
        started = [of_task for task, of_task in self._started.items() if task < tasks]
        return shown_runs(self._controls_of(tasks), started, idle_ms=self._idle_ms, lateness_ms=self._rules.lateness_ms)

    def stored(self, tasks: int, days: Collection[int] | None = None) -> dict[tuple[str, int], StoredSums]:
        """Return the stored state of every experiment by scope (a UTC day since the epoch, or WHOLE), merged over tasks.

        Only one run of each experiment is included. days: only of these scopes.
        """
        runs = self._runs(tasks)
        scopes: dict[tuple[str, int], list[Scope]] = {}
        for task, of_task in self._scopes.items():
            for key, scope in of_task.items():
                name, day = key
                if (days is None or day in days) and task < tasks and name in runs and runs[name].holds(self._started[task][name].first):
                    scopes.setdefault(key, []).append(scope)
        keys = {key for of_task in self._scopes.values() for key in of_task}
        self._merged_rows = {key: rows for key, rows in self._merged_rows.items() if key in keys}
        seen, enrolled = self._variants_seen(tasks), self._enrolled_before(tasks)
        merged: dict[tuple[str, int], StoredSums] = {}
        for name, day in sorted(scopes, key=lambda key: (name_order(key[0]), key[1])):
            run_hours = merged[name, WHOLE].hours if (name, WHOLE) in merged else None
            stored = self._merged(name, day, scopes[name, day], runs[name], enrolled, tasks, run_hours)
            until = FOREVER if stored.end_ms is None else stored.end_ms - 1
            merged[name, day] = replace(stored, last_ms={variant: min(times.last, until) for variant, times in seen.get(name, {}).items()})
        return merged

    def _with_later_lists(self, stored: StoredSums, report_rules: ReportRules, tasks: int) -> StoredSums:
        """Add what tells whether arms have stopped. Feedback counts up to the day on which the first one has."""
        stored = replace(stored, lists_since=self._later_lists.of(stored.experiment, stored.last_ms))
        states = states_of(report_rules.measures_of(stored), report_rules.policy(stored.experiment), stored)
        last_ms = min(states.stopped.values()) if states.stopped else states.whole.since_ms
        if last_ms is None:
            return stored
        joined = self._feedback_counts(tasks, stored.from_ms // DAY_MS, min(last_ms, stored.to_ms - 1) // DAY_MS)
        return replace(stored, joined=joined)

    def _merged(
        self, name: str, day: int, scopes: Sequence[Scope], run: MergedRun, enrolled: int, tasks: int, run_hours: Hours | None
    ) -> StoredSums:
        """Merge one scope of several tasks. `enrolled`: the time up to which all lists count. `run_hours`: None in the scope of a run."""
        wide = None if self.report_rules is None else self.report_rules.measures.with_covariates
        scope, is_whole = sum_scopes(scopes, wide, self._merged_rows.setdefault((name, day), {})), day == WHOLE
        first, end = self._counted_span(name, tasks)
        end_ms = None if end == FOREVER else end
        if not is_whole:
            first, end = max(first, day * DAY_MS), min(end, (day + 1) * DAY_MS)
        from_ms, controls = max(run.first, first), self._controls_of(tasks)
        former = [last for control in controls for experiment, last in control.labels.ended if experiment == name and last < run.first]
        return StoredSums(
            experiment=name,
            scope=SINCE_START if is_whole else THIS_DAY,
            moments=scope.moments.by_variant(),
            entry_moments=scope.moments,
            entry_users=scope.users,
            hours=scope.hours,
            run_hours=scope.hours if run_hours is None else run_hours,
            pairs=scope.pairs,
            first_list_users=scope.hours.new_users(),
            exposed=scope.hours.exposed(),
            reacting={variant: (users, unmatched) for variant, (users, unmatched) in scope.reacting.items()},
            reactions={variant: Reactions(*sums) for variant, sums in scope.reactions.items()},
            joined=self._feedback_counts(tasks, from_ms // DAY_MS, (end - 1) // DAY_MS),
            credits=scope.credits,
            credit_actions=() if self.report_rules is None else self.report_rules.credit_actions,
            segments=() if self.report_rules is None else self.report_rules.segments,
            known_from_ms=self._first_snapshot_ms(run) if is_whole else day * DAY_MS + 1,
            from_ms=from_ms,
            to_ms=min(enrolled, end),
            open_lists=self.open_lists(tasks).get(name, 0),
            former_last_ms=max(former, default=None),
            end_ms=end_ms,
            newest_ms=max((control.progress.newest for control in self._controls_of(tasks)), default=NEVER),
        )

    def _variants_seen(self, tasks: int) -> dict[str, dict[str, MergedRun]]:
        """Return when each variant first appeared in any task, or an earlier time, and when it had its latest list, by experiment."""
        seen: dict[str, dict[str, MergedRun]] = {}
        for control in self._controls_of(tasks):
            for group, last, first in control.labels.groups:
                if group.experiment and not group.segment:
                    of_variant = seen.setdefault(group.experiment, {})
                    run = of_variant.get(group.variant, MergedRun(first, last))
                    of_variant[group.variant] = MergedRun(min(run.first, first), max(run.last, last))
        return seen

    def _counted_span(self, name: str, tasks: int) -> tuple[int, int]:
        """Return the configured start of an experiment (NEVER without one), and its end (FOREVER without one)."""
        spans = [
            Span(start, end)
            for control in self._controls_of(tasks)
            for experiment, start, end in control.enrolment.spans
            if experiment == name
        ]
        first, last = max((span.first for span in spans), default=NEVER), min((span.last for span in spans), default=FOREVER)
        return first, last if last == FOREVER else last + 1

    def _enrolled_before(self, tasks: int) -> int:
        """Return the event time up to which all final lists of all tasks are enrolled. If the input has ended, no list after it counts."""
        controls = self._controls_of(tasks)
        enrolled = min((control.enrolment.enrolled_before for control in controls), default=NEVER)
        newest = max((control.progress.newest_supported for control in controls), default=NEVER)
        return newest - self._rules.attribution_ms + 1 if enrolled == FOREVER and newest != NEVER else enrolled

    def _first_snapshot_ms(self, run: MergedRun) -> int:
        """Return the least event time up to which all tasks can be complete when a run is shown. For the earlier run, that time is
        always less.

        A list may be enrolled as soon as its session has closed. Completeness trails the admission bound by `attribution_ms` and
        `patience_ms`. The earlier run is shown until that bound is `idle_ms` past its last list.
        """
        return run.first - self._rules.attribution_ms - self._patience_ms

    def _feedback_counts(self, tasks: int, first: int, last: int) -> FeedbackCounts:
        """Return the matched and unmatched feedback of the sessions that ended on these UTC days (both inclusive)."""
        of_tasks = [days for task, days in self._feedback_days.items() if task < tasks]
        counts_of_days = [counts for days in of_tasks for day, counts in days.items() if first <= day <= last]
        return FeedbackCounts(sum(matched for matched, _ in counts_of_days), sum(unmatched for _, unmatched in counts_of_days))

    def scale_changes(self, tasks: int) -> dict[str, Change]:
        """Return the due changes of frozen scales: new scales, and the removal of expired ones.

        The stored scales must have been read (`update_scales`) before the tasks. Otherwise a change could belong to another run.
        """
        report_rules = self.report_rules
        if report_rules is None or not self.have_same_rules(tasks):
            return {}
        runs, due = self._runs(tasks), dict[str, Change]()
        for (name, _), stored in self.stored(tasks, [WHOLE]).items():
            frozen = self._scales.of(name, runs[name])
            chosen = choose_scales(report_rules.measures_of(stored), report_rules.policy(name), stored, frozen)
            chosen |= self._decisions(self._with_later_lists(stored, report_rules, tasks), report_rules, {**frozen, **chosen})
            due |= self._scales.add(name, runs[name], chosen)
        controls = self._controls_of(tasks)
        return due | self._scales.drop(controls, self._rules.lateness_ms) if len(controls) == tasks else due

    def _decisions(self, stored: StoredSums, report_rules: ReportRules, scales: Mapping[str, float]) -> dict[str, float]:
        """Return the verdicts to freeze: those of arms that have stopped, at the first look at which their last list counts."""
        states = states_of(report_rules.measures_of(stored), report_rules.policy(stored.experiment), stored)
        last_ms = max(states.stopped.values()) if states.stopped else states.whole.since_ms
        if last_ms is None or last_ms >= stored.to_ms or self._looked.get(stored.experiment) == last_ms:
            return {}
        self._looked[stored.experiment] = last_ms
        return new_decisions(build_report(report_rules.measures_of(stored), report_rules.policy(stored.experiment), stored, scales), scales)

    def update_scales(self, stored: Mapping[str, bytes]) -> None:
        """Update the frozen scales from all stored values."""
        self._scales.update(stored)
        self.has_scales = True

    def scales(self, tasks: int) -> dict[str, Mapping[str, float]]:
        """Return the frozen scales of every shown experiment, by measure. They never change during a run."""
        return {name: self._scales.of(name, run) for name, run in self._runs(tasks).items()}

    def reports(self, tasks: int, newest: int) -> tuple[ExperimentReport, ...]:
        """Return each experiment since its start and on the latest day that all tasks have enrolled. `newest`: see `newest_shown`.

        An experiment is judged once for each event time up to which all tasks have come. Tasks that are ahead of it add users at every
        commit. Their order would change a verdict that nothing new supports. A task that starts its sums again is judged at once.
        """
        controls, scales = self._controls_of(tasks), self.scales(tasks)
        enrolled = min(control.enrolment.enrolled_before for control in controls)
        judged_for = tasks, enrolled, scales, [control.enrolment.counted_from for control in controls]
        if enrolled in (NEVER, FOREVER) or self._judged[0] != judged_for:
            self._judged = judged_for, tuple(self._reports(tasks, newest, enrolled, scales))
        return self._judged[1]

    def _reports(self, tasks: int, newest: int, enrolled: int, scales: Mapping[str, Mapping[str, float]]) -> Iterator[ExperimentReport]:
        report_rules, controls = self.report_rules, self._controls_of(tasks)
        if report_rules is None:
            return
        today = (newest if enrolled == FOREVER else enrolled - 1) // DAY_MS
        dropped = any((today + 1) * DAY_MS <= control.panes.oldest_kept for control in controls)
        of_scopes = self.stored(tasks, [WHOLE] if dropped else [WHOLE, today])
        all_stored = {key: self._with_later_lists(stored, report_rules, tasks) for key, stored in of_scopes.items()}
        twins = _same_people({name: stored for (name, day), stored in all_stored.items() if day == WHOLE}, report_rules)
        self._inputs = {
            (name, stored.scope): JudgedInput(
                report_rules.measures_of(stored),
                report_rules.policy(name),
                stored,
                scales[name],
                twins.get(name, []) if day == WHOLE else [],
            )
            for (name, day), stored in all_stored.items()
        }
        yield from (experiment.report() for experiment in self._inputs.values())

    def open_lists(self, tasks: int) -> dict[str, int]:
        """Return by experiment the lists that do not count, because the input ended before all their time for feedback."""
        total = Counter[str]()
        for control in self._controls_of(tasks):
            total.update(dict(control.enrolment.open_lists))
        return dict(total)

    def earlier_snapshots(self) -> EarlierSnapshots:
        """Return a function that gives earlier snapshots of the experiments of the last reports. It may be called in any thread."""
        inputs = self._inputs

        def earlier(experiment: str, after_ms: int, before_ms: int) -> Iterable[tuple[int, HistorySnapshot]]:
            stored = inputs.get((experiment, SINCE_START))
            return () if stored is None else stored.earlier(after_ms, before_ms)

        return earlier

    def since_reports(self) -> SinceReports:
        """Return a function that judges the last reports again, for a step that began at a time (event time, ms). It may be called in any
        thread. It takes the experiment, the scope and the time, and returns None for an experiment without a report.
        """
        inputs = self._inputs

        def since(experiment: str, scope: str, since_ms: int) -> ExperimentReport | None:
            stored = inputs.get((experiment, scope))
            return None if stored is None else stored.report(since_ms)

        return since


def _same_people(stored: Mapping[str, StoredSums], report_rules: ReportRules) -> dict[str, list[DataWarning]]:
    """Return for each experiment the warnings about others whose arms have the same users."""
    warnings: dict[str, list[DataWarning]] = {}
    min_users = {name: report_rules.policy(name).min_users for name in stored}
    for one, other in combinations(stored, 2):
        twins = same_people(stored[one], stored[other], min_users[one])
        if twins is not None:
            for name, apart, pairs in ((one, other, twins.items()), (other, one, [(twin, arm) for arm, twin in twins.items()])):
                arms = join((say("{arm} as {twin}", arm=named(arm), twin=named(twin)) for arm, twin in pairs), ", ")
                told = say(
                    "its arms have the same users as those of {apart} ({arms}), so their effects cannot be told apart",
                    apart=named(apart),
                    arms=arms,
                )
                warnings.setdefault(name, []).append(DataWarning("same users", told, "give each experiment a salt of its own"))
    return warnings
