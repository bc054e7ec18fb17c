"""Committed state of all tasks -> one immutable Report: merged exactly, and shown only as far as all tasks have come.

Pure. `report` defines the content of a report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from streammetrics.engine.signature import Signature, differing, fit_of
from streammetrics.engine.task_state import ControlRecord, decode_control
from streammetrics.engine.user_sample import SampledTasks
from streammetrics.enrolment.feedback_days import FEEDBACK_DAYS
from streammetrics.enrolment.scopes import EXPERIMENTS
from streammetrics.errors import UnfitStateError
from streammetrics.events.event_time import FOREVER, NEVER, final_bound, pane_start
from streammetrics.events.outcomes import IGNORED
from streammetrics.metrics import TallyLayout
from streammetrics.reports.data_warnings import merge_names
from streammetrics.reports.experiment_lists import LaterLists, RecentReader
from streammetrics.reports.first_numbers import (
    AwaitedVerdict,
    FirstNumber,
    FirstVerdictWait,
    awaited_verdicts,
    first_numbers,
)
from streammetrics.reports.input_warnings import UserPartitions, late_inputs
from streammetrics.reports.merged_experiments import MergedExperiments
from streammetrics.reports.report import InputPosition, Report, Total
from streammetrics.reports.rules import ReportRules
from streammetrics.state.tables import CommitMark, TaskView
from streammetrics.windows.pane_tallies import PANES
from streammetrics.windows.panes import VIEWS, Pane, Window, WindowRules, WindowView, decode_pane, window_end
from streammetrics.windows.rolling import WindowAggregator
from streammetrics.windows.tally_deltas import add_tallies
from streammetrics.windows.unique_users import UNIQUE_USERS, UniqueUserWindow, UniqueUserWindows
from streammetrics.windows.user_counts import UserCountLayout
from streammetrics.words.names import group_order

EARLIER_MAX: Final = 240
"""Most earlier windows of one length and view. With panes of a minute this is four hours."""
GROUPS_MAX: Final = 32
"""Most groups of an earlier window."""


class ReportBuilder:
    """Collects the committed state of all tasks and builds reports from it.

    `signature` is the engine's. State of other rules is rejected with StateError, because its columns differ. If experiments are on in
    some tasks and off in others, or here, windows are shown but experiments are not. `known_names` has the known names by kind (see
    `events.unknown_names`), to suggest one for an unknown name. `verdict_wait` is how long a first verdict takes.
    """

    def __init__(
        self,
        layout: TallyLayout,
        rules: WindowRules,
        settings: Mapping[str, Any],
        signature: Signature,
        experiments: ReportRules | None = None,
        known_names: Mapping[str, Sequence[str]] = MappingProxyType({}),
        *,
        verdict_wait: FirstVerdictWait | None = None,
    ) -> None:
        self._known_names, self._verdict_wait = known_names, verdict_wait
        self.layout = layout
        self.signature = signature
        self.rules = rules
        self.settings = settings
        self.aggregator = WindowAggregator(layout, rules, decode_pane)
        self.user_windows = UniqueUserWindows(UserCountLayout(layout.scorer), rules.pane_ms)
        self.marks: dict[int, CommitMark] = {}
        """The known commit of each task."""
        self.experiments = MergedExperiments(rules, signature, experiments, LaterLists(self.aggregator))
        self._controls: dict[int, ControlRecord] = {}
        self._users: dict[int, int] = {}
        self._user_samples = SampledTasks()
        self._recent = None if experiments is None else RecentReader(self.aggregator, layout, experiments.deciding)
        self._withheld: set[tuple[int, WindowView, int]] = set()
        self._withheld_count = 0
        self._ends: dict[tuple[int, WindowView], int] = {}

    def rows_from(self, task: int) -> dict[str, int]:
        """Return the start (ms) by table from which a task's rows may have changed since the last update. Other tables are read whole."""
        control = self._controls.get(task)
        return {} if control is None else {PANES: control.panes.final_before, UNIQUE_USERS: control.enrolment.enrolled_before}

    def update(self, task: int, view: TaskView) -> None:
        """Update from a task's committed state, with its rows since `rows_from`.

        If the view is a snapshot (`is_snapshot`), it has all rows. A store may lose its last commits, and earlier knowledge is then
        wrong.
        """
        control = decode_control(view.control)
        if fit_of(control.signature, self.signature) in ("measures", "other"):
            why = f"the state of task {task} was made by other rules than this process has; use the same configuration for both"
            differs = differing(str(control.signature), str(self.signature)).splitlines()
            raise UnfitStateError("\n  ".join((why, *differs)))
        panes, user_counts = ({int(start): row for start, row in view.table(name).items()} for name in (PANES, UNIQUE_USERS))
        self.aggregator.update(task, panes, None if view.is_snapshot else self.rows_from(task).get(PANES), control.panes.oldest_kept)
        self.user_windows.update(task, user_counts, control.panes.oldest_kept, view.is_snapshot)
        self._controls[task] = control
        self.marks[task] = view.mark
        self._users[task] = view.users - control.sessions.without_sessions
        self._user_samples.update(task, control.users_sampled)
        self.experiments.update(task, control, view.table(EXPERIMENTS), view.table(FEEDBACK_DAYS))

    def _controls_of(self, tasks: int) -> list[ControlRecord]:
        return [self._controls[task] for task in sorted(self._controls) if task < tasks]

    def final_panes(self, report: Report, first_ms: int) -> Iterator[tuple[int, Pane]]:
        """Yield the start and the content of final panes, merged over all tasks, from `first_ms` on, ascending.

        `report` is the last one. No pane is yielded that some task has dropped, and none while a task has not committed.
        """
        end_ms = next((window.end_ms for window in report.windows if window.view == "final"), None)
        if end_ms is None or report.tasks_committed < report.tasks:
            return
        oldest_kept_ms = max(control.panes.oldest_kept for control in self._controls_of(report.tasks))
        for start_ms in self.aggregator.starts(max(first_ms, oldest_kept_ms), end_ms):
            yield start_ms, self.aggregator.pane(start_ms)

    def earlier_windows(self, report: Report) -> tuple[Window, ...]:
        """Return the windows that ended between the last call and this report, which is the newest. At first: EARLIER_MAX before it.

        They are read from the stored panes. So the curves have no gap after a restart, or while a worker catches up.
        """
        windows = list[Window]()
        for window in report.windows:
            if window.end_ms is None or not window.complete:
                continue
            key = window.window_ms, window.view
            oldest = window.end_ms - (EARLIER_MAX + 1) * self.rules.pane_ms
            after = max(self._ends.get(key, oldest), oldest)
            oldest_kept = max(control.panes.oldest_kept for control in self._controls_of(report.tasks))
            windows += self.aggregator.earlier(window, after, oldest_kept, GROUPS_MAX)
            self._ends[key] = window.end_ms
        return tuple(windows)

    def report(self, tasks: int) -> Report:
        """Build a report. `tasks` is the number of all tasks, committed or not."""
        controls = self._controls_of(tasks)
        missing = len(controls) < tasks or not controls
        whole = not missing and self.experiments.have_same_rules(tasks)
        watermark = NEVER if missing else min(control.progress.watermark for control in controls)
        shown_ms = NEVER if missing else min(control.shown_watermark(self.rules.lateness_ms) for control in controls)
        newest = newest_shown(controls)
        oldest_kept = max((control.panes.oldest_kept for control in controls), default=NEVER)
        windows = self._windows(() if missing else controls, shown_ms, oldest_kept, newest)
        self._count_withheld(windows)
        experiments = self.experiments.reports(tasks, newest) if whole else ()
        final = final_bound(shown_ms, self.rules.lateness_ms, self.rules.attribution_ms)
        awaited = tuple(self._awaited(windows, {experiment.experiment for experiment in experiments}, final)) if whole else ()
        names = merge_names((entry for control in controls for entry in control.unknown_names), self._known_names)
        return Report(
            rules=str(controls[0].signature) if controls else "",
            settings=self.settings,
            tasks=tasks,
            tasks_committed=len(controls),
            watermark_ms=_time_or_none(watermark),
            final_ms=_time_or_none(final),
            ended=watermark == FOREVER,
            inputs=tuple(self._inputs()),
            late_inputs=tuple(late_inputs((task, control) for task, control in sorted(self._controls.items()) if task < tasks)),
            windows=windows,
            totals=self._totals(controls),
            counts=_event_counts(controls),
            users_open=sum(self._users.values()),
            sessions_open=sum(control.sessions.open for control in controls),
            withheld=self._withheld_count,
            experiments=experiments,
            open_lists=self.experiments.open_lists(tasks),
            earlier=self.experiments.earlier_snapshots(),
            since=self.experiments.since_reports(),
            awaited=awaited,
            entered_ms=_time_or_none(min(control.enrolment.enrolled_before for control in controls)) if whole else None,
            user_windows=tuple(self._user_windows(controls, newest)) if whole else (),
            recent=self._recent.read(shown_ms, oldest_kept, newest) if whole and self._recent is not None else None,
            user_partitions=self._user_partitions(tasks),
            has_lists=bool(self.aggregator.starts()),
            first_numbers=() if missing else tuple(self._first_numbers(awaited, watermark, newest)),
            unknown_names=tuple(entry for entry in names if entry.kind != IGNORED),
            ignored=tuple(entry for entry in names if entry.kind == IGNORED),
        )

    def _windows(self, controls: Sequence[ControlRecord], shown_ms: int, oldest_kept: int, newest: int) -> tuple[Window, ...]:
        """Return the windows of each length in each view. controls: those of all tasks; empty while a task has not committed."""
        windows = tuple(
            self.aggregator.window(window_ms, view, shown_ms, oldest_kept, newest) for window_ms in self.rules.windows_ms for view in VIEWS
        )
        open_end = self._open_end(controls, windows) if controls else None
        if open_end is None:
            return windows
        return tuple(
            self.aggregator.window_until(window.window_ms, "live", open_end, oldest_kept) if window.view == "live" else window
            for window in windows
        )

    def _open_end(self, controls: Sequence[ControlRecord], windows: Sequence[Window]) -> int | None:
        """Return the end (ms) of live windows while no pane with lists has ended: that of the pane that is open in the slowest task.

        None if a pane has ended, if there are no lists, and if lists may still get labels.
        """
        starts, pane_ms = self.aggregator.starts(), self.rules.pane_ms
        live_end = next((window.end_ms for window in windows if window.view == "live"), None)
        if not starts or self.rules.live_wait_ms is not None or (live_end is not None and live_end > starts[0]):
            return None
        newest = [time for time in (newest_shown([control]) for control in controls) if time != NEVER]
        return max(pane_start(min(newest, default=starts[0]), pane_ms), starts[0]) + pane_ms

    def _first_numbers(self, awaited: Iterable[AwaitedVerdict], watermark: int, newest: int) -> Iterator[FirstNumber]:
        """Yield what a young stream still waits for, from its first list on."""
        starts = self.aggregator.starts()
        if not starts or watermark == FOREVER:
            return
        verdicts = [verdict_ms for verdict_ms in (verdict.shown().first_verdict_ms for verdict in awaited) if verdict_ms is not None]
        if watermark == NEVER:  # it comes when the inputs agree on a time, or after idle_ms
            watermark = newest - int(self.settings.get("idle_ms", 0)) - int(self.settings.get("out_of_orderness_ms", 0))
        yield from first_numbers(starts[0], watermark, self.rules, min(verdicts, default=None))

    def _awaited(self, windows: Sequence[Window], experiments: Collection[str], final_ms: int) -> Iterator[AwaitedVerdict]:
        """Yield the experiments without a verdict. None of their lists is final and counted, so their first pane is not long ago."""
        report_rules, wait = self.experiments.report_rules, self._verdict_wait
        if report_rules is None or wait is None or final_ms in (NEVER, FOREVER):
            return

        def first_of(experiment: str) -> int | None:
            starts = self.aggregator.starts(final_ms - report_rules.patience_ms - self.rules.pane_ms)
            has_lists = (start for start in starts if any(group.experiment == experiment for group in self.aggregator.pane(start)))
            return next(has_lists, None)

        yield from awaited_verdicts(windows, experiments, report_rules, wait, first_of)

    def _user_partitions(self, tasks: int) -> UserPartitions | None:
        """Return how many sampled users several tasks have seen; None if there is only one task."""
        return None if tasks < 2 else UserPartitions(*self._user_samples.merged(tasks))

    def _user_windows(self, controls: Sequence[ControlRecord], newest: int) -> Iterator[UniqueUserWindow]:
        """Return the user windows that end where all tasks have enrolled all lists. Empty if users are not counted.

        A window is incomplete if some task has dropped panes of it, or did not yet count users for its length at its start.
        """
        counted = {control.unique_users.window_panes for control in controls}
        if counted == {0}:
            return
        end = window_end(min(control.enrolment.enrolled_before for control in controls), newest, self.rules.pane_ms)
        oldest = max(max(control.panes.oldest_kept, control.unique_users.counted_from) for control in controls)
        for window_ms in self.rules.windows_ms:
            fits = len(counted) == 1 and window_ms <= max(counted) * self.rules.pane_ms
            if end is None or not fits or end - window_ms < oldest:
                yield UniqueUserWindow(window_ms, end, end is None)
            else:
                yield self.user_windows.window(window_ms, end, max(counted))

    def _inputs(self) -> Iterable[InputPosition]:
        for task, control in sorted(self._controls.items()):
            progress = control.progress
            for index, (topic, offset, watermark) in enumerate(zip(control.topics, progress.offsets, progress.watermarks, strict=True)):
                reached_ms = progress.support[index].least if watermark == NEVER else watermark
                record_ms = progress.record_times[index]
                yield InputPosition(topic, task, offset, _time_or_none(watermark), _time_or_none(reached_ms), _time_or_none(record_ms))

    def _totals(self, controls: Iterable[ControlRecord]) -> tuple[Total, ...]:
        merged: dict[tuple[str, str], list[int]] = {}
        for control in controls:
            for experiment, variant, tally in control.panes.totals:
                reached = merged.get((experiment, variant))
                merged[experiment, variant] = tally if reached is None else add_tallies(reached, tally)
        return tuple(Total(*arm, tuple(merged[arm])) for arm in sorted(merged, key=group_order))

    def _count_withheld(self, windows: Iterable[Window]) -> None:
        """Count each withheld window once, however often it is read."""
        withheld = {(window.window_ms, window.view, window.end_ms or 0) for window in windows if not window.complete}
        self._withheld_count += len(withheld - self._withheld)
        self._withheld = withheld


def _event_counts(controls: Iterable[ControlRecord]) -> dict[tuple[str, str], int]:
    """Return the events by outcome and topic."""
    counts = Counter[tuple[str, str]]()
    for control in controls:
        for reason, topic, count in control.progress.counts:
            counts[reason, control.topics[topic]] += count
    return dict(counts)


def newest_shown(controls: Sequence[ControlRecord]) -> int:
    """Return where windows end after a flush: the newest admitted event, unless no other events of any input support its time."""
    newest = max((control.progress.newest for control in controls), default=NEVER)
    supported = max((control.progress.newest_supported for control in controls), default=NEVER)
    return newest if supported == NEVER else min(newest, supported)


def _time_or_none(watermark: int) -> int | None:
    return None if watermark in (NEVER, FOREVER) else watermark
