"""The cells of two arms: lists of the same hours, of users who came at the same time. Rows of hours in, arrays out. Pure.

A cell has at least `CELL_LISTS` lists of both arms together, if there are that many. The hours of one entry are joined from the first on,
and the last cell counts as it is: users keep their arm, so the share of an arm among the users of one entry is the same in all hours. Two
entries may have any shares, so they are joined only where traffic is thin: those of one length and day, one after the other, until they
have so many lists. The rules know neither arms nor values, so they cannot favour one.

In a cell the arms are exchangeable. With lists D and values Y of the treatment t and the control c, and

    w = D_t D_c / (D_t + D_c)

the sum of w (Y_t / D_t - Y_c / D_c) has the mean 0 without an effect, whatever the share was in each cell (Mantel, Haenszel 1959,
"Statistical aspects of the analysis of data from retrospective studies of disease"). A cell with one arm only has w = 0: its lists are left
out. A list of the treatment has the part a = D_c / (D_t + D_c) in the result, and one of the control D_t / (D_t + D_c).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.experiments.hours import Entry, EntrySums, HourRow, Hours

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

    cells: the number of each piece's cell. entries: the different ones; numbers: which one each piece has. sums: of the treatment and the
    control, shape (pieces, 2, columns). The first column counts lists (or users). hours: the first hour of each piece. sequences: that of
    each entry; pieces of one sequence may be joined.
    """

    def __init__(
        self,
        cells: Sequence[int],
        entries: Sequence[Entry],
        numbers: Sequence[int],
        sums: _Floats,
        hours: Sequence[int],
        sequences: Sequence[int],
    ) -> None:
        self.entries, self._sequences = entries, np.array(sequences, dtype=np.int64)
        self.numbers, self.hours, self._cells = (np.array(places, dtype=np.int64) for places in (numbers, hours, cells))
        self._sums, self._treatment, self._control = sums, sums[:, 0], sums[:, 1]
        self._parts: dict[int, Parts] = {}

    def ending_with(self, blocks: npt.NDArray[np.int64]) -> PairCells:
        """Return the same pieces in cells that end with the block of the pieces."""
        _, sequences = np.unique(blocks * len(self.entries) + self._sequences[self.numbers], return_inverse=True)
        hours, lists = self.hours.tolist(), self._sums[:, :, 0].sum(axis=1).tolist()
        cells = _cells_of(sequences.tolist(), hours, lists)
        return PairCells(cells, self.entries, self.numbers.tolist(), self._sums, hours, self._sequences.tolist())

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


def list_cells(
    hours: Hours,
    treatment: str,
    control: str,
    *,
    by_entry: bool = True,
    left_out: Collection[HourSpan] = (),
    since: int | None = None,
    until: int | None = None,
) -> PairCells:
    """Return the cells of two arms.

    by_entry: whether users of different entries are apart; otherwise a cell has all lists of its hours, or of a stratum in them.
    left_out: hours whose lists do not count. since: the first hour that counts. until: the end of the hours that count.

    >>> hours = Hours()
    >>> hours.row(7).add_totals("new", Entry(1, 7), [10, 4])
    >>> hours.row(7).add_totals("old", Entry(1, 7), [190, 95])
    >>> cells = list_cells(hours, "new", "old")
    >>> cells.parts(0).weight, cells.totals(1, 0)
    (9.5, (3.8, 4.75))
    """
    arms, entries, firsts, arrays = (treatment, control), list[Entry](), list[int](), list[_Floats]()
    for block in sorted(hours.rows):
        first = block * hours.length
        if (since is not None and first < since) or (until is not None and first >= until) or any(a <= first < b for a, b in left_out):
            continue
        of_row, sums = _sums_of(hours.rows[block], arms)
        entries += of_row
        firsts += [first] * len(of_row)
        arrays.append(sums)
    together = np.concatenate([sums for sums in arrays if len(sums)] or [np.zeros((0, 2, 1))])
    return _joined(entries, firsts, together, by_entry=by_entry)


