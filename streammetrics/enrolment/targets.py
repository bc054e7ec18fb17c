"""Which sums a list is added to: for each of its experiments, the variant's sums over the whole run and over the list's day.

Pure. The answer depends only on what the task knows of its experiments, which does not change during a batch. So each answer is
computed once and shared by all users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from streammetrics.enrolment.records import ArmSet, ArmSets, ScopeKey, UserRecord
from streammetrics.enrolment.rules import CovariatePeriod, ExperimentRules, is_behind
from streammetrics.enrolment.runs import ExperimentRun, ExperimentRuns
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.events.model import Labels
from streammetrics.experiments.policy import INTERLEAVED


class VariantTarget:
    """A variant in one scope of a run."""

    __slots__ = ("key", "run", "scope", "variant")

    def __init__(self, run: ExperimentRun, day: int, variant: str) -> None:
        self.run, self.variant, self.scope = run, variant, run.scope(day)
        self.key: ScopeKey = (run.number, day)


class ListTarget(NamedTuple):
    """The scopes of lists with the same experiments, shown from `first` to `last` (ms, both inclusive, on one day).

    In `sets` are arms in which users may have the same totals. Runs with covariates have sets of their own, and so has each scope with
    credit for teams. `runs` are their numbers.
    """

    first: int
    last: int
    sets: list[ArmSet]
    runs: tuple[int, ...] = ()


_NOWHERE: Final = ListTarget(FOREVER, NEVER, [])


class _LabelTargets(NamedTuple):
    """Where lists of one experiment belong that are shown from `first` to `last` (ms, both inclusive): its run, and the targets there.

    None: they do not count.
    """

    first: int
    last: int
    run: ExperimentRun | None = None
    targets: tuple[VariantTarget, ...] = ()


_UNKNOWN: Final = _LabelTargets(FOREVER, NEVER)


class ListTargets:
    """All targets of one batch. `labels` are the experiments of its lists, by number."""

    def __init__(
        self,
        runs: ExperimentRuns,
        rules: ExperimentRules,
        labels: Sequence[Labels],
        *,
        pane_ms: int,
        counted_from: int = NEVER,
        counted_until: int = FOREVER,
        enrolled_before: int = NEVER,
        oldest_kept: int = NEVER,
    ) -> None:
        self.labels = labels
        self.runs, self.rules, self.pane_ms = runs, rules, pane_ms
        self.counted_from, self.counted_until, self.enrolled_before = counted_from, counted_until, enrolled_before
        self.day_from = NEVER if oldest_kept == NEVER else oldest_kept // DAY_MS
        self._of_lists: dict[tuple[int, int], ListTarget] = {}
        self._of_labels: dict[tuple[tuple[str, str], int], _LabelTargets] = {}
        self._variants: dict[tuple[int, int, str], VariantTarget] = {}
        self._open: dict[ScopeKey | CovariatePeriod, bool] = {}
        self._targets_of: dict[ArmSet, list[VariantTarget]] = {}
        self._until_of: dict[ArmSet, int] = {}
        self._apart: dict[ArmSet, tuple[ArmSet, ...]] = {}
        self.sets = ArmSets(self.is_open)
        self.open_runs = frozenset([run.number for run in runs if self.is_open((run.number, WHOLE))])
        """The numbers of the runs to which lists may still be added."""

    def at(self, number: int, ts: int) -> ListTarget:
        """Return the target of a list; `number` is that of its experiments among `labels`."""
        key = (number, ts // DAY_MS)
        target = self._of_lists.get(key, _NOWHERE)
        if not target.first <= ts <= target.last:
            target = self._of_lists[key] = self._find(self.labels[number], ts)
        return target

    def _find(self, labels: Labels, ts: int) -> ListTarget:
        day = ts // DAY_MS
        first, last = day * DAY_MS, (day + 1) * DAY_MS - 1
        together: list[VariantTarget] = []
        alone: list[ArmSet] = []
        runs: list[int] = []
        for label in labels:
            of_label = self._of_labels.get((label, day), _UNKNOWN)
            if not of_label.first <= ts <= of_label.last:
                of_label = self._of_labels[label, day] = self._find_label(*label, ts)
            first, last = max(first, of_label.first), min(last, of_label.last)
            if of_label.run is None:
                continue
            runs.append(of_label.run.number)
            if label[1] == INTERLEAVED:
                alone += [self._alike([target]) for target in of_label.targets]
            elif of_label.run.earlier is not None:
                alone.append(self._alike(of_label.targets))
            else:
                together += of_label.targets
        sets = [self._alike(together), *alone] if together else alone
        return ListTarget(first, last, sets, tuple(runs))

    def _alike(self, targets: Sequence[VariantTarget]) -> ArmSet:
        return self.sets.of([(*target.key, target.variant) for target in targets])

    def apart(self, arms: ArmSet) -> tuple[ArmSet, ...]:
        """Return the whole runs, and the scopes of a day, if a set has both. A user who came on this day has one set, later two."""
        parts = self._apart.get(arms)
        if parts is None:
            sides = [[arm for arm in arms.arms if (arm[1] == WHOLE) is wanted] for wanted in (True, False)]
            parts = self._apart[arms] = tuple(map(self.sets.of, sides)) if all(sides) else ()
        return parts

    def _find_label(self, experiment: str, variant: str, ts: int) -> _LabelTargets:
        """Return where lists of one experiment belong, and for which times around `ts` that holds."""
        run, span = self.runs.at(experiment, ts), self.rules.span(experiment)
        first, last = max(span.first, self.counted_from), min(span.last, self.counted_until - 1)
        if ts < first:
            return _LabelTargets(NEVER, first - 1)
        if ts > last:
            return _LabelTargets(last + 1, FOREVER)
        if run is None:
            return _LabelTargets(ts, ts)
        if not run.scopes:
            run.earlier = self.rules.before(run.experiment, run.first)
        day = ts // DAY_MS
        scopes = (WHOLE, day) if day >= self.day_from else (WHOLE,)
        targets = tuple(self.variant(run, scope, variant) for scope in scopes)
        return _LabelTargets(max(run.first, first), min(run.last, last), run, targets)

    def variant(self, run: ExperimentRun, day: int, variant: str) -> VariantTarget:
        """Return the target of a variant in one scope. There is only one."""
        key = (run.number, day, variant)
        target = self._variants.get(key)
        if target is None:
            target = self._variants[key] = VariantTarget(run, day, variant)
        return target

    def targets_of(self, arms: ArmSet) -> list[VariantTarget]:
        """Return the targets of a set."""
        targets = self._targets_of.get(arms)
        if targets is None:
            of_number = self.runs.of_number
            in_order = sorted(arms.arms)
            targets = self._targets_of[arms] = [self.variant(of_number[number], day, variant) for number, day, variant in in_order]
        return targets

    def is_open(self, scope: ScopeKey) -> bool:
        """Whether lists may still be added to a scope: it exists, and lists of its last time may not all be enrolled."""
        is_open = self._open.get(scope)
        if is_open is None:
            is_open = self._open[scope] = self._is_scope_open(*scope)
        return is_open

    def _is_scope_open(self, number: int, day: int) -> bool:
        run = self.runs.of_number.get(number)
        if run is None or (day != WHOLE and day < self.day_from):
            return False
        last = self.rules.span(run.experiment).last
        if day != WHOLE:
            last = min(last, (day + 1) * DAY_MS - 1)
        return not is_behind(last, self.pane_ms, self.enrolled_before)

    def is_period_open(self, period: CovariatePeriod) -> bool:
        """Whether a run has covariates of this period, or may still get them."""
        if period not in self._open:
            self._open[period] = self._may_have_covariates(period)
        return self._open[period]

    def _may_have_covariates(self, period: CovariatePeriod) -> bool:
        rules, enrolled_before = self.rules, self.enrolled_before
        if is_behind(rules.span(period.experiment).last, self.pane_ms, enrolled_before):
            return False
        runs = self.runs.of_name.get(period.experiment, ())
        if any(run.earlier == period for run in runs):
            return True
        return period in rules.earlier and (
            period.start_ms + rules.idle_ms >= enrolled_before or any(not run.scopes and rules.in_time(period, run.first) for run in runs)
        )

    def relevant_until(self, record: UserRecord, wait_ms: int) -> int | None:
        """Return when (ms) the first of a user's parts in runs and covariate periods may no longer matter. None if there is no part.

        `wait_ms`: how long a list waits, and one pane.
        """
        ends = [self._until_of_set(arms, wait_ms) for arms in record.totals]
        ends += [self._until_of_run(number, wait_ms) for number, _ in record.exposed]
        ends += [self._until_of_period(period, wait_ms) for period in record.earlier]
        return min(ends, default=None)

    def _until_of_set(self, arms: ArmSet, wait_ms: int) -> int:
        until = self._until_of.get(arms)
        if until is None:
            until = self._until_of[arms] = min([self._until_of_run(number, wait_ms) for number, _ in arms.scopes])
        return until

    def _until_of_run(self, number: int, wait_ms: int) -> int:
        """When (ms) a run may be over."""
        run = self.runs.of_number[number]
        last, end = run.last + self.rules.idle_ms, self.rules.span(run.experiment).end_ms
        return last if end is None else min(last, end + 2 * wait_ms)

    def _until_of_period(self, period: CovariatePeriod, wait_ms: int) -> int:
        """When (ms) the experiment that follows a covariate period is over. If it has no run yet, it should have begun by then."""
        ends = [self._until_of_run(run.number, wait_ms) for run in self.runs.of_name.get(period.experiment, ()) if run.earlier == period]
        if ends:
            return max(ends)
        last, end = period.start_ms + self.rules.idle_ms, self.rules.span(period.experiment).end_ms
        return (last if end is None else min(last, end)) + 2 * wait_ms
