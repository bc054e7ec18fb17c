"""Committed state of all tasks -> one immutable Report: merged exactly, and only as far as all tasks have come.

Pure. What a report holds and how it is told is said in `streammetrics.reports.report`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streammetrics.engine.codec import (
    Control,
    Signature,
    decode_control,
    decode_pane,
    decode_reach,
    decode_scope,
    differing,
    fit_of,
    parse_cell,
)
from streammetrics.engine.experiment_runs import WHOLE, Scope
from streammetrics.engine.stored_state import CommitMark, TaskView
from streammetrics.errors import StateError
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER, final_bound
from streammetrics.experiments import SINCE_START, THIS_DAY, ExperimentReport, Joined, Measures, Policy, Stored, build_report, choose_scales
from streammetrics.metrics import TallyLayout
from streammetrics.reports.merged_runs import Change, MergedRun, SettledScales, shown_runs, started_runs, times_of
from streammetrics.reports.report import InputStanding, Report, Total
from streammetrics.windows.panes import VIEWS, Window, WindowRules, WindowView, window_end
from streammetrics.windows.rolling import WindowAggregator
from streammetrics.windows.tally_deltas import add_tallies
from streammetrics.windows.unique_users import UniqueUserWindow, UniqueUserWindows, UserCountLayout


@dataclass(frozen=True, slots=True)
class ExperimentView:
    """How experiments are read: what is measured of users, what was decided about an experiment, and the times of their rules."""

    measures: Measures
    policy: Callable[[str], Policy]
    idle_ms: int
    patience_ms: int = 0

    def measures_of(self, kept: Stored) -> Measures:
        """The layout of an experiment's moments: whether it has covariates is seen from their number."""
        wide = self.measures.with_covariates
        return wide if any(len(moments) == wide.moments_width for moments in kept.moments.values()) else self.measures


