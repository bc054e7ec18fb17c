"""Which sums a list is added to: for each of its experiments, the variant's sums over the whole run and over the list's day.

Pure. The answer depends only on what the task knows of its experiments, which does not change during a batch. So each answer is
computed once and shared by all users.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from streammetrics.enrolment.records import ScopeKey, ScopeSet, ScopeSets, UserRecord
from streammetrics.enrolment.rules import CovariatePeriod, ExperimentRules, is_behind
from streammetrics.enrolment.runs import ExperimentRun, ExperimentRuns, PartName, ScopeHolder
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.events.model import Labels
from streammetrics.experiments.interleaving import INTERLEAVED


class VariantTarget:
    """A variant in one scope of a run, or of a part of it.

    `in_cells`: its users may have other cells of a rollout. `by_list`: each list is assigned on its own, so users have no variant.
    """

    __slots__ = ("by_list", "in_cells", "key", "part", "run", "scope", "variant")

    def __init__(self, part: ScopeHolder, day: int, variant: str, in_cells: bool) -> None:
        self.part, self.run, self.variant, self.scope = part, part.run, variant, part.scope(day)
        self.key: ScopeKey = (part.number, day)
        self.in_cells, self.by_list = in_cells, bool(part.name.variant)


Entries: TypeAlias = frozenset[tuple[int, str]]
"""Stages in which a user's first lists are, each with the number of the run."""
NO_ENTRIES: Final[Entries] = frozenset()

AlikeScopes: TypeAlias = tuple[ScopeSet, tuple[ScopeSet, ...]]
"""Scopes in which users may have the same totals: all of them; and the whole runs, and the scopes of the day, if there are both. A user
who came on this day has one set. Later, whole runs are a set, and each day is one."""


class ExposureTarget(NamedTuple):
    """The scopes of lists with the same experiments, shown from `first` to `last` (ms, both inclusive, on one day).

    In `sets`, runs with covariates have sets of their own, and so has each scope with credit for teams. `parts` are those of their runs.
    `unstaged` is the number of these experiments that have stages, none of which is that of the lists. `entries` are the stages that users
    enter with these lists.
    """

    first: int
    last: int
    sets: list[AlikeScopes]
    parts: tuple[ScopeHolder, ...] = ()
    unstaged: int = 0
    entries: Entries = NO_ENTRIES


_NOWHERE: Final = ExposureTarget(FOREVER, NEVER, [])


class _Place(NamedTuple):
    """Where lists of one experiment belong that are shown from `first` to `last` (ms, both inclusive): the part of its run, and the
    targets there. None: they do not count; `unstaged` is 1 if that is because they are in no stage. `entries`: see ExposureTarget.
    """

    first: int
    last: int
    part: ScopeHolder | None = None
    targets: tuple[VariantTarget, ...] = ()
    unstaged: int = 0
    entries: Entries = NO_ENTRIES


_UNKNOWN: Final = _Place(FOREVER, NEVER)


