"""The stored integers of one experiment in one scope. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streammetrics.experiments.hours import EntrySums, Hours
from streammetrics.statistics.measures import USERS_AT


class FeedbackCounts(NamedTuple):
    """Counts of feedback that matches a list, and of feedback that matches none."""

    matched: int
    unmatched: int

    @property
    def unmatched_share(self) -> float | None:
        """Share of feedback that matches no list; None without feedback."""
        return self.unmatched / sum(self) if any(self) else None


NO_FEEDBACK: Final = FeedbackCounts(0, 0)


class Reactions(NamedTuple):
    """The reactions to the lists of an arm; the first of each action on each item of a list counts.

    squares: the sum over lists of the square of their number. late: those that came later than nine tenths of the attribution window.
    """

    total: int
    squares: int
    late: int


NO_REACTIONS: Final = Reactions(0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSums:
    """The stored integers of one experiment in one scope, merged over tasks.

    hours: see `hours`. run_hours: those of the whole run, also in the scope of a day.
    entry_moments: moments by variant and entry, in blocks of days. A user is in each variant of which they saw a list.
    entry_users: by variant and entry, users and those with a hit by cut-off, in the order of `Measures.hits`.
    moments: those of all entries, by variant.
    pairs: cross moments (see `moments`) of each two variants, in order, of the users with lists in both.
    first_list_users: all users, by the variant of their first final list.
    exposed: all users with an exposure event, by the variant of the first one; empty without such events.
    reacting: by variant, users with feedback, and those of them with feedback that matches no list. Empty in the scope of a day.
    joined: the feedback of all users in this time.
    credits: moments of the credit of a pair's second team against the first, of users with interleaved lists.
    known_from_ms: see `ExperimentReport`.
    from_ms, to_ms: the event time that the scope covers so far. newest_ms: the time of the newest event, whether or not it is final.
    open_lists: lists that do not count, because the input ended before all their time for feedback.
    former_last_ms: event time of the last list of an earlier run under this name, which is not in these numbers; None: there was none.
    last_ms: event time of the latest list of each variant, whether it counts already or not; of those before the end.
    lists_since: by variant, lists of all other variants after that one, whether they count already or not.
    end_ms: the configured end of the experiment; None without one.
    segments: those of windows. Users come with further ones.
    reactions: those of the counted lists by variant. Empty in the scope of a day.
    """

    experiment: str
    scope: str
    moments: Mapping[str, Sequence[int]]
    first_list_users: Mapping[str, int]
    hours: Hours = field(default_factory=Hours)
    run_hours: Hours = field(default_factory=Hours)
    entry_moments: EntrySums = field(default_factory=EntrySums)
    entry_users: EntrySums = field(default_factory=EntrySums)
    pairs: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    exposed: Mapping[str, int] = field(default_factory=dict)
    reacting: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    joined: FeedbackCounts = NO_FEEDBACK
    credits: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    credit_actions: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    known_from_ms: int | None = None
    from_ms: int = 0
    to_ms: int = 0
    newest_ms: int = 0
    open_lists: int = 0
    former_last_ms: int | None = None
    last_ms: Mapping[str, int] = field(default_factory=dict)
    lists_since: Mapping[str, int] = field(default_factory=dict)
    end_ms: int | None = None
    reactions: Mapping[str, Reactions] = field(default_factory=dict)

    @property
    def users(self) -> dict[str, int]:
        """Users by variant: those with counted lists of it, or those whose first list was of it if they are more.

        Users whom a rollout gave another variant had their first list in the one before.
        """
        counted = {name: sums[USERS_AT] for name, sums in self.moments.items()}
        return {name: max(counted.get(name, 0), self.first_list_users.get(name, 0)) for name in {**counted, **self.first_list_users}}

    @property
    def run_users(self) -> dict[str, int]:
        """Users of the run by variant, also in the scope of a day: see `users`."""
        users, came = self.users, self.run_hours.new_users()
        return {name: max(users.get(name, 0), came.get(name, 0)) for name in {**came, **users}}