class ReportBuilder:
    """What is known of every task's committed state, and the reports made of it.

    `signature` is the engine's: state that other rules made is refused with StateError, for its columns mean something else. Where
    experiments are switched on in some tasks and off in others, or here, windows are shown and experiments are not.
    """

    def __init__(
        self,
        layout: TallyLayout,
        rules: WindowRules,
        settings: Mapping[str, Any],
        signature: Signature,
        experiments: ExperimentView | None = None,
    ) -> None:
        self.layout = layout
        self.signature = signature
        self.rules = rules
        self.settings = settings
        self.aggregator = WindowAggregator(layout, rules, decode_pane)
        self.user_windows = UniqueUserWindows(UserCountLayout(layout.scorer), rules.pane_ms, decode_reach)
        self.marks: dict[int, CommitMark] = {}
        """What names the commits that are known, by task."""
        self.experiments = experiments
        self._idle_ms = FOREVER if experiments is None else experiments.idle_ms
        self._patience_ms = 0 if experiments is None else experiments.patience_ms
        self._scales = SettledScales(self._idle_ms)
        self.has_scales = False
        """Whether anybody has told what is settled: it must be known before tasks are read."""
        self._begun: dict[int, dict[str, MergedRun]] = {}
        self._scopes: dict[int, dict[tuple[str, int], Scope]] = {}
        self._controls: dict[int, Control] = {}
        self._users: dict[int, int] = {}
        self._withheld: set[tuple[int, WindowView, int]] = set()
        self._withheld_count = 0

    def panes_wanted(self, task: int) -> int | None:
        """The start from which a task's panes may have changed since they were read; None for all of them."""
        control = self._controls.get(task)
        return None if control is None or control.pane_from == NEVER else control.pane_from

    def reaches_wanted(self, task: int) -> int | None:
        """The same for the reach of panes."""
        control = self._controls.get(task)
        return None if control is None or control.entered_before == NEVER else control.entered_before

    def update(self, task: int, view: TaskView) -> None:
        """Take one task's committed state, with the panes from `panes_wanted` on and the reaches from `reaches_wanted` on.

        Where the view is `is_snapshot`, they are all that there are: a store may lose its last commits, and what was known is then not what
        was before.
        """
        control = decode_control(view.control)
        fit = fit_of(control.signature, self.signature)
        if fit in ("measures", "other"):
            then, now = differing(str(control.signature), str(self.signature))
            raise StateError(
                f"the state of task {task} was made by other rules than this process shows numbers by: give both the same configuration\n"
                f"  stored: {then}\n  now:    {now}"
            )
        self.aggregator.update(task, view.panes, None if view.is_snapshot else self.panes_wanted(task), control.oldest_kept)
        self.user_windows.update(task, view.reaches, control.oldest_kept, view.is_snapshot)
        self._controls[task] = control
        self.marks[task] = view.mark
        self._users[task] = view.users
        names = started_runs(control, view.experiments) if fit == "same" else {}
        self._begun[task] = times_of(control, names)
        self._scopes[task] = dict(_scopes(names, view.experiments))

    def _controls_of(self, tasks: int) -> list[Control]:
        return [self._controls[task] for task in sorted(self._controls) if task < tasks]

    def _count_alike(self, tasks: int) -> bool:
        """Whether experiments are switched on, or off, in all tasks as here; if not, what some tell is not the whole."""
        return all(control.signature == self.signature for control in self._controls_of(tasks))

    def _runs(self, tasks: int) -> dict[str, MergedRun]:
        """The life of each experiment that is shown."""
        begun = [of_task for task, of_task in self._begun.items() if task < tasks]
        return shown_runs(self._controls_of(tasks), begun, idle_ms=self._idle_ms, lateness_ms=self.rules.lateness_ms)

    def stored(self, tasks: int) -> dict[tuple[str, int], Stored]:
        """What is kept of every experiment by scope (a UTC day, counted from the epoch, or WHOLE), merged over tasks.

        Of each experiment one life: what a task holds of another one is left out.
        """
        parts: dict[tuple[str, int], list[Scope]] = {}
        runs = self._runs(tasks)
        for task, scopes in self._scopes.items():
            for key, scope in scopes.items():
                name, _ = key
                if task < tasks and name in runs and runs[name].holds(self._begun[task][name].first):
                    parts.setdefault(key, []).append(scope)
        merged = {key: self._merged(scopes) for key, scopes in parts.items()}
        return {
            (name, day): Stored(
                experiment=name,
                scope=SINCE_START if day == WHOLE else THIS_DAY,
                moments=scope.moments,
                first_exposures=scope.first_exposures,
                multi_exposed_users=scope.multi_exposed,
                joined=self._joined(tasks, runs[name].first // DAY_MS, FOREVER) if day == WHOLE else self._joined(tasks, day, day),
                credits=scope.credits,
                known_from_ms=self._first_look_ms(runs[name]) if day == WHOLE else day * DAY_MS + 1,
            )
            for (name, day), scope in sorted(merged.items())
        }

    def _first_look_ms(self, run: MergedRun) -> int:
        """The least event time up to which all can be known when a life is shown; of the life before it that time is always earlier.

        A list may enter as soon as its session has closed, while all is known up to `attribution_ms` and patience behind the bound of
        what is still admitted. The life before is shown for as long as that bound has not passed its last list by `idle_ms`.
        """
        return run.first - self.rules.attribution_ms - self._patience_ms

    def _merged(self, scopes: Iterable[Scope]) -> Scope:
        """The sum of several tasks' scopes. Where some began their experiment without covariates, the others' are left out."""
        total, scopes = Scope(), list(scopes)
        if len({len(moments) for scope in scopes for moments in scope.moments.values()}) > 1:
            assert self.experiments is not None
            scopes = [_plain(scope, self.experiments.measures.with_covariates) for scope in scopes]
        for scope in scopes:
            _add_scope(total, scope)
        return total

    def scales_due(self, tasks: int) -> dict[str, Change]:
        """What is to be settled now: scales that can be frozen and are not yet, and the end of those whose experiment is over.

        What is settled must have been taken (`freeze`) before the tasks were read, or a change might be about another life.
        """
        if self.experiments is None or not self._count_alike(tasks):
            return {}
        view, runs, due = self.experiments, self._runs(tasks), dict[str, Change]()
        for (name, day), kept in self.stored(tasks).items():
            if day == WHOLE:
                frozen = self._scales.of(name, runs[name])
                due |= self._scales.add(name, runs[name], choose_scales(view.measures_of(kept), view.policy(name), kept.moments, frozen))
        controls = self._controls_of(tasks)
        return due | self._scales.drop(controls, self.rules.lateness_ms) if len(controls) == tasks else due

    def freeze(self, settled: Mapping[str, bytes]) -> None:
        """Take the scales among all values that are settled now."""
        self._scales.take(settled)
        self.has_scales = True

    def scales(self, tasks: int) -> dict[str, Mapping[str, float]]:
        """The frozen scales of every experiment that is shown, by measure: chosen once in its life, and never again."""
        return {name: self._scales.of(name, run) for name, run in self._runs(tasks).items()}

    def report(self, tasks: int) -> Report:
        """Merge what is known; `tasks` is how many there are in all, committed or not."""
        controls = self._controls_of(tasks)
        missing = len(controls) < tasks or not controls
        whole = not missing and self._count_alike(tasks)
        watermark = NEVER if missing else min(control.watermark for control in controls)
        newest = max((control.newest for control in controls), default=NEVER)
        oldest_kept = max((control.oldest_kept for control in controls), default=NEVER)
        windows = tuple(
            self.aggregator.window(window_ms, view, watermark, oldest_kept, newest) for window_ms in self.rules.windows_ms for view in VIEWS
        )
        self._count_withheld(windows)
        final = final_bound(watermark, self.rules.lateness_ms, self.rules.attribution_ms)
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
            windows=windows,
            totals=self._totals(controls),
            counts=dict(counts),
            users_open=sum(self._users.values()),
            sessions_open=sum(control.sessions_open for control in controls),
            withheld=self._withheld_count,
            experiments=tuple(self._experiments(controls, tasks)) if whole else (),
            entered_ms=_shown(min(control.entered_before for control in controls)) if whole else None,
            user_windows=tuple(self._user_windows(controls, newest)) if whole else (),
        )

    def _user_windows(self, controls: Sequence[Control], newest: int) -> Iterator[UniqueUserWindow]:
        """The users of each window that ends where all lists have entered in all tasks; nothing where users are not counted.

        Not shown is a window of which some task has dropped panes, and one that begins before all of them count for so long a window.
        """
        counted = {control.reach_panes for control in controls}
        if counted == {0}:
            return
        end = window_end(min(control.entered_before for control in controls), newest, self.rules.pane_ms)
        oldest = max(max(control.oldest_kept, control.reach_from) for control in controls)
        for window_ms in self.rules.windows_ms:
            fits = len(counted) == 1 and window_ms <= max(counted) * self.rules.pane_ms
            if end is None or not fits or end - window_ms < oldest:
                yield UniqueUserWindow(window_ms, end, end is None)
            else:
                yield self.user_windows.window(window_ms, end, max(counted))

    def _experiments(self, controls: Iterable[Control], tasks: int) -> Iterator[ExperimentReport]:
        """Each experiment since its start, and on the day up to which all tasks have entered what is final."""
        if self.experiments is None:
            return
        entered = min(control.entered_before for control in controls)
        newest = max(control.newest for control in controls)
        today = (newest if entered == FOREVER else entered - 1) // DAY_MS
        dropped = any((today + 1) * DAY_MS <= control.oldest_kept for control in controls)
        scales = self.scales(tasks)
        for (name, day), kept in self.stored(tasks).items():
            if day == WHOLE or (day == today and not dropped):
                yield build_report(self.experiments.measures_of(kept), self.experiments.policy(name), kept, scales[name])

    def _joined(self, tasks: int, first: int, last: int) -> Joined:
        """How all feedback fared of the sessions that ended on these UTC days, the last one included."""
        days = [each for control in self._controls_of(tasks) for each in control.joined if first <= each[0] <= last]
        return Joined(sum(matched for _, matched, _ in days), sum(unmatched for _, _, unmatched in days))

    def _inputs(self) -> Iterable[InputStanding]:
        for task, control in sorted(self._controls.items()):
            for topic, offset, watermark in zip(control.topics, control.offsets, control.watermarks, strict=True):
                yield InputStanding(topic, task, offset, _shown(watermark))

    def _totals(self, controls: Iterable[Control]) -> tuple[Total, ...]:
        merged: dict[tuple[str, str], list[int]] = {}
        for control in controls:
            for experiment, variant, tally in control.totals:
                known = merged.get((experiment, variant))
                merged[experiment, variant] = tally if known is None else add_tallies(known, tally)
        return tuple(Total(experiment, variant, tuple(tally)) for (experiment, variant), tally in sorted(merged.items()))

    def _count_withheld(self, windows: Iterable[Window]) -> None:
        """Count each window that cannot be published once, not once for each time it is looked at."""
        withheld = {(window.window_ms, window.view, window.end_ms or 0) for window in windows if not window.complete}
        self._withheld_count += len(withheld - self._withheld)
        self._withheld = withheld