class ExposureTargets:
    """All targets of one batch. `labels` and `stages` are the experiments of its lists and their segments that name stages, by number."""

    def __init__(
        self,
        runs: ExperimentRuns,
        rules: ExperimentRules,
        labels: Sequence[Labels],
        stages: Sequence[Labels],
        *,
        pane_ms: int,
        counted_from: int = NEVER,
        enrolled_before: int = NEVER,
        oldest_kept: int = NEVER,
    ) -> None:
        self.labels, self.stages = labels, stages
        self.runs, self.rules, self.pane_ms = runs, rules, pane_ms
        self.counted_from, self.enrolled_before = counted_from, enrolled_before
        self.day_from = NEVER if oldest_kept == NEVER else oldest_kept // DAY_MS
        self._exposures: dict[tuple[int, int, Entries], ExposureTarget] = {}
        self._places: dict[tuple[tuple[str, str], Labels, int, str | None], _Place] = {}
        self._entered = {name for name, plan in rules.plans.items() if not plan.by_list}
        """Experiments in which it matters when a user came."""
        self._entries_of: dict[ScopeSet, Entries] = {}
        self._variants: dict[tuple[int, int, str], VariantTarget] = {}
        self._open: dict[ScopeKey | CovariatePeriod, bool] = {}
        self._targets_of: dict[ScopeSet, list[VariantTarget]] = {}
        self._until_of: dict[ScopeSet, int] = {}
        self.sets = ScopeSets(self.is_open)

    def entries_of(self, sets: Iterable[ScopeSet]) -> Entries:
        """Return the stages in which a user came, from the scopes with the user's lists."""
        if not self._entered:
            return NO_ENTRIES
        found = [each for scopes in sets if (each := self._entries_in(scopes))]
        return found[0] if len(found) == 1 else NO_ENTRIES.union(*found)

    def _entries_in(self, scopes: ScopeSet) -> Entries:
        known = self._entries_of.get(scopes)
        if known is None:
            holder_of, entered = self.runs.holder_of, self._entered
            holders = [holder_of[number] for number, day in scopes.variants if day == WHOLE and number in holder_of]
            counting = [each for each in holders if each.run.experiment in entered and not each.name.variant]
            known = self._entries_of[scopes] = frozenset((each.run.number, each.name.entry) for each in counting)
        return known

    def at(self, number: int, ts: int, entries: Entries = NO_ENTRIES) -> ExposureTarget:
        """Return the target of a list of a user who came in some stages; `number` is that of its experiments among `labels`."""
        key = (number, ts // DAY_MS, entries)
        target = self._exposures.get(key, _NOWHERE)
        if not target.first <= ts <= target.last:
            target = self._exposures[key] = self._find(self.labels[number], self.stages[number], ts, entries)
        return target

    def _find(self, labels: Labels, stages: Labels, ts: int, entries: Entries) -> ExposureTarget:
        day, unstaged, entry_of = ts // DAY_MS, 0, dict(entries)
        first, last = day * DAY_MS, (day + 1) * DAY_MS - 1
        together: list[VariantTarget] = []
        alone: list[AlikeScopes] = []
        parts: list[ScopeHolder] = []
        begun: list[Entries] = []
        for label in labels:
            run = self.runs.at(label[0], ts) if label[0] in self._entered else None
            entry = None if run is None else entry_of.get(run.number)
            key = (label, stages, day, entry)
            place = self._places.get(key, _UNKNOWN)
            if not place.first <= ts <= place.last:
                place = self._places[key] = self._place(*label, stages, ts, entry)
            first, last, unstaged = max(first, place.first), min(last, place.last), unstaged + place.unstaged
            if place.part is None:
                continue
            parts.append(place.part)
            if place.entries:
                begun.append(place.entries)
            if label[1] == INTERLEAVED:
                alone += [self._alike([target]) for target in place.targets]
            elif place.part.run.earlier is not None:
                alone.append(self._alike(place.targets))
            else:
                together += place.targets
        sets = [self._alike(together), *alone] if together else alone
        return ExposureTarget(first, last, sets, tuple(parts), unstaged, NO_ENTRIES.union(*begun))

    def _alike(self, targets: Sequence[VariantTarget]) -> AlikeScopes:
        whole, of_day = ({each.key: each.variant for each in targets if (each.key[1] == WHOLE) is wanted} for wanted in (True, False))
        apart = (self.sets.of(whole), self.sets.of(of_day)) if whole and of_day else ()
        return self.sets.of(whole | of_day), apart

    def _place(self, experiment: str, variant: str, stages: Labels, ts: int, entry: str | None) -> _Place:
        """Return where lists of one experiment belong, and for which times around `ts` that holds.

        `entry`: the stage in which the user came; None if the lists are the user's first.
        """
        run, span = self.runs.at(experiment, ts), self.rules.span(experiment)
        if run is None or not span.holds(ts) or ts < self.counted_from:
            return _Place(ts, ts)
        first, last = max(run.first, span.first, self.counted_from), min(run.last, span.last)
        if not run.scopes:
            run.earlier = self.rules.before(run.experiment, run.first)
        plan = self.rules.plans.get(experiment)
        part: ScopeHolder = run
        entries = NO_ENTRIES
        if plan is not None:
            stage = plan.at(ts, stages)
            first, last = max(first, stage.first), min(last, stage.last)
            if stage.key is None:
                return _Place(first, last, unstaged=1)
            name = PartName(stage.key, stage.key, variant) if plan.by_list else PartName(stage.key if entry is None else entry, stage.key)
            part = self.runs.part(run, name)
            if not plan.by_list and entry is None:
                entries = frozenset([(run.number, stage.key)])
        day = ts // DAY_MS
        scopes = (WHOLE, day) if day >= self.day_from else (WHOLE,)
        return _Place(first, last, part, tuple(self.variant(part, scope, variant) for scope in scopes), entries=entries)

    def variant(self, part: ScopeHolder, day: int, variant: str) -> VariantTarget:
        """Return the target of a variant in one scope. There is only one."""
        key = (part.number, day, variant)
        target = self._variants.get(key)
        if target is None:
            target = self._variants[key] = VariantTarget(part, day, variant, self._is_in_cells(part.run))
        return target

    @property
    def have_cells(self) -> bool:
        """Whether users of some run may be in several cells."""
        return bool(self.rules.plans) or any(run.parts for run in self.runs)

    def _is_in_cells(self, run: ExperimentRun) -> bool:
        """Whether users of a run may be in several cells, by its plan or by a former one."""
        return bool(run.parts) or run.experiment in self.rules.plans

    def targets_of(self, scopes: ScopeSet) -> list[VariantTarget]:
        """Return the targets of a set. None of its scopes may have several variants."""
        found = self._targets_of.get(scopes)
        if found is None:
            holder_of = self.runs.holder_of
            found = self._targets_of[scopes] = [
                self.variant(holder_of[number], day, variant) for (number, day), variant in scopes.variants.items() if variant is not None
            ]
        return found

    def is_open(self, scope: ScopeKey) -> bool:
        """Whether lists may still be added to a scope: it exists, and lists of its last time may not all be enrolled."""
        is_open = self._open.get(scope)
        if is_open is None:
            is_open = self._open[scope] = self._is_scope_open(*scope)
        return is_open

    def _is_scope_open(self, number: int, day: int) -> bool:
        part = self.runs.holder_of.get(number)
        if part is None or (day != WHOLE and day < self.day_from):
            return False
        last = self.rules.span(part.run.experiment).last
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
        ends = [self._until_of_set(scopes, wait_ms) for scopes in record.entries]
        ends += [self._until_of_run(number, wait_ms) for number, _ in record.exposed]
        ends += [self._until_of_period(period, wait_ms) for period in record.earlier]
        return min(ends, default=None)

    def _until_of_set(self, scopes: ScopeSet, wait_ms: int) -> int:
        until = self._until_of.get(scopes)
        if until is None:
            until = self._until_of[scopes] = min([self._until_of_run(number, wait_ms) for number, _ in scopes.variants])
        return until

    def _until_of_run(self, number: int, wait_ms: int) -> int:
        """When (ms) the run of a part may be over."""
        run = self.runs.holder_of[number].run
        last, end = run.last + self.rules.idle_ms, self.rules.span(run.experiment).end_ms
        return last if end is None else min(last, end + 2 * wait_ms)

    def _until_of_period(self, period: CovariatePeriod, wait_ms: int) -> int:
        """When (ms) the experiment that follows a covariate period is over. If it has no run yet, it should have begun by then."""
        ends = [self._until_of_run(run.number, wait_ms) for run in self.runs.of_name.get(period.experiment, ()) if run.earlier == period]
        if ends:
            return max(ends)
        last, end = period.start_ms + self.rules.idle_ms, self.rules.span(period.experiment).end_ms
        return (last if end is None else min(last, end)) + 2 * wait_ms