def user_cells(users: EntrySums, treatment: str, control: str) -> PairCells:
    """Return the cells of users: those who came in one hour, or in several that are joined."""
    arms = treatment, control
    entries = sorted({entry for name, entry in users.sums if name in arms}, key=lambda entry: (entry.first_hour, entry.hours))
    none = [0] * max(map(len, users.sums.values()), default=1)
    sums = np.array([[users.sums.get((arm, entry), none) for arm in arms] for entry in entries], dtype=np.float64)
    return _joined(entries, range(len(entries)), sums.reshape(len(entries), 2, len(none)), by_entry=False)


def _sums_of(row: HourRow, arms: tuple[str, str]) -> tuple[Sequence[Entry], _Floats]:
    """Return the entries of two arms in a row, and their sums, shape (entries, 2, columns)."""
    arrays: tuple[Sequence[Entry], _Floats] | None = row.computed.get(arms)
    if arrays is None:
        entries = sorted({entry for name, entry in row.totals if name in arms})
        none = [0] * max((len(totals) for (name, _), totals in row.totals.items() if name in arms), default=1)
        sums = np.array([[row.totals.get((arm, entry), none) for arm in arms] for entry in entries], dtype=np.float64)
        arrays = row.computed[arms] = entries, sums.reshape(len(entries), 2, len(none))
    return arrays


def _joined(entries: Iterable[Entry], hours: Sequence[int], sums: _Floats, by_entry: bool) -> PairCells:
    """Return the cells of pieces in order. Those of one first hour are not parted. by_entry: whether entries are in different cells;
    different strata always are.
    """
    numbers: dict[Entry, int] = {}
    of_pieces = [numbers.setdefault(entry, len(numbers)) for entry in entries]
    lists = sums[:, :, 0].sum(axis=1)
    if by_entry:
        of_entries = np.bincount(of_pieces, weights=lists, minlength=len(numbers)).tolist() if of_pieces else []
        joined = _joined_entries(dict(zip(numbers, of_entries, strict=True)))
        groups: dict[Entry, int] = {}
        renumbered = [groups.setdefault(joined[entry], len(groups)) for entry in numbers]
        numbers, of_pieces = groups, [renumbered[number] for number in of_pieces]
    strata: dict[str, int] = {}
    sequences = [*range(len(numbers))] if by_entry else [strata.setdefault(entry.stratum, len(strata)) for entry in numbers]
    cells = _cells_of([sequences[number] for number in of_pieces], hours, lists.tolist())
    return PairCells(cells, [*numbers], of_pieces, sums, hours, sequences)


def _joined_entries(lists: Mapping[Entry, float]) -> dict[Entry, Entry]:
    """Return for each entry the first one of those that it is joined with.

    >>> _joined_entries({Entry(1, 5): 30, Entry(1, 6): 10, Entry(1, 7): 90, Entry(1, 24): 5, Entry(24, 0): 9})[Entry(1, 6)]
    Entry(hours=1, block=5, stratum='')
    """
    first_of: dict[Entry, Entry] = {}
    first, held = None, 0.0
    for entry in sorted(lists):
        if first is None or held >= CELL_LISTS or entry.hours != first.hours or entry.in_blocks(24) != first.in_blocks(24):
            first, held = entry, 0.0
        first_of[entry], held = first, held + lists[entry]
    return first_of


def _cells_of(sequences: Sequence[int], steps: Iterable[int], lists: Sequence[float]) -> list[int]:
    """Return the number of each piece's cell: those of a sequence are joined until there are enough lists."""
    numbers, count, size = list[int](), 0, max(sequences, default=-1) + 1
    cells, steps_of, held_of = [-1] * size, [-1] * size, [0.0] * size
    for sequence, step, more in zip(sequences, steps, lists, strict=True):
        cell, held = cells[sequence], held_of[sequence]
        if cell < 0 or (held >= CELL_LISTS and step != steps_of[sequence]):
            cell, held, count = count, 0.0, count + 1
            cells[sequence] = cell
        steps_of[sequence], held_of[sequence] = step, held + more
        numbers.append(cell)
    return numbers
