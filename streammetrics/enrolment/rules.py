"""Which final lists count in experiments. Pure: the answer depends only on a list's time and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.events.model import Labels
from streammetrics.experiments.hours import Arrival, stratum_of
from streammetrics.sessions.rules import JoinRules
from streammetrics.windows.unique_users import UniqueUserRules
from streammetrics.words.times import HOUR_MS


class Span(NamedTuple):
    """The configured time of an experiment (epoch ms): lists count from `start_ms` on and before `end_ms`. None: no bound."""

    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def first(self) -> int:
        """The first time (ms) at which lists count."""
        return NEVER if self.start_ms is None else self.start_ms

    @property
    def last(self) -> int:
        """The last time (ms) at which lists count."""
        return FOREVER if self.end_ms is None else self.end_ms - 1

    def holds(self, ts: int) -> bool:
        return self.first <= ts <= self.last


class CovariatePeriod(NamedTuple):
    """The time before an experiment (epoch ms), from `from_ms` on and before `start_ms`. Users' covariates are their means in it."""

    experiment: str
    from_ms: int
    start_ms: int

    def holds(self, ts: int) -> bool:
        return self.from_ms <= ts < self.start_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRules:
    """Which lists count in experiments.

    `metrics` are those of users' totals; empty: all metrics that are scored. `patience_ms` is how long a final list waits at most for its
    session to close before it is enrolled without. So the lists of a visit are enrolled together. `variants_max` limits the variants of
    all runs of a task. `earlier` are the covariate periods, at most one for each experiment. `strata` is
    the segment of each experiment that has strata.
    """

    idle_ms: int = 30 * DAY_MS
    patience_ms: int = 0
    variants_max: int = 200
    metrics: tuple[str, ...] = ()
    spans: Mapping[str, Span] = field(default_factory=dict, hash=False)
    earlier: tuple[CovariatePeriod, ...] = ()
    strata: Mapping[str, str] = field(default_factory=dict, hash=False)

    def span(self, experiment: str) -> Span:
        return self.spans.get(experiment, EVER)

    def stratum(self, experiment: str, segments: Labels) -> str:
        """Return the stratum of users whose first list has these segments; empty in an experiment without strata."""
        segment = self.strata.get(experiment)
        return "" if segment is None else stratum_of(segment, segments)

    def arrival(self, experiment: str, ts: int, segments: Labels) -> Arrival:
        """Return when a user comes whose first list in a run is at `ts` (ms) and has these segments."""
        stratum = self.stratum(experiment, segments)
        return (ts // HOUR_MS, stratum) if stratum else ts // HOUR_MS

    def is_earlier(self, ts: int) -> bool:
        """Whether a list at this time is in some covariate period, whatever its experiments."""
        return any(period.holds(ts) for period in self.earlier)

    def before(self, experiment: str, first: int) -> CovariatePeriod | None:
        """Return the covariate period of a run that begins at `first` (ms). None: the experiment has none, or the run began too late."""
        return next((period for period in self.earlier if period.experiment == experiment and self.in_time(period, first)), None)

    def in_time(self, earlier: CovariatePeriod, first: int) -> bool:
        """Whether a run that begins at `first` (ms) has this period. If it began later, the period belongs to a run that is over."""
        return first <= earlier.start_ms + self.idle_ms


EVER: Final = Span()


def is_behind(last: int, pane_ms: int, enrolled_before: int) -> bool:
    """Whether all lists up to a time (ms) are enrolled: those of all panes up to there, and of the next one.

    >>> [is_behind(last, 10, 70) for last in (59, 60, 61)]
    [True, False, False]
    """
    return last + pane_ms < enrolled_before


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolmentRules:
    """What is counted of users' final lists. Times are in milliseconds.

    `experiments`: None means that no users are counted in experiments; experiments still have windows and totals, as every group does.
    `unique_users`: None means that no unique users are counted. `segments` are those of windows.
    """

    join: JoinRules = field(default_factory=JoinRules)
    pane_ms: int = 60_000
    experiments: ExperimentRules | None = None
    unique_users: UniqueUserRules | None = None
    segments: tuple[str, ...] = ()

    @property
    def patience_ms(self) -> int:
        """How long a final list waits for its session to close before it is enrolled without."""
        return max([rules.patience_ms for rules in (self.experiments, self.unique_users) if rules is not None], default=0)

    @property
    def enrolment_wait_ms(self) -> int:
        """How long a list waits at most until it is enrolled. The wait begins at the end of the list's pane."""
        return self.join.attribution_ms + self.patience_ms

    @property
    def users_counted(self) -> bool:
        """Whether users are counted at all: in experiments, in windows, or both."""
        return self.unique_users is not None or self.experiments is not None

    def counts_users(self, experiments: Labels) -> bool:
        """Whether the users of a list with these experiments are counted."""
        return self.unique_users is not None or (self.experiments is not None and bool(experiments))