def _scopes(names: Mapping[int, str], cells: Mapping[str, bytes]) -> Iterator[tuple[tuple[str, int], Scope]]:
    """The scopes of a task's lives by experiment and day. Of two lives of one name the later one counts, once lists have entered it."""
    for cell, stored in cells.items():
        run, day = parse_cell(cell)
        if run in names:
            yield (names[run], day), decode_scope(stored)


def _plain(scope: Scope, with_covariates: Measures) -> Scope:
    """The same without covariates."""
    plain = Scope()
    plain.credits, plain.first_exposures, plain.multi_exposed = scope.credits, scope.first_exposures, scope.multi_exposed
    plain.moments = {
        variant: with_covariates.without_covariates(moments) if len(moments) == with_covariates.moments_width else moments
        for variant, moments in scope.moments.items()
    }
    return plain


def _add_scope(total: Scope, scope: Scope) -> None:
    for variant, moments in scope.moments.items():
        known = total.moments.get(variant)
        total.moments[variant] = list(moments) if known is None else add_tallies(known, moments)
    for variant, users in scope.first_exposures.items():
        total.first_exposures[variant] = total.first_exposures.get(variant, 0) + users
    for pair, credit in scope.credits.items():
        total.credits[pair] = add_tallies(total.credits[pair], credit) if pair in total.credits else list(credit)
    total.multi_exposed += scope.multi_exposed


def _shown(watermark: int) -> int | None:
    return None if watermark in (NEVER, FOREVER) else watermark
