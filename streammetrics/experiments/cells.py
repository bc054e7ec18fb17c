"""The cells of two arms: lists of the same hours, of users who came at the same time. Rows of hours in, arrays out. Pure.

A cell has at least `CELL_LISTS` lists of both arms together, if there are that many: the hours of one entry are joined from the first on,
and the last cell counts as it is. Users keep their arm, so the share of an arm among the users of one entry is the same in all hours. Two
entries may have any shares, so entries are not joined. There is one exception: an entry with fewer lists is counted with the block of 8
hours, and such a block with its day. The rule knows neither arms nor values, so it cannot favour one.

In a cell the arms are exchangeable. With lists D and values Y of the treatment t and the control c, and

    w = D_t D_c / (D_t + D_c)

the sum of w (Y_t / D_t - Y_c / D_c) has the mean 0 without an effect, whatever the share was in each cell (Mantel, Haenszel 1959,
"Statistical aspects of the analysis of data from retrospective studies of disease"). A cell with one arm only has w = 0: its lists are left
out. A list of the treatment has the part a = D_c / (D_t + D_c) in the result, and one of the control D_t / (D_t + D_c).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.experiments.hours import Entry, EntrySums, Hours

CELL_LISTS: Final = 40
"""Lists of both arms in a cell, or users for a share of users. A cell of n lists is left out, or loses its information, with 1/n of it."""
_Floats: TypeAlias = npt.NDArray[np.float64]


class HourSpan(NamedTuple):
    """Hours since the epoch, from the first on and before the end."""

    first: int
    end: int


class Parts(NamedTuple):
    """The part of each piece in the result, and the weight of all cells.

    weight: the sum of w. treatment, control: a, by piece; 0 in a cell with one arm only.
    """

    weight: float
    treatment: _Floats
    control: _Floats


class PairCells:
    """The cells of two arms. A piece is the lists of one entry in one cell; or the users of one entry, for shares of users.

    cells: the number of each piece's cell. entries: those of the pieces. treatment, control: sums, shape (pieces, columns). The first
    column counts lists (or users).
    """

    def __init__(
        self, cells: Sequence[int], entries: Sequence[Entry], treatment: Sequence[Sequence[int]], control: Sequence[Sequence[int]]
    ) -> None:
        self.entries = entries
        self._cells = np.array(cells, dtype=np.int64)
        self._treatment, self._control = (np.array([*sums], dtype=np.float64) for sums in (treatment, control))
        self._parts: dict[int, Parts] = {}

    def parts(self, bottom: int) -> Parts:
        """Return the parts of the pieces. bottom: the column that a measure is divided by."""
        parts = self._parts.get(bottom)
        if parts is None:
            ones, others = (
                self._by_cell(sums[:, bottom]) if len(self.entries) else np.zeros(0) for sums in (self._treatment, self._control)
            )
            both = ones + others
            there = (ones > 0) & (others > 0)
            below = np.where(there, both, 1.0)
            weight = float(np.where(there, ones * others / below, 0.0).sum())
            parts = Parts(
                weight,
                np.where(there, others / below, 0.0)[self._cells],
                np.where(there, ones / below, 0.0)[self._cells],
            )
            self._parts[bottom] = parts
        return parts

    def sums(self, column: int) -> tuple[_Floats, _Floats]:
        """Return a column of the treatment's pieces and of the control's."""
        return self._treatment[:, column], self._control[:, column]

    def totals(self, top: int, bottom: int) -> tuple[float, float]:
        """Return the sums of a column over all lists of the treatment and of the control, each list with its part.

        Divided by the weight, these are the means.
        """
        parts, (ones, others) = self.parts(bottom), self.sums(top)
        return float(parts.treatment @ ones), float(parts.control @ others)

    def _by_cell(self, values: _Floats) -> _Floats:
        return np.bincount(self._cells, weights=values).astype(np.float64)


class _Row(NamedTuple):
    """Sums of both arms, of one entry: `sequence` are the rows that may be joined, and `step` those that are not parted."""

    sequence: Hashable
    step: int
    entry: Entry
    treatment: Sequence[int]
    control: Sequence[int]


def list_cells(
    hours: Hours,
    treatment: str,
    control: str,
    *,
    by_entry: bool = True,
    left_out: Collection[HourSpan] = (),
    since: int | None = None,
) -> PairCells:
    """Return the cells of two arms.

    by_entry: whether users of different entries are apart; otherwise a cell has all lists of its hours. left_out: hours whose lists do not
    count. since: the first hour that counts.

    >>> hours = Hours()
    >>> hours.row(7).add_totals("new", Entry(1, 7), [10, 4])
    >>> hours.row(7).add_totals("old", Entry(1, 7), [190, 95])
    >>> cells = list_cells(hours, "new", "old")
    >>> cells.parts(0).weight, cells.totals(1, 0)
    (9.5, (3.8, 4.75))
    """
    rows = list(_list_rows(hours, treatment, control, left_out, since))
    if not by_entry:
        return _joined(row._replace(sequence=0) for row in rows)
    joined = _thin_entries(rows)
    return _joined(row._replace(sequence=(entry := joined.get(row.entry, row.entry)), entry=entry) for row in rows)


def user_cells(users: EntrySums, treatment: str, control: str) -> PairCells:
    """Return the cells of users: those who came in one hour, or in several that are joined."""
    entries = sorted(
        {entry for name, entry in users.sums if name in (treatment, control)}, key=lambda entry: (entry.first_hour, entry.hours)
    )
    width = max(map(len, users.sums.values()), default=1)
    none = [0] * width
    return _joined(
        _Row(0, step, entry, users.sums.get((treatment, entry), none), users.sums.get((control, entry), none))
        for step, entry in enumerate(entries)
    )


def _list_rows(hours: Hours, treatment: str, control: str, left_out: Collection[HourSpan], since: int | None) -> Iterable[_Row]:
    for block in sorted(hours.rows):
        first = block * hours.length
        if (since is not None and first < since) or any(span.first <= first < span.end for span in left_out):
            continue
        totals = hours.rows[block].totals
        for entry in sorted({entry for name, entry in totals if name in (treatment, control)}):
            one, other = totals.get((treatment, entry)), totals.get((control, entry))
            none = [0] * len(one or other or ())
            yield _Row(entry, block, entry, one or none, other or none)


def _thin_entries(rows: Iterable[_Row]) -> Mapping[Entry, Entry]:
    """Return the entries that have too few lists alone, and those that they are counted with."""
    rows = list(rows)
    found: dict[Entry, Entry] = {}
    for hours, longer in ((1, 8), (8, 24)):
        lists: dict[Entry, int] = {}
        for row in rows:
            entry = found.get(row.entry, row.entry)
            if entry.hours == hours:
                lists[entry] = lists.get(entry, 0) + row.treatment[0] + row.control[0]
        thin = {entry: entry.in_blocks(longer) for entry, count in lists.items() if count < CELL_LISTS}
        found = {entry: thin.get(block, block) for entry, block in found.items()} | thin
    return found


def _joined(rows: Iterable[_Row]) -> PairCells:
    """Return the cells of rows in order."""
    open_cells: dict[Hashable, tuple[int, int, int]] = {}
    """By sequence: the number of the cell, its lists, and its last step."""
    cells, entries, ones, others, count = list[int](), list[Entry](), list[Sequence[int]](), list[Sequence[int]](), 0
    for row in rows:
        cell, lists, step = open_cells.get(row.sequence, (-1, 0, -1))
        if cell < 0 or (lists >= CELL_LISTS and step != row.step):
            cell, lists, count = count, 0, count + 1
        open_cells[row.sequence] = cell, lists + row.treatment[0] + row.control[0], row.step
        cells.append(cell)
        entries.append(row.entry)
        ones.append(row.treatment)
        others.append(row.control)
    return PairCells(cells, entries, ones, others)
