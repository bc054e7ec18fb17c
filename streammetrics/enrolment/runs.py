"""The runs of a task's experiments.

Pure. A run is to lists what a session is to events: lists of one experiment that are at most `idle_ms` apart belong to one run, in whatever
order they arrive. An exposure counts like lists for as long as it is valid. A run that no admitted event can extend any more is dropped,
with its sums. An experiment of that name then starts a new run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from streammetrics.enrolment.rules import CovariatePeriod
from streammetrics.enrolment.scopes import WHOLE, Scope, decode_scope, encode_scope, parse_scope_name, scope_name
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.events.model import Labels
from streammetrics.state.tables import RowChanges


class ExperimentRun:
    """One run of an experiment. `first` and `last` are the times (ms) of its first and last admitted list, or of exposures.

    `counted_last` is the time (ms) of the latest enrolled list in stage "", for users with a variant; NEVER: there is none.

    `earlier` is its covariate period, if any. It is set when the first list is enrolled and never changes after that. `parts` are
    those with an enrolled list, except OF_RUN: its scopes are the run's own.
    """

    __slots__ = ("counted_last", "earlier", "experiment", "first", "last", "number", "parts", "scopes", "variants")

    def __init__(
        self, number: int, experiment: str, first: int, last: int, variants: Iterable[str] = (), earlier: CovariatePeriod | None = None
    ) -> None:
        self.earlier = earlier
        self.number = number
        self.experiment = experiment
        self.first = first
        self.last = last
        self.counted_last = NEVER
        self.variants = set(variants)
        self.scopes: dict[int, Scope] = {}
        self.parts: dict[PartName, RunPart] = {}

    @property
    def name(self) -> PartName:
        return OF_RUN

    @property
    def run(self) -> ExperimentRun:
        """This run: it is the part of its lists in stage ""."""
        return self

    @property
    def holders(self) -> tuple[ExperimentRun | RunPart, ...]:
        """All that holds scopes of this run: the run and its parts."""
        return (self, *self.parts.values())

    def scope(self, day: int) -> Scope:
        """Return the scope of a day, or of the whole run. A new scope is created."""
        known = self.scopes.get(day)
        if known is None:
            known = self.scopes[day] = Scope(day)
        return known


class PartName(NamedTuple):
    """The stage of the users' first list, that of the lists, and the variant if users have none ("" if they have one).

    If users have no variant, both stages are that of the lists.
    """

    entry: str = ""
    stage: str = ""
    variant: str = ""


OF_RUN: Final = PartName()
"""The lists of stage "", of users with a variant."""


class RunPart:
    """Some lists of a run: see PartName. Its number is unique among runs and parts.

    `counted_last` is the time (ms) of its latest enrolled list.
    """

    __slots__ = ("counted_last", "name", "number", "run", "scopes")

    def __init__(self, number: int, run: ExperimentRun, name: PartName, counted_last: int = NEVER) -> None:
        self.number = number
        self.run = run
        self.name = name
        self.counted_last = counted_last
        self.scopes: dict[int, Scope] = {}

    def scope(self, day: int) -> Scope:
        """Return the scope of a day, or of the whole run. A new scope is created."""
        return self.scopes.setdefault(day, Scope(day))


ScopeHolder: TypeAlias = ExperimentRun | RunPart


class ExperimentRuns:
    """All runs of a task, and which of their sums a commit writes and deletes.

    Numbers are never reused, so a user's totals of a dropped run are recognised. A scope is the number of its run or part, and the day.
    """

    def __init__(self, idle_ms: int) -> None:
        self.idle_ms = idle_ms
        self.next_number = 1
        self.of_name: dict[str, list[ExperimentRun]] = {}
        self.of_number: dict[int, ExperimentRun] = {}
        self.holder_of: dict[int, ScopeHolder] = {}
        """Runs and parts by number."""
        self._changed: set[tuple[int, int]] = set()
        self._gone: set[tuple[int, int]] = set()
        """Scopes to write with the next commit, and scopes to delete."""
        self._input_ended = False

    def part(self, run: ExperimentRun, name: PartName) -> ScopeHolder:
        """Return the part of a run with a name. A new part is created."""
        if name == OF_RUN:
            return run
        known = run.parts.get(name)
        if known is None:
            known = RunPart(self.next_number, run, name)
            self.next_number += 1
            self.restore_part(known)
        return known

    def restore_part(self, part: RunPart) -> None:
        """Add a stored part."""
        part.run.parts[part.name] = part
        self.holder_of[part.number] = part

    def __iter__(self) -> Iterator[ExperimentRun]:
        return iter(self.of_number.values())

    def restore(self, run: ExperimentRun) -> None:
        """Add a stored run."""
        self.of_number[run.number] = self.holder_of[run.number] = run
        runs = self.of_name.setdefault(run.experiment, [])
        runs.append(run)
        runs.sort(key=lambda each: each.first)

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
            self.restore(run)
            return run
        run = near[0]
        run.first, run.last = min(run.first, ts), max(run.last, until)
        run.variants.add(variant)
        for later in near[1:]:
            # If lists of the later run were enrolled, they were final, and no list could arrive between the two runs any more.
            assert not any(holder.scopes for holder in later.holders), "two runs with enrolled lists were joined"
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
            self._drop(run)
        return ended

    def end_input(self, bound: int) -> None:
        """Drop the runs that have ended, and no others from now on."""
        self.drop_ended(bound)
        self._input_ended = True

    def _drop(self, run: ExperimentRun) -> None:
        del self.of_number[run.number]
        for holder in run.holders:
            del self.holder_of[holder.number]
            self._drop_scopes((holder.number, day) for day in holder.scopes)
        runs = self.of_name[run.experiment]
        runs.remove(run)
        if not runs:
            del self.of_name[run.experiment]

    def _drop_scopes(self, scopes: Iterable[tuple[int, int]]) -> None:
        for scope in scopes:
            self._changed.discard(scope)
            self._gone.add(scope)

    def restore_scopes(self, stored: Mapping[str, bytes]) -> None:
        """Give stored sums, by the names of their scopes, to their runs."""
        for name, scope in stored.items():
            number, day = parse_scope_name(name)
            self.holder_of[number].scopes[day] = decode_scope(scope, day)

    def delete_scopes(self, stored: Iterable[str]) -> None:
        """Delete stored sums, whose runs are not restored."""
        self._drop_scopes(map(parse_scope_name, stored))

    def note_changed(self, scopes: Iterable[tuple[int, int]]) -> None:
        """Write these scopes with the next commit."""
        self._changed.update(scopes)

    def scope_changes(self, oldest_kept: int) -> RowChanges:
        """Return the scopes that changed, and the names of those to delete: of ended runs, and of days before the oldest pane."""
        for holder in self.holder_of.values():
            old = [day for day in holder.scopes if day != WHOLE and (day + 1) * DAY_MS <= oldest_kept]
            for day in old:
                del holder.scopes[day]
            self._drop_scopes((holder.number, day) for day in old)
        scopes = {scope_name(number, day): encode_scope(self.holder_of[number].scopes[day]) for number, day in self._changed}
        gone = sorted(scope_name(*scope) for scope in self._gone - self._changed)
        self._changed, self._gone = set(), set()
        return RowChanges(scopes, gone)
