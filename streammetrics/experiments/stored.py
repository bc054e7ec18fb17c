"""The stored integers of one experiment in one scope. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streammetrics.experiments.arrivals import HOUR_MS, NO_ARRIVALS, Arrivals
from streammetrics.experiments.health import NO_FEEDBACK, Joined
from streammetrics.experiments.list_signs import Reactions
from streammetrics.experiments.stages import ExperimentUnit


class Cell(NamedTuple):
    """A variant in two stages: that of the user's first list in the experiment, and that of the list. See `stages.stage_key`.

    With unit "list", both are the stage of the list.
    """

    entry: str
    stage: str
    variant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStage:
    """The stored integers of one stage's lists, of the users who came in one stage, merged over tasks.

    key: the stage of the lists. entry: the stage of the users' first list; with unit "list" it is `key` as well.
    unit: what was assigned when the lists were added.
    moments, first_exposures, multi_exposed_users, exposed: as in Stored, of these lists. With unit "list" a user is in the moments of each
    variant that they saw, and no user is counted as multi-exposed.
    last_ms: event time of the latest list.
    arrivals: users by variant over time, or lists with unit "list". They are those of `exposed` if there are any, else of
    `first_exposures`.
    """

    entry: str
    key: str
    unit: ExperimentUnit = "user"
    moments: Mapping[str, Sequence[int]]
    first_exposures: Mapping[str, int]
    multi_exposed_users: int = 0
    last_ms: int | None = None
    exposed: Mapping[str, int] = field(default_factory=dict)
    arrivals: Arrivals = NO_ARRIVALS


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The stored integers of one experiment in one scope, merged over tasks.

    moments: by variant, of users that saw only this variant. With stages: the sums over its cells.
    first_exposures: all users, by the variant of their first final list.
    multi_exposed_users: users that saw several variants.
    exposed: all users with an exposure event, by the variant of the first one; empty without such events.
    joined: see `health.health`.
    credits: moments of the credit of a pair's second team against the first, of users that saw only the interleaved variant.
    known_from_ms: see `ExperimentReport`.
    variants_since_ms: event time at which each variant first appeared, or an earlier one.
    window_ms: the length of the longest window; None if it is unknown.
    from_ms, to_ms: the event time that the scope covers so far. newest_ms: the time of the newest event, whether or not it is final.
    stages: its stages, by entry, in any order. Without cells (see `Policy.in_cells`) it may be empty: see `in_stages`.
    pairs: cross moments (see `covariance_sums`) of each two cells with common users, by the two cells in order.
    arrivals: as in StoredStage; a user counts once, in the stage of their entry. Empty in the scope of a day.
    last_ms: event time of the latest list of each variant, whether it counts already or not.
    recent_lists: counted lists by variant and hour since the epoch, of the latest hours with lists (see `arrivals.merge_hours`). Empty in
    the scope of a day.
    reactions: those of the counted lists by variant. Empty in the scope of a day.
    """

    experiment: str
    scope: str
    moments: Mapping[str, Sequence[int]]
    first_exposures: Mapping[str, int]
    multi_exposed_users: int
    joined: Joined = NO_FEEDBACK
    credits: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    credit_actions: tuple[str, ...] = ()
    known_from_ms: int | None = None
    variants_since_ms: Mapping[str, int] = field(default_factory=dict)
    from_ms: int = 0
    to_ms: int = 0
    window_ms: int | None = None
    newest_ms: int = 0
    stages: tuple[StoredStage, ...] = ()
    pairs: Mapping[tuple[Cell, Cell], Sequence[int]] = field(default_factory=dict)
    exposed: Mapping[str, int] = field(default_factory=dict)
    arrivals: Arrivals = NO_ARRIVALS
    last_ms: Mapping[str, int] = field(default_factory=dict)
    recent_lists: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    reactions: Mapping[str, Reactions] = field(default_factory=dict)

    def with_times_of(self, run: Stored) -> Stored:
        """Return a day with the arrivals and the recent lists of its run: users of the day may have arrived before it."""
        arrivals = {(each.entry, each.key, each.unit): each.arrivals for each in run.stages}
        stages = tuple(replace(each, arrivals=arrivals.get((each.entry, each.key, each.unit), NO_ARRIVALS)) for each in self.stages)
        return replace(self, arrivals=run.arrivals, recent_lists=run.recent_lists, stages=stages)

    @property
    def in_stages(self) -> tuple[StoredStage, ...]:
        """Its stages. Without any, all its lists are one stage."""
        return self.stages or (
            StoredStage(
                entry="",
                key="",
                moments=self.moments,
                first_exposures=self.first_exposures,
                multi_exposed_users=self.multi_exposed_users,
                exposed=self.exposed,
                arrivals=self.arrivals,
            ),
        )

    @property
    def in_cells(self) -> bool:
        """Whether its lists were counted in cells: in other stages than "", or with unit "list"."""
        return any(each.key or each.unit == "list" for each in self.stages)

    def lists_since_last(self, variant: str, other: str) -> int:
        """Return how many lists `other` has had, at least, since the last list of `variant`.

        Only whole hours count, and only those of which all lists count already.

        >>> kept = Stored(experiment="ranker", scope="start", moments={}, first_exposures={}, multi_exposed_users=0, to_ms=9 * HOUR_MS,
        ...     last_ms={"off": 5 * HOUR_MS + 1}, recent_lists={"control": {4: 10, 5: 20, 6: 30, 8: 40, 9: 50}})
        >>> kept.lists_since_last("off", "control")
        70
        """
        last = self.last_ms.get(variant)
        if last is None:
            return 0
        first, end = last // HOUR_MS + 1, self.to_ms // HOUR_MS
        return sum(lists for hour, lists in self.recent_lists.get(other, {}).items() if first <= hour < end)
