"""The lists that enter between two commits, as columns: one user's after the other's, each user's in order of time.

Pure. What is looked up for lists is looked up once for all that are alike: by shape for their values and hits, by run for whom they
count for.
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
from streammetrics.sessions.shown_list import GradedPositions, ShownList
from streammetrics.windows.tally_deltas import RowShape

LabelRun: TypeAlias = tuple[int, int, int]
"""Lists of one user that follow each other and have the same experiments: the number of these, that of the first list, and that of the
last + 1."""


class FinalList(msgspec.Struct, gc=False, eq=False):
    """What is needed of a list that changes no more: not its items, only how many there are."""

    ts: int
    impression_id: str
    experiments: Labels
    length: int
    hits: GradedPositions
    teams: tuple[str, ...]
    topic: int

    @classmethod
    def of(cls, shown: ShownList) -> FinalList:
        """A list as it was shown, with all that it has earned."""
        impression, hits = shown.impression, shown.hits
        assert hits is not None, "a list that is no more is no final list"
        return cls(shown.ts, impression.impression_id, impression.experiments, len(shown.items), hits, impression.teams, impression.topic)


class FinalLists:
    """All lists that enter, by number. `of_users`: the lists of each user, in any order; they are sorted by (ts, impression_id).

    `times` are those of the lists, `shape_of` the numbers of their shapes among `shapes`, and `label_runs` the label_runs of each user; `labels` are
    the experiments that runs have.
    """

    def __init__(self, of_users: Sequence[Sequence[FinalList]]) -> None:
        self.lists = list(chain.from_iterable(of_users))
        self._ends = list(accumulate(map(len, of_users), initial=0))
        self.times = [final.ts for final in self.lists]
        self._sort()
        self.shapes, self.shape_of = _shapes(self.lists)
        self.label_runs, self.labels = self._cut()

    def _sort(self) -> None:
        """Put the lists of each user in order: most are already, for that is how they are shown."""
        times = np.array(self.times, dtype=np.int64)
        late = np.flatnonzero(times[1:] <= times[:-1]) + 1  # also the first lists of most users, which follow another's
        ends = np.array(self._ends, dtype=np.int64)
        users = np.searchsorted(ends, late, side="right") - 1
        for user in dict.fromkeys(users[ends[users] != late].tolist()):
            first, end = self._ends[user], self._ends[user + 1]
            self.lists[first:end] = sorted(self.lists[first:end], key=_in_order)
            self.times[first:end] = [final.ts for final in self.lists[first:end]]

    def _cut(self) -> tuple[list[list[LabelRun]], list[Labels]]:
        """The runs of each user, and all experiments that some list has."""
        labels = [final.experiments for final in self.lists]
        begins = np.zeros(len(labels) + 1, dtype=bool)
        begins[1:-1] = list(map(operator.ne, labels, labels[1:]))
        begins[self._ends] = True
        starts = np.flatnonzero(begins)
        firsts = starts.tolist()
        numbers: defaultdict[Labels, int] = defaultdict(count().__next__)
        label_runs = [(numbers[labels[first]], first, end) for first, end in pairwise(firsts)]
        froms = np.searchsorted(starts, self._ends).tolist()
        return [label_runs[first:end] for first, end in pairwise(froms)], list(numbers)


def _shapes(lists: Sequence[FinalList]) -> tuple[list[RowShape], Ints]:
    """The shapes of lists, each once, and which of them each list has."""
    numbers: defaultdict[RowShape, int] = defaultdict(count().__next__)
    shape_of = [numbers[final.length, *final.hits] for final in lists]
    return list(numbers), np.array(shape_of, dtype=np.int64)


def _in_order(final: FinalList) -> tuple[int, str]:
    return final.ts, final.impression_id
