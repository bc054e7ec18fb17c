"""Which scopes of experiments the lists of a round add to, and which of these lists may still enter.

Pure. Both follow from what the task knows of its experiments, which stays as it is while lists enter; so each is found once for all
users who ask the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from streammetrics.engine.codec import StoredTotals
from streammetrics.engine.experiment_runs import WHOLE, CovariatePeriod, ExperimentRules, ExperimentRun, is_behind
from streammetrics.engine.task_state import TaskState
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.events.model import Labels
from streammetrics.experiments.interleaving import INTERLEAVED

ScopeKey: TypeAlias = tuple[int, int]
"""A scope: the number of the life, and the day."""


class VariantTarget:
    """A variant in one scope of a life, and the rows of those of its users who change in the round.

    `newcomer` is what a user begins with there, and `newcomers` how many do so. It is `special` where more is known of users than lists
    and sums: a time before, or credit for teams.
    """

    __slots__ = ("cell", "changed", "newcomer", "newcomers", "run", "scope", "special", "variant")

    def __init__(self, run: ExperimentRun, day: int, variant: str) -> None:
        self.run, self.variant, self.scope = run, variant, run.scope(day)
        self.cell: ScopeKey = (run.number, day)
        self.newcomer: StoredTotals = (run.number, day, variant, 0, b"", [])
        self.newcomers = 0
        self.changed: list[int] = []
        self.special = run.earlier is not None or variant == INTERLEAVED


class ExposureTarget(NamedTuple):
    """Where lists with the same experiments go that are shown at or between two times of one day (ms)."""

    first: int
    last: int
    arms: list[VariantTarget]


_NO_COURSE: Final = ExposureTarget(FOREVER, NEVER, [])


class ExposureTargets:
    """All that are found in one round."""

    def __init__(self, state: TaskState, rules: ExperimentRules, pane_ms: int, labels: Sequence[Labels]) -> None:
        self.labels = labels
        self.state, self.rules, self.pane_ms = state, rules, pane_ms
        self.day_from = NEVER if state.oldest_kept == NEVER else state.oldest_kept // DAY_MS
        self._known: dict[tuple[int, int], ExposureTarget] = {}
        self._arms: dict[tuple[int, int, str], VariantTarget] = {}
        self._lasting: dict[ScopeKey | CovariatePeriod, bool] = {}

    def at(self, number: int, ts: int) -> ExposureTarget:
        """The course of a list; `number` is that of its experiments among `labels`."""
        key = (number, ts // DAY_MS)
        course = self._known.get(key, _NO_COURSE)
        if not course.first <= ts <= course.last:
            course = self._known[key] = self._find(self.labels[number], ts)
        return course

    def _find(self, labels: Labels, ts: int) -> ExposureTarget:
        day, counted_from, arms = ts // DAY_MS, self.state.counted_from, []
        first, last = day * DAY_MS, (day + 1) * DAY_MS - 1
        for experiment, variant in labels:
            run, span = self.state.runs.at(experiment, ts), self.rules.span(experiment)
            if run is None or not span.holds(ts) or ts < counted_from:
                first = last = ts
                continue
            first, last = max(first, run.first, span.first, counted_from), min(last, run.last, span.last)
            if not run.scopes:
                run.earlier = self.rules.before(run)
            arms += [self.arm(run, scope, variant) for scope in ((WHOLE, day) if day >= self.day_from else (WHOLE,))]
        return ExposureTarget(first, last, arms)

    def arm(self, run: ExperimentRun, day: int, variant: str) -> VariantTarget:
        """The one arm of a variant in a scope."""
        key = (run.number, day, variant)
        arm = self._arms.get(key)
        if arm is None:
            arm = self._arms[key] = VariantTarget(run, day, variant)
        return arm

    def lasts(self, cell: ScopeKey) -> bool:
        """Whether some list may still enter a scope: it is there, and its end is not yet behind all lists that have entered."""
        lasts = self._lasting.get(cell)
        if lasts is None:
            lasts = self._lasting[cell] = self._may_be_entered(*cell)
        return lasts

    def _may_be_entered(self, number: int, day: int) -> bool:
        run = self.state.runs.of_number.get(number)
        if run is None or (day != WHOLE and day < self.day_from):
            return False
        last = self.rules.span(run.experiment).last
        if day != WHOLE:
            last = min(last, (day + 1) * DAY_MS - 1)
        return not is_behind(last, self.pane_ms, self.state.entered_before)

    def is_wanted(self, earlier: CovariatePeriod) -> bool:
        """Whether a life has covariates of a time, or may still come to have them."""
        if earlier not in self._lasting:
            self._lasting[earlier] = self._may_be_asked_for(earlier)
        return self._lasting[earlier]

    def _may_be_asked_for(self, earlier: CovariatePeriod) -> bool:
        rules, entered = self.rules, self.state.entered_before
        if is_behind(rules.span(earlier.experiment).last, self.pane_ms, entered):
            return False
        if any(run.earlier == earlier for run in self.state.runs.of_name.get(earlier.experiment, ())):
            return True
        return earlier in rules.earlier and (
            earlier.start_ms + rules.idle_ms >= entered
            or any(not run.scopes and rules.in_time(earlier, run) for run in self.state.runs.of_name.get(earlier.experiment, ()))
        )
