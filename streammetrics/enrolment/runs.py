"""The runs of a task's experiments.

Pure. A run is to lists what a session is to events: lists of one experiment that are at most `idle_ms` apart belong to one run, in whatever
order they arrive. An exposure counts like lists for as long as it is valid. A run that no admitted event can extend any more is dropped,
with its sums. An experiment of that name then starts a new run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from streammetrics.enrolment.rules import CovariatePeriod
from streammetrics.enrolment.scopes import WHOLE, RowName, Scope, decode_row, parse_row_name, scopes_of_rows
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.events.model import Labels
from streammetrics.state.tables import RowChanges

ENDED_MAX: Final = 256
"""Experiments whose end is remembered."""
StoredRun: TypeAlias = tuple[int, str, int, int, list[str], CovariatePeriod | None]
"""The stored form of a run: number, experiment, first list, last list, variants, covariate period."""


class ExperimentRun:
    """One run of an experiment. `first` and `last` are the times (ms) of its first and last admitted list, or of exposures.

    `earlier` is its covariate period, if any. It is set when the first list is enrolled and never changes after that.
    """

    __slots__ = ("earlier", "experiment", "first", "last", "number", "scopes", "variants")

    def __init__(
        self, number: int, experiment: str, first: int, last: int, variants: Iterable[str] = (), earlier: CovariatePeriod | None = None
    ) -> None:
        self.earlier = earlier
        self.number = number
        self.experiment = experiment
        self.first = first
        self.last = last
        self.variants = set(variants)
        self.scopes: dict[int, Scope] = {}

    def scope(self, day: int) -> Scope:
        """Return the scope of a day, or of the whole run. A new scope is created."""
        scope = self.scopes.get(day)
        if scope is None:
            scope = self.scopes[day] = Scope()
        return scope


class ExperimentRuns:
    """All runs of a task, and which of their sums a commit writes and deletes.

    Numbers are never reused, so a user's totals of a dropped run are recognised. A scope is the number of its run, and the day.
    """

    def __init__(self, idle_ms: int) -> None:
        self.idle_ms = idle_ms
        self.next_number = 1
        self.of_name: dict[str, list[ExperimentRun]] = {}
        self.of_number: dict[int, ExperimentRun] = {}
        self._changed: set[tuple[int, int]] = set()
        self._gone: set[str] = set()
        """Scopes to write with the next commit, and rows to delete."""
        self._input_ended = False
        self.ended: dict[str, int] = {}
        """The last list (ms) of each experiment's latest run that has ended; of at most ENDED_MAX experiments, those that ended last."""

    def __iter__(self) -> Iterator[ExperimentRun]:
        return iter(self.of_number.values())

    def restore(self, runs: Iterable[StoredRun], ended: Iterable[tuple[str, int]]) -> None:
        """Continue the runs of the last commit."""
        for run in runs:
            self._add(ExperimentRun(*run))
        self.ended = dict(ended)

    def stored(self) -> list[StoredRun]:
        """Return the stored form of all runs."""
        return [(run.number, run.experiment, run.first, run.last, sorted(run.variants), run.earlier) for run in self]

    def _add(self, run: ExperimentRun) -> None:
        self.of_number[run.number] = run
        runs = self.of_name.setdefault(run.experiment, [])
        runs.append(run)
        runs.sort(key=lambda run: run.first)

    def near(self, experiment: str, ts: int, until: int | None = None) -> list[ExperimentRun]:
        """Return the runs that a list at `ts` would extend; several, if it joins them. An exposure lasts from `ts` to `until`."""
        until = ts if until is None else until
        return [run for run in self.of_name.get(experiment, ()) if run.first - self.idle_ms <= until and ts <= run.last + self.idle_ms]

    def extend(self, experiment: str, variant: str, ts: int, until: int | None = None) -> ExperimentRun:
        """Count a list, or an exposure until a time: it starts a run, extends one, or joins neighbours."""
        near, until = self.near(experiment, ts, until), ts if until is None else until
        if not near:
            run = ExperimentRun(self.next_number, experiment, ts, until, (variant,))
            self.next_number += 1
            self._add(run)
            return run
        run = near[0]
        run.first, run.last = min(run.first, ts), max(run.last, until)
        run.variants.add(variant)
        for later in near[1:]:
            # If lists of the later run were enrolled, they were final, and no list could arrive between the two runs any more.
            assert not later.scopes, "two runs with enrolled lists were joined"
            run.first, run.last = min(run.first, later.first), max(run.last, later.last)
            run.variants |= later.variants
            self._drop(later)
        return run

    def knows(self, experiment: str, variant: str, oldest: int, newest: int) -> bool:
        """Whether lists between two times would change nothing: the experiment has one run, which holds them and has the variant."""
        runs = self.of_name.get(experiment, ())
        return len(runs) == 1 and runs[0].first <= oldest and newest <= runs[0].last and variant in runs[0].variants

    def know_all(self, labels: Labels, ts: int) -> bool:
        """Whether a list of these experiments and variants at `ts` would change nothing."""
        return all(self.knows(experiment, variant, ts, ts) for experiment, variant in labels)

    def at(self, experiment: str, ts: int) -> ExperimentRun | None:
        """Return the run of a list at `ts`. None if it was dropped."""
        for run in self.of_name.get(experiment, ()):
            if run.first <= ts <= run.last:
                return run
        return None

    def variants(self) -> int:
        return sum(len(run.variants) for run in self)

    def new_variants(self, labels: Iterable[tuple[str, str]], ts: int) -> int:
        """Return how many variants a list of these experiments and variants at `ts` would add."""
        return sum(not any(variant in run.variants for run in self.near(experiment, ts)) for experiment, variant in labels)

    def drop_ended(self, bound: int) -> list[ExperimentRun]:
        """Drop and return the runs that no admitted list can extend any more: those with last + idle < bound.

        Their sums go with them. Users' totals of these runs are dropped when the users are next due. After the end of the input, or at
        FOREVER, it drops none: the end of the input does not end an experiment.
        """
        if self._input_ended or bound == FOREVER:
            return []
        ended = [run for run in self if run.last + self.idle_ms < bound]
        for run in ended:
            self.ended[run.experiment] = max(self.ended.get(run.experiment, NEVER), run.last)
            self._drop(run)
        if len(self.ended) > ENDED_MAX:
            self.ended = dict(sorted(self.ended.items(), key=lambda ending: (-ending[1], ending[0]))[:ENDED_MAX])
        return ended

    def end_input(self, bound: int) -> None:
        """Drop the runs that have ended, and no others from now on."""
        self.drop_ended(bound)
        self._input_ended = True

    def _drop(self, run: ExperimentRun) -> None:
        del self.of_number[run.number]
        for day in [*run.scopes]:
            self._drop_scope(run, day)
        runs = self.of_name[run.experiment]
        runs.remove(run)
        if not runs:
            del self.of_name[run.experiment]

    def _drop_scope(self, run: ExperimentRun, day: int) -> None:
        scope = run.scopes.pop(day)
        self._changed.discard((run.number, day))
        self._gone.update(str(RowName(run.number, day, part)) for part in scope.parts | scope.gone)

    def restore_scopes(self, stored: Mapping[str, bytes]) -> None:
        """Give stored sums, by the names of their rows, to their runs."""
        names = {name: parse_row_name(name) for name in stored}
        for number, day, scope in scopes_of_rows((part, decode_row(part.part, stored[name])) for name, part in names.items()):
            self.of_number[number].scopes[day] = scope

    def delete_scopes(self, stored: Iterable[str]) -> None:
        """Delete stored rows, whose runs are not restored."""
        self._gone.update(stored)

    def note_changed(self, scopes: Iterable[tuple[int, int]]) -> None:
        """Write these scopes with the next commit."""
        self._changed.update(scopes)

    def scope_changes(self, oldest_kept: int) -> RowChanges:
        """Return the rows that changed, and the names of those to delete: of ended runs, and of days before the oldest pane."""
        for run in self:
            for day in [day for day in run.scopes if day != WHOLE and (day + 1) * DAY_MS <= oldest_kept]:
                self._drop_scope(run, day)
        rows: dict[str, bytes] = {}
        for number, day in sorted(self._changed):
            changed, gone = self.of_number[number].scopes[day].take_changes()
            rows |= {str(RowName(number, day, part)): row for part, row in changed.items()}
            self._gone.update(str(RowName(number, day, part)) for part in gone)
        gone_rows = sorted(self._gone - rows.keys())
        self._changed, self._gone = set(), set()
        return RowChanges(rows, gone_rows)
