"""The bit kernel: facts about lists from bit masks. Sums over ranks are looked up ten positions at a time.

The ideal DCG comes from counts of grades, without sorting. All numbers are integers below 2**53, so doubles hold them exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streammetrics.metrics.arrays import Floats, Ints, Numbers
from streammetrics.metrics.kernels.bit_tables import NO_RANK, BitTables, Piece, PositionKey
from streammetrics.metrics.kernels.packed import LOW, WORD, Words
from streammetrics.metrics.plan import ScoringPlan
from streammetrics.metrics.spec import Gain
from streammetrics.metrics.units import AP_ONE, GRADE_ONE

_FEW: Final = 255
"""The largest count that fits a byte."""


@dataclass(frozen=True)
class BitBlock:
    """The facts about some lists, computed from bit planes: implements `formulas.ListFacts`.

    planes: shape (planes, words, lists). unseen: the number of unseen items per grade from 0, shape (levels, lists), or None.
    """

    plan: ScoringPlan
    tables: BitTables
    lengths: Ints
    planes: Words
    unseen: Ints | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_masks", {})
        object.__setattr__(self, "_counts", {})
        object.__setattr__(self, "_indices", {})

    _masks: Any = None
    _counts: Any = None
    _indices: Any = None

    def mask(self, key: PositionKey, word: int) -> Words:
        """The mask of positions in a word that match the key."""
        known = self._masks.get((key, word))
        if known is None:
            known = self._masks[key, word] = self._make_mask(key, word)
        return known  # type: ignore[no-any-return]

    def _make_mask(self, key: PositionKey, word: int) -> Words:
        planes = self.planes[:, word]
        if key.digits:
            chosen = [planes[plane] for plane in range(len(planes)) if key.digits >> plane & 1]
            return np.asarray(chosen[0] if len(chosen) == 1 else np.bitwise_and.reduce(chosen))
        return _at_least(planes, key.level)

    def count(self, key: PositionKey, first: int | None = None) -> Numbers:
        """The number of positions that match the key, among the first ones or (None) all; uint8 if that suffices."""
        known = self._counts.get((key, first))
        if known is None:
            known = self._counts[key, first] = self._make_count(key, first)
        return known  # type: ignore[no-any-return]

    def _make_count(self, key: PositionKey, first: int | None) -> Numbers:
        total: Numbers | None = None
        for word in range(self.planes.shape[1]):
            mask = self.mask(key, word)
            if first is not None and first < WORD * (word + 1):
                mask = mask & LOW[max(first - WORD * word, 0)]
            ones = np.bitwise_count(mask)
            total = ones if total is None else np.add(total, ones, dtype=np.uint8 if WORD * (word + 1) <= _FEW else np.int64)
            if first is not None and first <= WORD * (word + 1):
                break
        assert total is not None
        return total

    def _index(self, key: PositionKey, piece: Piece) -> npt.NDArray[np.intp]:
        """The bits of a mask within a piece, as a table index."""
        known = self._indices.get((key, piece))
        if known is None:
            bits = self.mask(key, piece.word)
            if piece.start:
                bits = bits >> np.uint64(piece.start)
            known = self._indices[key, piece] = (bits & LOW[piece.width]).view(np.intp)
        return known  # type: ignore[no-any-return]

    def _summed(self, terms: Sequence[tuple[PositionKey, str, float]]) -> Floats:
        """The sum of weights x factors over the positions of masks, at each cut-off: shape (cutoffs, lists)."""
        out = np.empty((len(self.plan.cutoffs), self.lengths.size))
        rows = list(out)
        total: Floats | None = None
        for piece in self.tables.pieces:
            if piece.word < self.planes.shape[1]:
                for key, weights, factor in terms:
                    part = self.tables.earned(piece, weights, factor).take(self._index(key, piece))
                    total = part if total is None else np.add(total, part, out=rows[piece.toward])
            for at in piece.cutoffs:
                if total is not rows[at]:  # otherwise it was summed in place
                    rows[at][:] = 0 if total is None else total
        return out

    @cached_property
    def graded(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self._at_least_count(1) > 0)

    def _at_least_count(self, level: int) -> Numbers:
        """The number of items, shown or unseen, with at least this grade."""
        shown = self.count(PositionKey(level=level))
        return shown if self.unseen is None else shown + self.unseen[level:].sum(axis=0)

    @cached_property
    def relevant(self) -> Numbers:
        level = self.tables.relevant_level
        return self._at_least_count(level) if level else np.zeros(self.lengths.size, dtype=np.uint8)

    @cached_property
    def hits(self) -> Numbers:
        counts = [self._hits_among(k) for k in self.plan.cutoffs]
        return np.stack(counts)

    def _hits_among(self, first: int) -> Numbers:
        level = self.tables.relevant_level
        return self.count(PositionKey(level=level), min(first, WORD * self.planes.shape[1])) if level else self.relevant

    @cached_property
    def hits_at_relevant(self) -> Numbers:
        level = self.tables.relevant_level
        if not level:
            return self.relevant
        total = np.zeros(self.lengths.size, dtype=np.int64)
        for word in range(self.planes.shape[1]):
            reach = (self.relevant.astype(np.int64) - WORD * word).clip(0, WORD)
            total += np.bitwise_count(self.mask(PositionKey(level=level), word) & LOW.take(reach))
        return total

    @cached_property
    def first_rank(self) -> Numbers:
        level = self.tables.relevant_level
        first: Numbers | None = None
        for piece in self.tables.pieces:
            if level and piece.word < self.planes.shape[1]:
                rank = self.tables.first_ranks(piece).take(self._index(PositionKey(level=level), piece))
                first = rank if first is None else np.minimum(first, rank)
        if first is None:
            return np.zeros(self.lengths.size, dtype=np.uint8)
        return np.asarray(first * (first != np.uint8(NO_RANK)))

    def sums_by_first_rank(self, name: str) -> list[int]:
        patterns, table = self._first_patterns, self.tables.by_first_pattern(name)
        return [int(total) for total in table[:, : patterns.size] @ patterns]

    @cached_property
    def _first_patterns(self) -> Ints:
        """The number of lists per pattern of relevant positions if there is one piece, otherwise per first rank."""
        piece = self.tables.only_piece
        return np.bincount(self._index(PositionKey(level=self.tables.relevant_level), piece) if piece else self.first_rank)

    @cached_property
    def precision_sums(self) -> Numbers:
        out = np.zeros((len(self.plan.cutoffs), self.lengths.size))
        level = self.tables.relevant_level
        total: Floats | None = None
        for piece in self.tables.pieces:
            if level and piece.word < self.planes.shape[1]:
                index = self._index(PositionKey(level=level), piece)
                if piece.rank:
                    index = index + (self._hits_among(piece.rank).astype(np.intp) << piece.width)
                part = self.tables.precisions(piece).take(index)
                total = part if total is None else np.add(total, part, out=total)
            for at in piece.cutoffs:
                out[at] = 0 if total is None else total
        return out

    @cached_property
    def gain_sums(self) -> Numbers:
        out = np.zeros((len(self.plan.cutoffs), self.lengths.size))
        for at, k in enumerate(self.plan.cutoffs):
            for key, factor in self.tables.terms[self.plan.spec.gain]:
                out[at] += self.count(key, min(k, WORD * self.planes.shape[1])) * (factor * GRADE_ONE)
        return out

    @cached_property
    def weighted(self) -> dict[Gain, Numbers]:
        terms = self.tables.terms
        return {gain: self._summed([(key, "discount", factor) for key, factor in terms[gain]]) for gain in self.plan.weighted_gains}

    @cached_property
    def persistence_sums(self) -> Numbers:
        level = self.tables.relevant_level
        return self._summed([(PositionKey(level=level), "persistence", 1.0)] if level else [])

    @cached_property
    def satisfaction_sums(self) -> Numbers:
        out = np.zeros((len(self.plan.cutoffs), self.lengths.size))
        total, going_on = np.zeros(self.lengths.size), np.ones(self.lengths.size)
        chances = self.tables.satisfactions
        for piece in self.tables.pieces:
            for step in range(piece.width if piece.word < self.planes.shape[1] else 0):
                codes = self._codes_at(piece.word, piece.start + step)
                chance = chances.take(codes)
                total += np.rint(going_on * chance / (piece.rank + step + 1) * AP_ONE)
                going_on *= 1 - chance
            for at in piece.cutoffs:
                out[at] = total
        return out

    def _codes_at(self, word: int, bit: int) -> npt.NDArray[np.intp]:
        digits = [((plane[word] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(at) for at, plane in enumerate(self.planes)]
        codes: Ints = np.bitwise_or.reduce(digits).view(np.intp)
        return codes

    @cached_property
    def ideal(self) -> dict[Gain, Numbers]:
        return {gain: self._ideal(gain) for gain in self.plan.ideal_gains}

    def _ideal(self, gain: Gain) -> Numbers:
        cutoffs, tables = self.plan.cutoffs, self.tables
        match self.plan.spec.ideal:
            case "full":
                return np.repeat(tables.best(gain, (1,))[np.minimum(cutoffs, self.plan.depth)][:, None], self.lengths.size, axis=1)
            case _ if not tables.steps[gain]:  # all gains are 0
                return np.zeros((len(cutoffs), self.lengths.size))
            case "first_k":
                width = WORD * self.planes.shape[1]
                counts = [[self.count(PositionKey(level=level), min(k, width)) for level in tables.steps[gain]] for k in cutoffs]
                return np.stack([tables.ideal(gain, at, counted) for at, counted in enumerate(counts)])
            case "shown":
                return tables.ideals(gain, [self.count(PositionKey(level=level)) for level in tables.steps[gain]])
        return tables.ideals(gain, [self._at_least_count(level) for level in tables.steps[gain]])


def _at_least(planes: Words, level: int) -> Words:
    """The mask of positions with a grade of at least `level`. planes: binary digits, lowest first."""
    top: Words = planes[-1]
    half = 1 << (len(planes) - 1)
    if level == half:
        return top
    return top & _at_least(planes[:-1], level - half) if level > half else top | _at_least(planes[:-1], level)
