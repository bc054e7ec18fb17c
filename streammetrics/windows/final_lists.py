"""The lists of one commit that are added to user totals, as columns: user by user, each user's lists in order of time.

Work that depends only on a list's shape or labels is done once for all lists that share them.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate, chain, count, pairwise
from typing import TypeAlias

import msgspec
import numpy as np

from streammetrics.events.model import Labels
from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.tally import ListShape
from streammetrics.sessions.engagement import NEW_LIST, Engagement
from streammetrics.sessions.item_text import length_of
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.state import GradedPositions, ShownList
from streammetrics.windows.tally_deltas import EngagedList, ItemPlaces, places_of

LabelRun: TypeAlias = tuple[int, int, int]
"""Consecutive lists of one user with the same experiments: number of the label set, first list, last list + 1."""


class FinalList(msgspec.Struct, gc=False, eq=False):
    """What is kept of a list that can no longer change: everything but its items. `segments` are those that new users are counted by.

    `reactions` are its different reactions. `late_reactions` of them came in the last tenth of the attribution window.
    """

    ts: int
    impression_id: str
    experiments: Labels
    places: ItemPlaces
    hits: GradedPositions
    teams: tuple[str, ...]
    topic: int
    segments: Labels = ()
    engagement: Engagement = NEW_LIST
    reactions: int = 0
    late_reactions: int = 0

    @classmethod
    def of(cls, shown_list: ShownList, rules: JoinRules, segments: Labels = ()) -> FinalList:
        """Return the final form of a shown list. `rules` are those of its join."""
        places: ItemPlaces = places_of(shown_list.text) if rules.absolute_positions else length_of(shown_list.text)
        return cls(
            ts=shown_list.ts,
            impression_id=shown_list.impression_id,
            experiments=shown_list.experiments,
            places=places,
            hits=shown_list.hits,
            teams=shown_list.teams,
            topic=shown_list.topic,
            segments=segments,
            engagement=shown_list.engagement,
            reactions=len(shown_list.reactions),
            late_reactions=_late_reactions(shown_list, rules.attribution_ms) if shown_list.reactions else 0,
        )

    def engaged(self) -> EngagedList:
        """Return what the engagement columns depend on."""
        items = self.places if isinstance(self.places, int) else len(self.places)
        return EngagedList(self.ts, items, self.hits, self.engagement)


class FinalLists:
    """All lists of a commit, by number. `of_users`: the lists of each user, in any order; they are sorted by (ts, impression_id).

    `times` are the times of the lists. `shape_of` has the number of each list's shape in `shapes`. `label_runs` has the runs of each
    user. By the number of a label set, its experiments are in `labels`.
    """

    def __init__(self, of_users: Sequence[Sequence[FinalList]]) -> None:
        self.lists = list(chain.from_iterable(of_users))
        self._ends = list(accumulate(map(len, of_users), initial=0))
        self.times = [final.ts for final in self.lists]
        self._sort()
        self.shapes, self.shape_of = _shapes(self.lists)
        self.label_runs, self.labels = self._label_runs()

    def _sort(self) -> None:
        """Sort the lists of each user. Most are sorted already, because lists are stored as they are shown."""
        times = np.array(self.times, dtype=np.int64)
        unordered = np.flatnonzero(times[1:] <= times[:-1]) + 1  # includes the first lists of most users, which follow another user's lists
        ends = np.array(self._ends, dtype=np.int64)
        users = np.searchsorted(ends, unordered, side="right") - 1
        for user in dict.fromkeys(users[ends[users] != unordered].tolist()):
            first, end = self._ends[user], self._ends[user + 1]
            self.lists[first:end] = sorted(self.lists[first:end], key=_order_of)
            self.times[first:end] = [final.ts for final in self.lists[first:end]]

    def _label_runs(self) -> tuple[list[list[LabelRun]], list[Labels]]:
        """Return the runs of each user, and the experiments of all runs."""
        labels = [final.experiments for final in self.lists]
        begins = np.zeros(len(labels) + 1, dtype=bool)
        begins[1:-1] = list(map(operator.ne, labels, labels[1:]))
        begins[self._ends] = True
        starts = np.flatnonzero(begins)
        firsts = starts.tolist()
        numbers: defaultdict[Labels, int] = defaultdict(count().__next__)
        label_runs = [(numbers[labels[first]], first, end) for first, end in pairwise(firsts)]
        run_numbers = np.searchsorted(starts, self._ends).tolist()
        return [label_runs[first:end] for first, end in pairwise(run_numbers)], list(numbers)


def _late_reactions(shown_list: ShownList, attribution_ms: int) -> int:
    """Return how many reactions came later than nine tenths of the attribution window after the list."""
    return sum([10 * (ts - shown_list.ts) > 9 * attribution_ms for _, _, _, ts, _ in shown_list.reactions])


def _shapes(lists: Sequence[FinalList]) -> tuple[list[ListShape], Ints]:
    """Return the distinct shapes, and the number of each list's shape."""
    numbers: defaultdict[ListShape, int] = defaultdict(count().__next__)
    shape_of = [numbers[final.places, *final.hits] for final in lists]
    return list(numbers), np.array(shape_of, dtype=np.int64)


def _order_of(final: FinalList) -> tuple[int, str]:
    return final.ts, final.impression_id
