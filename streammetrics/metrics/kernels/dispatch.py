"""Chooses the kernel: `bits` for short lists of small whole grades, `sparse` for everything else. Results are the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from streammetrics.metrics import checks
from streammetrics.metrics.arrays import AnyArray, Ints
from streammetrics.metrics.kernels.bit_tables import DEPTH_MAX, BitTables
from streammetrics.metrics.kernels.bits import BitBlock
from streammetrics.metrics.kernels.formulas import ListFacts
from streammetrics.metrics.kernels.grade_codes import SMALL_GRADE_MAX, level_codes, small_levels
from streammetrics.metrics.kernels.packed import (
    CHUNK_LISTS,
    CHUNK_WORDS,
    PACKED_GRADE_MAX,
    WORD,
    WORDS_MAX,
    PackedLists,
    Words,
    cells_of,
    chunks,
    codes_of,
    planes_of_padded,
    planes_of_ragged,
    words_for,
)
from streammetrics.metrics.kernels.sparse import Hits, blocks
from streammetrics.metrics.plan import ScoringPlan

KernelPart: TypeAlias = tuple[int, ListFacts]
"""Consecutive lists: the number of the first one, and the facts about them."""

UNSEEN_MAX: Final = 1 << 12
"""Lists with more unseen graded items than this use the sparse kernel."""


class Unseen(NamedTuple):
    """Graded items that were not shown, sorted by list. Grades are valid."""

    rows: Ints
    grades: AnyArray

    def of_rows(self, low: int, high: int) -> Unseen:
        """The items of lists low..high - 1, renumbered from 0."""
        if not self.rows.size:
            return self
        first, last = np.searchsorted(self.rows, (low, high))
        return Unseen(self.rows[first:last] - low, self.grades[first:last])


NOTHING_UNSEEN: Final = Unseen(np.zeros(0, dtype=np.int64), np.zeros(0))


class Kernels:
    """The kernels of a plan, with the tables that they reuse from call to call."""

    def __init__(self, plan: ScoringPlan) -> None:
        self.plan = plan
        self._small = small_levels(plan)
        self._tables: dict[tuple[int, int], BitTables] = {}

    def of_hits(self, lengths: Ints, rows: Ints, positions: Ints, grades: AnyArray, unseen: Unseen, first: int = 0) -> Iterator[KernelPart]:
        """Facts about lists given by their hits, in any order. `first` is the number of the first list, for messages."""
        plan = self.plan
        doubles = checks.check_grades(grades, rows, positions, plan, first)
        keys = rows * (plan.items_max + 1) + positions
        if not (keys[1:] > keys[:-1]).all():
            order = np.argsort(keys)
            keys, rows, positions, doubles = keys[order], rows[order], positions[order], doubles[order]
            checks.check_no_repeats(keys, rows, positions, first)
        hidden = unseen.grades.astype(np.float64, copy=False)
        levels, codes = level_codes(plan, self._small, np.concatenate([doubles, hidden]) if hidden.size else doubles)
        if unseen.rows.size:
            checks.check_graded(np.bincount(rows, minlength=lengths.size), unseen.rows, plan.items_max, first)
        shown = Hits(rows, positions, codes[: rows.size])
        low = 0
        for block in blocks(plan, levels, lengths, shown, Hits(unseen.rows, unseen.rows, codes[rows.size :])):
            yield first + low, block
            low += block.lengths.size

    def of_ragged(self, flat: AnyArray, ends: Ints, unseen: Unseen) -> Iterator[KernelPart]:
        """Facts about concatenated lists. `ends` are the offsets, shape (L + 1,)."""
        lengths = np.diff(ends)
        for low, high in chunks(ends):
            start, mine, own = int(ends[low]), lengths[low:high], unseen.of_rows(low, high)
            longest = int(mine.max())
            words = self._words(longest)
            cells = cells_of(flat, start, int(ends[high]), self._top) if words else None
            tables = self._tables_for(cells[1], longest, own) if cells else None
            if cells and tables:
                planes = planes_of_ragged(cells[0], ends[low:high] - start, mine, tables.planes, words)
                yield low, self._block(tables, mine, planes, own)
            else:
                yield from self._sparse_ragged(flat[start : int(ends[high])], ends[low : high + 1] - start, own, low)

    def _sparse_ragged(self, flat: AnyArray, ends: Ints, unseen: Unseen, first: int) -> Iterator[KernelPart]:
        hits = np.flatnonzero(flat)
        rows = np.searchsorted(ends, hits, side="right") - 1
        yield from self.of_hits(np.diff(ends), rows, hits - ends[rows], flat[hits], unseen, first)

    def of_padded(self, cells: AnyArray, lengths: Ints, unseen: Unseen) -> Iterator[KernelPart]:
        """Facts about the rows of a matrix. Cells beyond a length are never read."""
        for low in range(0, lengths.size, CHUNK_LISTS):
            some, mine, own = cells[low : low + CHUNK_LISTS], lengths[low : low + CHUNK_LISTS], unseen.of_rows(low, low + CHUNK_LISTS)
            longest = int(mine.max())
            words = self._words(longest)
            found = codes_of(some[:, : WORD * words], self._top) if words else None
            tables = self._tables_for(found[1], longest, own) if found else None
            if found and tables:
                yield low, self._block(tables, mine, planes_of_padded(found[0], mine, tables.planes, words), own)
            else:
                graded = (some != 0) & (np.arange(some.shape[1]) < mine[:, None])
                rows, positions = np.nonzero(graded)
                yield from self.of_hits(mine, rows, positions, some[rows, positions], own, low)

    def of_packed(self, lists: PackedLists, unseen: Unseen) -> Iterator[KernelPart]:
        """Facts about packed lists."""
        many = max(CHUNK_LISTS, CHUNK_WORDS // lists.planes.shape[1])
        for low in range(0, lists.lengths.size, many):
            chunk = slice(low, low + many)
            mine, planes, own = lists.lengths[chunk], lists.planes[:, :, chunk], unseen.of_rows(low, low + many)
            longest = int(mine.max())
            fits = self.plan.grade_max >= PACKED_GRADE_MAX and self._words(longest)
            tables = self._tables_for(PACKED_GRADE_MAX, longest, own) if fits else None
            if tables is None:
                yield from self.of_hits(mine, *_unpacked(planes), own, low)
            else:
                missing = np.zeros((tables.planes - planes.shape[0], *planes.shape[1:]), dtype=np.uint64)
                yield low, self._block(tables, mine, np.concatenate([planes, missing]) if len(missing) else planes, own)

    @property
    def _top(self) -> int:
        return min(SMALL_GRADE_MAX, int(self.plan.grade_max))

    def _words(self, longest: int) -> int:
        """How many words the longest list needs; 0 if these lists need the sparse kernel."""
        fits = longest <= WORD * WORDS_MAX and min(self.plan.depth, longest) <= DEPTH_MAX
        return words_for(longest) if fits else 0

    def _tables_for(self, top: int, longest: int, unseen: Unseen) -> BitTables | None:
        """The tables for grades 0..top, or None if doubles could not hold the sums exactly."""
        most = 0
        if unseen.rows.size:
            hidden = codes_of(unseen.grades, self._top)
            if hidden is None:
                return None
            top, most = max(top, hidden[1]), int(np.bincount(unseen.rows).max())
            if most + longest > min(UNSEEN_MAX, self.plan.items_max):
                return None
        planes = max(2, top.bit_length())
        depth = min(self.plan.depth, WORD if min(self.plan.depth, longest) <= WORD else DEPTH_MAX)
        tables = self._tables.get((planes, depth))
        if tables is None:
            tables = self._tables[planes, depth] = BitTables(self.plan, self._small, planes, depth)
        return tables if tables.exact(longest + most) else None

    def _block(self, tables: BitTables, lengths: Ints, planes: Words, unseen: Unseen) -> BitBlock:
        if not unseen.rows.size:
            return BitBlock(self.plan, tables, lengths, planes, None)
        cells = unseen.grades.astype(np.int64) * lengths.size + unseen.rows
        counts = np.bincount(cells, minlength=tables.levels * lengths.size).reshape(tables.levels, lengths.size)
        return BitBlock(self.plan, tables, lengths, planes, counts)


def _unpacked(planes: Words) -> tuple[Ints, Ints, Ints]:
    """Rows, positions and grades of packed lists, sorted by list, then position."""
    shifts = np.arange(WORD, dtype=np.uint64)
    low, high = (((plane.T[:, :, None] >> shifts) & np.uint64(1)).reshape(plane.shape[1], -1) for plane in planes)
    grades = (low | (high << np.uint64(1))).astype(np.int64)
    rows, positions = np.nonzero(grades)
    return rows, positions, grades[rows, positions]
