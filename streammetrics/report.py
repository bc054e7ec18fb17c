"""Committed state of all tasks -> one immutable Report: what `/metrics`, `/api/report` and `replay --report` show.

Pure. A report is a global truth, whatever the number of workers: it is read from what was committed, merged exactly, and
says up to which event time it is complete. Nothing here asks who owns a task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from streammetrics.errors import StateError
from streammetrics.experiments import ExperimentReport, Measures, Policy, Stored, build_report, choose_scales
from streammetrics.lives import DAY_MS, WHOLE, Scope
from streammetrics.reach import ReachBoard, ReachLayout, UserWindow
from streammetrics.scoring import Layout, add
from streammetrics.state import Control, decode_control, decode_pane, decode_reach, decode_scale, decode_scope, encode_scale
from streammetrics.version import __version__
from streammetrics.windows import FOREVER, NEVER, VIEWS, Board, Pane, View, Window, WindowRules, final_bound, window_end


@dataclass(frozen=True, slots=True)
class InputStanding:
    """How far one input's events are in the committed state. `watermark_ms` is None before its first event."""

    topic: str
    partition: int
    offset: int | None
    watermark_ms: int | None


@dataclass(frozen=True, slots=True)
class Total:
    """The cumulative tally of one variant's final lists: it only grows."""

    experiment: str
    variant: str
    tally: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is shown of the results, as of one reading of the store.

    `watermark_ms` (W) and `final_ms` (F) are minima over all tasks, None while some task has not seen events yet and when
    the input has ended (`ended`). `withheld` counts the windows that were not published because a task had dropped panes.
    """

    rules: str
    settings: Mapping[str, Any]
    tasks: int
    tasks_committed: int
    watermark_ms: int | None
    final_ms: int | None
    ended: bool
    inputs: tuple[InputStanding, ...]
    windows: tuple[Window, ...]
    totals: tuple[Total, ...]
    counts: Mapping[tuple[str, str], int]
    users_open: int
    sessions_open: int
    withheld: int
    experiments: tuple[ExperimentReport, ...] = ()
    entered_ms: int | None = None
    """All lists of the panes that end at or before it are in the experiments, and their users counted in windows."""
    user_windows: tuple[UserWindow, ...] = ()
    """None where users are not counted in windows."""

    def to_json(self, layout: Layout) -> dict[str, Any]:
        """The report as plain JSON values; times are epoch milliseconds, absent ones null."""
        reasons: Counter[str] = Counter()
        for (reason, _), count in self.counts.items():
            reasons[reason] += count
        return {
            "version": __version__,
            "settings": dict(self.settings),
            "rules": self.rules,
            "tasks": self.tasks,
            "tasks_committed": self.tasks_committed,
            "watermark_ms": self.watermark_ms,
            "final_ms": self.final_ms,
            "ended": self.ended,
            "inputs": [
                {"topic": each.topic, "partition": each.partition, "offset": each.offset, "watermark_ms": each.watermark_ms}
                for each in self.inputs
            ],
            "windows": [_window_json(window) for window in self.windows],
            "totals": [
                {
                    "experiment": total.experiment,
                    "variant": total.variant,
                    "lists": total.tally[0],
                    "lists_with_feedback": total.tally[1],
                    "values": layout.means(total.tally, "zero"),
                    "values_with_feedback": layout.means(total.tally, "with_feedback"),
                }
                for total in self.totals
            ],
            "counters": dict(sorted(reasons.items())),
            "counters_by_topic": [
                {"reason": reason, "topic": topic, "count": count} for (reason, topic), count in sorted(self.counts.items())
            ],
            "users_open": self.users_open,
            "sessions_open": self.sessions_open,
            "windows_withheld": self.withheld,
            "experiments": [each.to_json() for each in self.experiments],
            "experiments_entered_ms": self.entered_ms,
            "user_windows": [_user_window_json(window) for window in self.user_windows],
        }


def _window_json(window: Window) -> dict[str, Any]:
    return {
        "window_ms": window.window_ms,
        "view": window.view,
        "end_ms": window.end_ms,
        "complete": window.complete,
        "groups": [
            {
                "experiment": values.group.experiment,
                "variant": values.group.variant,
                "segments": values.group.segments,
                "lists": values.lists,
                "lists_with_feedback": values.lists_with_feedback,
                "values": dict(values.values),
                "values_with_feedback": dict(values.values_with_feedback),
            }
            for values in window.groups
        ],
    }


def _user_window_json(window: UserWindow) -> dict[str, Any]:
    return {
        "window_ms": window.window_ms,
        "end_ms": window.end_ms,
        "complete": window.complete,
        "groups": [
            {
                "experiment": reached.arm[0],
                "variant": reached.arm[1],
                "users": reached.users,
                "users_with_hit": {f"user_hit_rate@{k}": users for k, users in reached.users_with_hit.items()},
                "values": {f"user_hit_rate@{k}": rate for k, rate in reached.hit_rates.items()},
            }
            for reached in window.arms
        ],
    }


UNMATCHED = ("orphan", "out_of_list", "too_old")
SINCE_START, THIS_DAY = "start", "day"
"""The scopes of an experiment as reports name them: its whole life, and the UTC day up to which all is known."""


@dataclass(frozen=True, slots=True)
class ExperimentView:
    """How experiments are read: what is measured of users, and what was decided about an experiment."""

    measures: Measures
    policy: Callable[[str], Policy]


class Ledger:
    """What is known of every task's committed state, and the reports made of it.

    `signature` is the engine's: state that other rules made is refused with StateError, for its columns mean something else.
    """

    def __init__(
        self, layout: Layout, rules: WindowRules, settings: Mapping[str, Any], signature: str, experiments: ExperimentView | None = None
    ) -> None:
        self.layout = layout
        self.signature = signature
        self.rules = rules
        self.settings = settings
        self.board = Board(layout, rules)
        self.reach_board = ReachBoard(ReachLayout(layout.scorer), rules.pane_ms, decode_reach)
        self.seqs: dict[int, int] = {}
        self.experiments = experiments
        self.scales: dict[str, dict[str, float]] = {}
        """The frozen scale of each experiment and measure: chosen once, and never again."""
        self._scopes: dict[int, dict[tuple[str, int], Scope]] = {}
        self._controls: dict[int, Control] = {}
        self._users: dict[int, int] = {}
        self._withheld: set[tuple[int, View, int]] = set()
        self._withheld_count = 0

    def panes_wanted(self, task: int) -> int | None:
        """The start from which a task's panes may have changed since they were read; None for all of them."""
        control = self._controls.get(task)
        return None if control is None or control.pane_from == NEVER else control.pane_from

    def reaches_wanted(self, task: int) -> int | None:
        """The same for the reach of panes."""
        control = self._controls.get(task)
        return None if control is None or control.entered_before == NEVER else control.entered_before

    def update(
        self,
        task: int,
        seq: int,
        control_bytes: bytes,
        panes: Mapping[int, bytes],
        users: int,
        experiments: Mapping[str, bytes] = MappingProxyType({}),
        reaches: Mapping[int, bytes] = MappingProxyType({}),
    ) -> None:
        """Take one task's committed state; `panes` are those from `panes_wanted` on, `reaches` from `reaches_wanted`."""
        control = decode_control(control_bytes)
        if control.rules != self.signature:
            raise StateError(
                f"the state of task {task} was made by other rules than this process shows numbers by: give both the same configuration\n"
                f"  stored: {control.rules}\n  now:    {self.signature}"
            )
        decoded: dict[int, Pane] = {start: decode_pane(stored) for start, stored in panes.items()}
        self.board.update(task, decoded, self.panes_wanted(task), control.oldest_kept)
        self.reach_board.update(task, reaches)
        self._controls[task] = control
        self.seqs[task] = seq
        self._users[task] = users
        self._scopes[task] = dict(_scopes(control, experiments))

    def stored(self, tasks: int) -> dict[tuple[str, int], Stored]:
        """What is kept of every experiment by scope (a UTC day, counted from the epoch, or WHOLE), merged over tasks."""
        merged: dict[tuple[str, int], Scope] = {}
        for task, scopes in self._scopes.items():
            for key, scope in scopes.items():
                if task < tasks:
                    _add_scope(merged.setdefault(key, Scope()), scope)
        share = self._unmatched_share(tasks)
        return {
            (name, day): Stored(
                experiment=name,
                scope=SINCE_START if day == WHOLE else THIS_DAY,
                moments=scope.moments,
                first_exposures=scope.first_exposures,
                multi_exposed_users=scope.multi_exposed,
                unmatched_share=share,
            )
            for (name, day), scope in sorted(merged.items())
        }

    def scales_due(self, tasks: int) -> dict[str, bytes]:
        """The scales that can be frozen now and are not yet, as values to be settled: the first one said holds for ever."""
        if self.experiments is None:
            return {}
        view = self.experiments
        chosen: dict[str, bytes] = {}
        for (name, day), kept in self.stored(tasks).items():
            if day == WHOLE:
                scales = choose_scales(view.measures, view.policy(name), kept.moments, self.scales.get(name, {}))
                chosen |= {encode_scale(name, measure): repr(scale).encode() for measure, scale in scales.items()}
        return chosen

    def freeze(self, settled: Mapping[str, bytes]) -> None:
        """Take the scales among the values that are settled."""
        for key, value in settled.items():
            found = decode_scale(key)
            if found is not None:
                experiment, measure = found
                self.scales.setdefault(experiment, {})[measure] = float(value)

    def report(self, tasks: int) -> Report:
        """Merge what is known; `tasks` is how many there are in all, committed or not."""
        controls = [self._controls[task] for task in sorted(self._controls) if task < tasks]
        missing = len(controls) < tasks or not controls
        watermark = NEVER if missing else min(control.watermark for control in controls)
        newest = max((control.newest for control in controls), default=NEVER)
        oldest_kept = max((control.oldest_kept for control in controls), default=NEVER)
        windows = tuple(
            self.board.window(window_ms, view, watermark, oldest_kept, newest) for window_ms in self.rules.windows_ms for view in VIEWS
        )
        self._count_withheld(windows)
        final = final_bound(watermark, self.rules.lateness_ms, self.rules.attribution_ms)
        counts: Counter[tuple[str, str]] = Counter()
        for control in controls:
            for reason, topic, count in control.counts:
                counts[reason, control.topics[topic]] += count
        return Report(
            rules=controls[0].rules if controls else "",
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
            experiments=() if missing else tuple(self._experiments(controls, tasks)),
            entered_ms=None if missing else _shown(min(control.entered_before for control in controls)),
            user_windows=() if missing else tuple(self._user_windows(controls, newest)),
        )

    def _user_windows(self, controls: Sequence[Control], newest: int) -> Iterator[UserWindow]:
        """The users of each window that ends where all lists have entered in all tasks; nothing where users are not counted.

        Not shown is a window of which some task has dropped panes, and one that begins before all of them count for so long a window.
        """
        counted = {control.reach_panes for control in controls}
        if counted == {0}:
            return
        end = window_end(min(control.entered_before for control in controls), newest, self.rules.pane_ms)
        oldest = max(max(control.oldest_kept, control.reach_from) for control in controls)
        if end is not None:
            self.reach_board.forget(end - max(self.rules.windows_ms))
        for window_ms in self.rules.windows_ms:
            fits = len(counted) == 1 and window_ms <= max(counted) * self.rules.pane_ms
            if end is None or not fits or end - window_ms < oldest:
                yield UserWindow(window_ms, end, end is None)
            else:
                yield self.reach_board.window(window_ms, end, max(counted))

    def _experiments(self, controls: Iterable[Control], tasks: int) -> Iterator[ExperimentReport]:
        """Each experiment since its start, and on the day up to which all tasks have entered what is final."""
        if self.experiments is None:
            return
        entered = min(control.entered_before for control in controls)
        newest = max(control.newest for control in controls)
        today = (newest if entered == FOREVER else entered - 1) // DAY_MS
        dropped = any((today + 1) * DAY_MS <= control.oldest_kept for control in controls)
        for (name, day), kept in self.stored(tasks).items():
            if day == WHOLE or (day == today and not dropped):
                yield build_report(self.experiments.measures, self.experiments.policy(name), kept, self.scales.get(name, {}))

    def _unmatched_share(self, tasks: int) -> float | None:
        """Feedback that matches no list, by all feedback whose fate is known; None while there is none."""
        fates: Counter[str] = Counter()
        for task, control in self._controls.items():
            for reason, _, count in control.counts if task < tasks else ():
                fates[reason] += count
        unmatched = sum(fates[reason] for reason in UNMATCHED)
        known = unmatched + fates["matched"]
        return unmatched / known if known else None

    def _inputs(self) -> Iterable[InputStanding]:
        for task, control in sorted(self._controls.items()):
            for topic, offset, watermark in zip(control.topics, control.offsets, control.watermarks, strict=True):
                yield InputStanding(topic, task, offset, _shown(watermark))

    def _totals(self, controls: Iterable[Control]) -> tuple[Total, ...]:
        merged: dict[tuple[str, str], list[int]] = {}
        for control in controls:
            for experiment, variant, tally in control.totals:
                known = merged.get((experiment, variant))
                merged[experiment, variant] = tally if known is None else add(known, tally)
        return tuple(Total(experiment, variant, tuple(tally)) for (experiment, variant), tally in sorted(merged.items()))

    def _count_withheld(self, windows: Iterable[Window]) -> None:
        """Count each window that cannot be published once, not once for each time it is looked at."""
        withheld = {(window.window_ms, window.view, window.end_ms or 0) for window in windows if not window.complete}
        self._withheld_count += len(withheld - self._withheld)
        self._withheld = withheld


def _scopes(control: Control, cells: Mapping[str, bytes]) -> Iterator[tuple[tuple[str, int], Scope]]:
    """The scopes of a task by experiment and day. Of two lives of one name the later one counts, as soon as lists have entered it."""
    begun = {int(cell) for cell in cells if ":" not in cell}
    latest = {name: number for number, name, first, *_ in sorted(control.lives, key=lambda life: life[2]) if number in begun}
    names = {number: name for name, number in latest.items()}
    for cell, stored in cells.items():
        life, _, day = cell.partition(":")
        if int(life) in names:
            yield (names[int(life)], int(day) if day else WHOLE), decode_scope(stored)


def _add_scope(total: Scope, scope: Scope) -> None:
    for variant, moments in scope.moments.items():
        known = total.moments.get(variant)
        total.moments[variant] = list(moments) if known is None else add(known, moments)
    for variant, users in scope.first_exposures.items():
        total.first_exposures[variant] = total.first_exposures.get(variant, 0) + users
    total.multi_exposed += scope.multi_exposed


def _shown(watermark: int) -> int | None:
    return None if watermark in (NEVER, FOREVER) else watermark
