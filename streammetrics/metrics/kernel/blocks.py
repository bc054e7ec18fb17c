"""Cuts lists into blocks that fit the CPU cache. Time and memory grow with lists + hits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np

from streammetrics.metrics import checks
from streammetrics.metrics.arrays import AnyArray, Ints
from streammetrics.metrics.kernel.facts import Hits, ListFacts
from streammetrics.metrics.kernel.grade_levels import level_codes, small_levels
from streammetrics.metrics.plan import ScoringPlan

Block: TypeAlias = tuple[int, ListFacts]
"""Consecutive lists: the number of the first one, and the facts about them."""

UnseenGrades: TypeAlias = tuple[Ints, AnyArray]
"""Graded items that were not shown, sorted by list: rows and valid grades."""

BLOCK_HITS: Final = 32_768
BLOCK_LISTS: Final = 4_096
"""A block has about this many hits and lists."""


class Blocks:
    """The facts about lists under a plan, with the tables that are reused from call to call."""

    def __init__(self, plan: ScoringPlan) -> None:
        self.plan = plan
        self._small = small_levels(plan)

    def of_hits(self, lengths: Ints, rows: Ints, positions: Ints, grades: AnyArray, unseen: UnseenGrades) -> Iterator[Block]:
        """Facts about lists given by their hits, in any order."""
        keys = rows * (self.plan.items_max + 1) + positions
        if not (keys[1:] > keys[:-1]).all():
            order = np.argsort(keys)
            keys, rows, positions, grades = keys[order], rows[order], positions[order], grades[order]
            checks.check_no_repeats(keys, rows, positions)
        return self._of_sorted(lengths, rows, positions, grades, unseen, 0)

    def of_ragged(self, flat: AnyArray, offsets: Ints, unseen: UnseenGrades) -> Iterator[Block]:
        """Facts about concatenated lists. `offsets` has shape (L + 1,)."""
        for low in range(0, offsets.size - 1, BLOCK_LISTS):
            ends = offsets[low : low + BLOCK_LISTS + 1]
            cells = flat[ends[0] : ends[-1]]
            ends = ends - ends[0]
            hits = np.flatnonzero(cells != 0)
            rows = np.repeat(np.arange(ends.size - 1), np.diff(np.searchsorted(hits, ends)))
            unseen_hits = _of_rows(*unseen, low, low + BLOCK_LISTS)
            yield from self._of_sorted(np.diff(ends), rows, hits - ends[rows], cells[hits], unseen_hits, low)

    def _of_sorted(self, lengths: Ints, rows: Ints, positions: Ints, grades: AnyArray, unseen: UnseenGrades, first: int) -> Iterator[Block]:
        """Facts about lists whose hits are sorted by list, then position."""
        plan = self.plan
        doubles = checks.check_grades(grades, rows, positions, plan, first)
        unseen_rows, hidden = unseen
        levels, codes = level_codes(plan, self._small, np.concatenate([doubles, hidden]) if hidden.size else doubles)
        if hidden.size:
            checks.check_graded(np.bincount(rows, minlength=lengths.size), unseen_rows, plan.items_max, first)
        seen, never_shown = Hits(rows, positions, codes[: rows.size]), Hits(unseen_rows, unseen_rows, codes[rows.size :])
        ends = np.cumsum(np.bincount(rows, minlength=lengths.size))
        low = before = 0
        while low < lengths.size:
            high = min(low + BLOCK_LISTS, max(low + 1, int(np.searchsorted(ends, before + BLOCK_HITS, side="right"))))
            yield first + low, ListFacts(plan, levels, lengths[low:high], seen.of_rows(low, high), never_shown.of_rows(low, high))
            low, before = high, int(ends[high - 1])


def _of_rows(rows: Ints, grades: AnyArray, low: int, high: int) -> UnseenGrades:
    """The items of lists low..high - 1, renumbered from 0."""
    first, last = np.searchsorted(rows, (low, high))
    return rows[first:last] - low, grades[first:last]
