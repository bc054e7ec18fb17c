"""Committed state of all tasks -> one immutable Report: merged exactly, and shown only as far as all tasks have come.

Pure. `report` defines the content of a report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from streammetrics.engine.codec import Control, decode_control, decode_pane, decode_user_counts
from streammetrics.engine.experiment_runs import WHOLE
from streammetrics.engine.signature import Signature, differing, fit_of
from streammetrics.engine.stored_state import CommitMark, TaskView
from streammetrics.engine.user_sample import SampledTasks
from streammetrics.errors import StateError
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER, final_bound
from streammetrics.experiments import (
    SINCE_START,
    THIS_DAY,
    ExperimentReport,
    Joined,
    Stored,
    build_report,
    choose_stored_scales,
)
from streammetrics.metrics import TallyLayout
from streammetrics.reports.experiment_view import ExperimentView
from streammetrics.reports.late_events import late_inputs
from streammetrics.reports.merged_runs import Change, FrozenScales, MergedRun, shown_runs, started_runs, times_of
from streammetrics.reports.position_bias import PositionBiasReader, PositionBiasView
from streammetrics.reports.recent_lists import RecentReader
from streammetrics.reports.report import InputPosition, Report, Total
from streammetrics.reports.scopes import OF_RUN, ScopePart, ScopeParts, parts_of, scopes_of, sum_pairs, sum_scopes, sum_stages
from streammetrics.reports.unknown_names import merge_names
from streammetrics.reports.user_partitions import UserPartitions
from streammetrics.windows.panes import VIEWS, Pane, Window, WindowRules, WindowView, window_end
from streammetrics.windows.rolling import WindowAggregator
from streammetrics.windows.tally_deltas import add_tallies
from streammetrics.windows.unique_users import UniqueUserWindow, UniqueUserWindows, UserCountLayout


class ReportBuilder:
    """Collects the committed state of all tasks and builds reports from it.

    `signature` is the engine's. State of other rules is rejected with StateError, because its columns differ. If experiments are on in
    some tasks and off in others, or here, windows are shown but experiments are not. `known_names` has the known names by kind (see
    `events.unknown_names`), to suggest one for an unknown name.
    """

    def __init__(
        self,
        layout: TallyLayout,
        rules: WindowRules,
        settings: Mapping[str, Any],
        signature: Signature,
        experiments: ExperimentView | None = None,
        known_names: Mapping[str, Sequence[str]] = MappingProxyType({}),
        position_bias: PositionBiasView | None = None,
    ) -> None:
        self._position_bias = PositionBiasReader(position_bias)
        self._known_names = known_names
        self.layout = layout
        self.signature = signature
        self.rules = rules
        self.settings = settings
        self.aggregator = WindowAggregator(layout, rules, decode_pane)
        self.user_windows = UniqueUserWindows(UserCountLayout(layout.scorer), rules.pane_ms, decode_user_counts)
        self.marks: dict[int, CommitMark] = {}
        """The known commit of each task."""
        self.experiments = experiments
        self._idle_ms = FOREVER if experiments is None else experiments.idle_ms
        self._patience_ms = 0 if experiments is None else experiments.patience_ms
        self._scales = FrozenScales(self._idle_ms)
        self.has_scales = False
        """Whether frozen scales were read: they must be known before tasks are read."""
        self._started: dict[int, dict[str, MergedRun]] = {}
        self._scopes: dict[int, ScopeParts] = {}
        self._controls: dict[int, Control] = {}
        self._users: dict[int, int] = {}
        self._user_samples = SampledTasks()
        self._recent = None if experiments is None else RecentReader(self.aggregator, layout, experiments.deciding)
        self._withheld: set[tuple[int, WindowView, int]] = set()
        self._withheld_count = 0

    def panes_from(self, task: int) -> int | None:
        """Return the start from which a task's panes may have changed since the last update; None: all panes."""
        control = self._controls.get(task)
        return None if control is None or control.pane_from == NEVER else control.pane_from

    def user_counts_from(self, task: int) -> int | None:
        """Return the same for the user counts of panes."""
        control = self._controls.get(task)
        return None if control is None or control.enrolled_before == NEVER else control.enrolled_before

    def update(self, task: int, view: TaskView) -> None:
        """Update from a task's committed state, with its panes since `panes_from` and its user counts since `user_counts_from`.

        If the view is a snapshot (`is_snapshot`), it has all panes. A store may lose its last commits, and earlier knowledge is then
        wrong.
        """
        control = decode_control(view.control)
        fit = fit_of(control.signature, self.signature)
        if fit in ("measures", "other"):
            then, now = differing(str(control.signature), str(self.signature))
            why = f"the state of task {task} was made by other rules than this process has; use the same configuration for both"
            raise StateError(f"{why}\n  stored: {then}\n  now:    {now}")
        self.aggregator.update(task, view.panes, None if view.is_snapshot else self.panes_from(task), control.oldest_kept)
        self.user_windows.update(task, view.user_counts, control.oldest_kept, view.is_snapshot)
        self._controls[task] = control
        self.marks[task] = view.mark
        self._users[task] = view.users - control.users_without_sessions
        self._user_samples.update(task, control.users_sampled)
        of_experiments = self._position_bias.update(task, view.experiments)
        names = started_runs(control, of_experiments) if fit == "same" else {}
        self._started[task] = times_of(control, names)
        self._scopes[task] = scopes_of(names, parts_of(control), of_experiments)

    def _controls_of(self, tasks: int) -> list[Control]:
        return [self._controls[task] for task in sorted(self._controls) if task < tasks]

    def _have_same_rules(self, tasks: int) -> bool:
        """Return whether experiments are configured alike in all tasks and here. Otherwise their numbers are incomplete."""
        return all(fit_of(control.signature, self.signature) == "same" for control in self._controls_of(tasks))

    def _runs(self, tasks: int) -> dict[str, MergedRun]:
        """Return the shown run of each experiment."""
        started = [of_task for task, of_task in self._started.items() if task < tasks]
        return shown_runs(self._controls_of(tasks), started, idle_ms=self._idle_ms, lateness_ms=self.rules.lateness_ms)

    def stored(self, tasks: int) -> dict[tuple[str, int], Stored]:
        """Return the stored state of every experiment by scope (a UTC day since the epoch, or WHOLE), merged over tasks.

        Only one run of each experiment is included.
        """
        parts: dict[tuple[str, int], list[ScopePart]] = {}
        runs = self._runs(tasks)
        for task, scopes in self._scopes.items():
            for key, own in scopes.items():
                name, _ = key
                if task < tasks and name in runs and runs[name].holds(self._started[task][name].first):
                    parts.setdefault(key, []).extend(own)
        since, enrolled = self._variants_since(tasks), self._enrolled_before(tasks)
        wide = None if self.experiments is None else self.experiments.measures.with_covariates
        merged = {key: sum_scopes([part.sums for part in own], wide) for key, own in parts.items()}
        return {
            (name, day): Stored(
                experiment=name,
                scope=SINCE_START if day == WHOLE else THIS_DAY,
                moments=scope.moments,
                first_exposures=scope.first_exposures,
                exposed=scope.exposed,
                multi_exposed_users=scope.multi_exposed,
                joined=self._feedback_counts(tasks, runs[name].first // DAY_MS, FOREVER)
                if day == WHOLE
                else self._feedback_counts(tasks, day, day),
                credits=scope.credits if all(part.name == OF_RUN for part in parts[name, day]) else {},
                credit_actions=() if self.experiments is None else self.experiments.credit_actions,
                known_from_ms=self._first_snapshot_ms(runs[name]) if day == WHOLE else day * DAY_MS + 1,
                variants_since_ms=since.get(name, {}),
                from_ms=runs[name].first if day == WHOLE else max(runs[name].first, day * DAY_MS),
                to_ms=enrolled if day == WHOLE else min(enrolled, (day + 1) * DAY_MS),
                stages=sum_stages(parts[name, day], wide),
                pairs=sum_pairs(parts[name, day]),
            )
            for (name, day), scope in sorted(merged.items())
        }

    def _variants_since(self, tasks: int) -> dict[str, dict[str, int]]:
        """Return the event time at which each variant first appeared in any task, or an earlier one, by experiment."""
        since: dict[str, dict[str, int]] = {}
        for control in self._controls_of(tasks):
            for group, _, first in control.groups:
                if group.experiment and not group.segment:
                    known = since.setdefault(group.experiment, {})
                    known[group.variant] = min(known.get(group.variant, first), first)
        return since

    def _enrolled_before(self, tasks: int) -> int:
        """Return the event time up to which all final lists of all tasks are enrolled; the newest event's if the input has ended."""
        controls = self._controls_of(tasks)
        enrolled = min((control.enrolled_before for control in controls), default=NEVER)
        return max((control.newest for control in controls), default=NEVER) if enrolled == FOREVER else enrolled

    def _first_snapshot_ms(self, run: MergedRun) -> int:
        """Return the least event time up to which all tasks can be complete when a run is shown. For the earlier run, that time is
        always less.

        A list may be enrolled as soon as its session has closed. Completeness trails the admission bound by `attribution_ms` and
        `patience_ms`. The earlier run is shown until that bound is `idle_ms` past its last list.
        """
        return run.first - self.rules.attribution_ms - self._patience_ms

    def scale_changes(self, tasks: int) -> dict[str, Change]:
        """Return the due changes of frozen scales: new scales, and the removal of expired ones.

        The stored scales must have been read (`update_scales`) before the tasks. Otherwise a change could belong to another run.
        """
        if self.experiments is None or not self._have_same_rules(tasks):
            return {}
        view, runs, due = self.experiments, self._runs(tasks), dict[str, Change]()
        for (name, day), stored in self.stored(tasks).items():
            if day == WHOLE:
                frozen = self._scales.of(name, runs[name])
                due |= self._scales.add(name, runs[name], choose_stored_scales(view.measures_of(stored), view.policy(name), stored, frozen))
        controls = self._controls_of(tasks)
        return due | self._scales.drop(controls, self.rules.lateness_ms) if len(controls) == tasks else due

    def update_scales(self, stored: Mapping[str, bytes]) -> None:
        """Update the frozen scales from all stored values."""
        self._scales.update(stored)
        self.has_scales = True

    def scales(self, tasks: int) -> dict[str, Mapping[str, float]]:
        """Return the frozen scales of every shown experiment, by measure. They never change during a run."""
        return {name: self._scales.of(name, run) for name, run in self._runs(tasks).items()}

    def final_span(self, report: Report) -> tuple[int, int] | None:
        """Return the times from which and before which all tasks have every final pane; None while a task has not committed.

        `report` is the last one.
        """
        end = next((window.end_ms for window in report.windows if window.view == "final"), None)
        if end is None or report.tasks_committed < report.tasks:
            return None
        return max(control.oldest_kept for control in self._controls_of(report.tasks)), end

    def final_panes(self, report: Report, first_ms: int) -> Iterator[tuple[int, Pane]]:
        """Yield the start and the content of final panes, merged over all tasks, from `first_ms` on, ascending.

        `report` is the last one. No pane is yielded that some task has dropped, and none while a task has not committed.
        """
        span = self.final_span(report)
        if span is not None:
            for start in self.aggregator.starts(max(first_ms, span[0]), span[1]):
                yield start, self.aggregator.pane(start)

    def report(self, tasks: int) -> Report:
        """Build a report. `tasks` is the number of all tasks, committed or not."""
        controls = self._controls_of(tasks)
        missing = len(controls) < tasks or not controls
        whole = not missing and self._have_same_rules(tasks)
        watermark = NEVER if missing else min(control.watermark for control in controls)
        shown = NEVER if missing else min(control.shown_watermark(self.rules.lateness_ms) for control in controls)
        newest = newest_shown(controls)
        oldest_kept = max((control.oldest_kept for control in controls), default=NEVER)
        windows = tuple(
            self.aggregator.window(window_ms, view, shown, oldest_kept, newest) for window_ms in self.rules.windows_ms for view in VIEWS
        )
        self._count_withheld(windows)
        final = final_bound(shown, self.rules.lateness_ms, self.rules.attribution_ms)
        counts: Counter[tuple[str, str]] = Counter()
        for control in controls:
            for reason, topic, count in control.counts:
                counts[reason, control.topics[topic]] += count
        return Report(
            rules=str(controls[0].signature) if controls else "",
            settings=self.settings,
            tasks=tasks,
            tasks_committed=len(controls),
            watermark_ms=_shown(watermark),
            final_ms=_shown(final),
            ended=watermark == FOREVER,
            inputs=tuple(self._inputs()),
            late_inputs=tuple(late_inputs((task, control) for task, control in sorted(self._controls.items()) if task < tasks)),
            windows=windows,
            totals=self._totals(controls),
            counts=dict(counts),
            users_open=sum(self._users.values()),
            sessions_open=sum(control.sessions_open for control in controls),
            withheld=self._withheld_count,
            experiments=tuple(self._experiments(controls, tasks)) if whole else (),
            entered_ms=_shown(min(control.enrolled_before for control in controls)) if whole else None,
            user_windows=tuple(self._user_windows(controls, newest)) if whole else (),
            recent=self._recent.read(shown, oldest_kept, newest) if whole and self._recent is not None else None,
            user_partitions=self._user_partitions(tasks),
            position_bias=self._position_bias.read(tasks, controls, newest) if whole else None,
            unknown_names=merge_names((each for control in controls for each in control.unknown_names), self._known_names),
        )

    def _user_partitions(self, tasks: int) -> UserPartitions | None:
        """Return how many sampled users several tasks have seen; None if there is only one task."""
        return None if tasks < 2 else UserPartitions(*self._user_samples.merged(tasks))

    def _user_windows(self, controls: Sequence[Control], newest: int) -> Iterator[UniqueUserWindow]:
        """Return the user windows that end where all tasks have enrolled all lists. Empty if users are not counted.

        A window is incomplete if some task has dropped panes of it, or did not yet count users for its length at its start.
        """
        counted = {control.user_window_panes for control in controls}
        if counted == {0}:
            return
        end = window_end(min(control.enrolled_before for control in controls), newest, self.rules.pane_ms)
        oldest = max(max(control.oldest_kept, control.users_counted_from) for control in controls)
        for window_ms in self.rules.windows_ms:
            fits = len(counted) == 1 and window_ms <= max(counted) * self.rules.pane_ms
            if end is None or not fits or end - window_ms < oldest:
                yield UniqueUserWindow(window_ms, end, end is None)
            else:
                yield self.user_windows.window(window_ms, end, max(counted))

    def _experiments(self, controls: Sequence[Control], tasks: int) -> Iterator[ExperimentReport]:
        """Return each experiment since its start and on the latest day that all tasks have enrolled."""
        if self.experiments is None:
            return
        enrolled = min(control.enrolled_before for control in controls)
        newest = newest_shown(controls)
        today = (newest if enrolled == FOREVER else enrolled - 1) // DAY_MS
        dropped = any((today + 1) * DAY_MS <= control.oldest_kept for control in controls)
        scales = self.scales(tasks)
        for (name, day), stored in self.stored(tasks).items():
            if day == WHOLE or (day == today and not dropped):
                yield build_report(self.experiments.measures_of(stored), self.experiments.policy(name), stored, scales[name])

    def _feedback_counts(self, tasks: int, first: int, last: int) -> Joined:
        """Return the matched and unmatched feedback of the sessions that ended on these UTC days (both inclusive)."""
        days = [each for control in self._controls_of(tasks) for each in control.feedback_by_day if first <= each[0] <= last]
        return Joined(sum(matched for _, matched, _ in days), sum(unmatched for _, _, unmatched in days))

    def _inputs(self) -> Iterable[InputPosition]:
        for task, control in sorted(self._controls.items()):
            for index, (topic, offset, watermark) in enumerate(zip(control.topics, control.offsets, control.watermarks, strict=True)):
                least = control.support[index].least if control.support else FOREVER
                yield InputPosition(topic, task, offset, _shown(watermark), _shown(least if watermark == NEVER else watermark))

    def _totals(self, controls: Iterable[Control]) -> tuple[Total, ...]:
        merged: dict[tuple[str, str], list[int]] = {}
        for control in controls:
            for experiment, variant, tally in control.totals:
                known = merged.get((experiment, variant))
                merged[experiment, variant] = tally if known is None else add_tallies(known, tally)
        return tuple(Total(experiment, variant, tuple(tally)) for (experiment, variant), tally in sorted(merged.items()))

    def _count_withheld(self, windows: Iterable[Window]) -> None:
        """Count each withheld window once, however often it is read."""
        withheld = {(window.window_ms, window.view, window.end_ms or 0) for window in windows if not window.complete}
        self._withheld_count += len(withheld - self._withheld)
        self._withheld = withheld


def newest_shown(controls: Sequence[Control]) -> int:
    """Return where windows end after a flush: the newest admitted event, unless no other events of any input support its time."""
    newest = max((control.newest for control in controls), default=NEVER)
    supported = max((control.newest_supported for control in controls), default=NEVER)
    return newest if supported == NEVER else min(newest, supported)


def _shown(watermark: int) -> int | None:
    return None if watermark in (NEVER, FOREVER) else watermark
