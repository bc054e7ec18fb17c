"""The experiments that a task knows: each lives from its first list until no list of it came for long, and then leaves nothing.

Pure. A life is to lists what a session is to events: lists of one experiment whose times are at most `idle_ms` apart belong to one
life, in whatever order they arrive. So which life a list belongs to is a function of the lists alone. A life that no admitted
list can touch any more is dropped with all that was summed in it; an experiment of that name then begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER

WHOLE: Final = -1
"""The scope of a whole life; every other scope is a day, counted from the epoch in UTC."""


class Span(NamedTuple):
    """When an experiment runs by decree (epoch ms): lists from `start_ms` on and before `end_ms` count; None for no bound."""

    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def first(self) -> int:
        """The least time that it holds (ms)."""
        return NEVER if self.start_ms is None else self.start_ms

    @property
    def last(self) -> int:
        """The greatest time that it holds (ms)."""
        return FOREVER if self.end_ms is None else self.end_ms - 1

    def holds(self, ts: int) -> bool:
        return self.first <= ts <= self.last


class CovariatePeriod(NamedTuple):
    """A time before an experiment (epoch ms), from `from_ms` on and before `start_ms`: what users' covariates are the means of."""

    experiment: str
    from_ms: int
    start_ms: int

    def holds(self, ts: int) -> bool:
        return self.from_ms <= ts < self.start_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRules:
    """What decides which lists count in experiments. `metrics` are those that users' totals hold; empty: all that are scored.

    `patience_ms`: how long a list that is final waits for its session to close before it enters without, so that the lists of a
    visit enter together. `variants_max` bounds the variants of all experiments of a task together, as `groups_max` its groups.
    `earlier` has the times before experiments of which users' totals are kept for their covariates, at most one an experiment.
    """

    idle_ms: int = 30 * DAY_MS
    patience_ms: int = 0
    variants_max: int = 200
    metrics: tuple[str, ...] = ()
    spans: Mapping[str, Span] = field(default_factory=dict, hash=False)
    earlier: tuple[CovariatePeriod, ...] = ()

    def span(self, experiment: str) -> Span:
        return self.spans.get(experiment, EVER)

    def is_earlier(self, ts: int) -> bool:
        """Whether a list at this time is of use as earlier than some experiment, whatever experiments it belongs to."""
        return any(each.holds(ts) for each in self.earlier)

    def before(self, run: ExperimentRun) -> CovariatePeriod | None:
        """The time before a life whose lists make covariates: of the life that begins in time after the set start, if any."""
        return next((each for each in self.earlier if each.experiment == run.experiment and self.in_time(each, run)), None)

    def in_time(self, earlier: CovariatePeriod, run: ExperimentRun) -> bool:
        """Whether a life begins so soon after the start that it is the one meant: the life after it would not."""
        return run.first <= earlier.start_ms + self.idle_ms


EVER: Final = Span()


def is_behind(last: int, pane_ms: int, entered_before: int) -> bool:
    """Whether no list up to a time (ms) may still enter, because all of the panes up to there, and the next one, have.

    >>> [is_behind(last, 10, 70) for last in (59, 60, 61)]
    [True, False, False]
    """
    return last + pane_ms < entered_before


class Scope:
    """What is summed over the users of one life, in all or on one day: by variant, but for the users who saw several.

    `credits` are the moments of credit for the second team of a pair against the first, by pair of teams in order.
    """

    __slots__ = ("credits", "first_exposures", "moments", "multi_exposed")

    def __init__(self) -> None:
        self.credits: dict[tuple[str, str], list[int]] = {}
        self.moments: dict[str, list[int]] = {}
        self.first_exposures: dict[str, int] = {}
        self.multi_exposed = 0


class ExperimentRun:
    """One life of an experiment. `first` and `last` are the least and the greatest time of its admitted lists (ms).

    `earlier` is settled when the first list enters, and never changes: its moments have covariates, or have none, throughout.
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
        """The scope of a day, or of the whole life; made when it is new."""
        known = self.scopes.get(day)
        if known is None:
            known = self.scopes[day] = Scope()
        return known


class ExperimentRuns:
    """All lives of a task. Numbers are never used twice, so that what users hold of a life that is gone is known as such."""

    def __init__(self, idle_ms: int) -> None:
        self.idle_ms = idle_ms
        self.next_number = 1
        self.of_name: dict[str, list[ExperimentRun]] = {}
        self.of_number: dict[int, ExperimentRun] = {}

    def __iter__(self) -> Iterator[ExperimentRun]:
        return iter(self.of_number.values())

    def take(self, run: ExperimentRun) -> None:
        """Take in a life that was stored."""
        self.of_number[run.number] = run
        runs = self.of_name.setdefault(run.experiment, [])
        runs.append(run)
        runs.sort(key=lambda each: each.first)

    def near(self, experiment: str, ts: int) -> list[ExperimentRun]:
        """The lives that a list at `ts` would extend; two, if it joins them."""
        return [run for run in self.of_name.get(experiment, ()) if run.first - self.idle_ms <= ts <= run.last + self.idle_ms]

    def extend(self, experiment: str, variant: str, ts: int) -> ExperimentRun:
        """Count a list: it opens a life, extends one, or joins two that are neighbours."""
        near = self.near(experiment, ts)
        if not near:
            run = ExperimentRun(self.next_number, experiment, ts, ts, (variant,))
            self.next_number += 1
            self.take(run)
            return run
        run = near[0]
        run.first, run.last = min(run.first, ts), max(run.last, ts)
        run.variants.add(variant)
        for later in near[1:]:
            # What entered the later one would be final, and then no list could still come between the two.
            assert not later.scopes, "two lives that have both begun were joined"
            run.first, run.last = min(run.first, later.first), max(run.last, later.last)
            run.variants |= later.variants
            self._drop(later)
        return run

    def at(self, experiment: str, ts: int) -> ExperimentRun | None:
        """The life that holds a list; None when it is gone."""
        for run in self.of_name.get(experiment, ()):
            if run.first <= ts <= run.last:
                return run
        return None

    def variants(self) -> int:
        return sum(len(run.variants) for run in self)

    def new_variants(self, arms: Iterable[tuple[str, str]], ts: int) -> int:
        """How many variants more there would be with a list of these experiments and variants at `ts`."""
        return sum(not any(variant in run.variants for run in self.near(experiment, ts)) for experiment, variant in arms)

    def drop_ended(self, bound: int) -> list[ExperimentRun]:
        """Drop the lives that no admitted list can touch any more: those with last + idle < bound."""
        ended = [run for run in self if run.last + self.idle_ms < bound]
        for run in ended:
            self._drop(run)
        return ended

    def _drop(self, run: ExperimentRun) -> None:
        del self.of_number[run.number]
        runs = self.of_name[run.experiment]
        runs.remove(run)
        if not runs:
            del self.of_name[run.experiment]
