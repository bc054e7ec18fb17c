"""Lookup tables of the bit kernel: what a few neighbouring positions earn, indexed by their bits. Built from the plan's tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from streammetrics.metrics.arrays import Floats, Ints, Numbers
from streammetrics.metrics.kernels.grade_codes import Levels
from streammetrics.metrics.kernels.packed import WORD
from streammetrics.metrics.plan import ScoringPlan
from streammetrics.metrics.spec import Gain
from streammetrics.metrics.units import AP_ONE, GRADE_BITS

DEPTH_MAX: Final = 2 * WORD
"""Maximum rank of these tables, because tables of precisions grow with the square of the depth."""

PIECE_BITS: Final = 10
"""Positions per lookup. A table of 2**10 doubles fits the L1 cache."""

JOINT_MAX: Final = 1 << 14
"""Maximum entries of the joint table of ideals, indexed by all counts at once."""

NO_RANK: Final = 255
"""Means "no rank" in tables of bytes; larger than DEPTH_MAX."""

EXACT_MAX: Final = 1 << 53
"""Doubles hold all integers up to this one."""


class PositionKey(NamedTuple):
    """Selects positions: grade >= `level`, or (digits != 0) a grade that has all these binary digits."""

    level: int = 0
    digits: int = 0


class Piece(NamedTuple):
    """`width` positions from bit `start` of a word; the first is at rank `rank` (from 0).

    toward: the index of the lowest cut-off that includes these positions. cutoffs: the indices of cut-offs that end here.
    """

    word: int
    start: int
    width: int
    rank: int
    toward: int
    cutoffs: tuple[int, ...]


class BitTables:
    """The tables for grades of `planes` binary digits and the first `depth` positions."""

    def __init__(self, plan: ScoringPlan, levels: Levels, planes: int, depth: int) -> None:
        self.plan = plan
        self.depth = depth
        self.levels = 1 << planes
        self.planes = planes
        self._units = {gain: _filled(units.tolist(), self.levels) for gain, units in levels.gains.items()}
        relevant = levels.relevant.tolist()[: self.levels]
        self.relevant_level = relevant.index(1) if 1 in relevant else 0
        self.satisfactions = np.array(_filled(levels.satisfactions.tolist(), self.levels))
        self._earned: dict[tuple[Piece, str, float], Floats] = {}
        self._first: dict[Piece, Numbers] = {}
        self._by_first: dict[str, Ints] = {}
        self._precisions: dict[Piece, Floats] = {}
        self._best: dict[tuple[Gain, tuple[int, ...]], Floats] = {}
        self._joint: dict[Gain, Floats] = {}

    def exact(self, items: int) -> bool:
        """Whether doubles hold every sum over a list with this many graded items exactly."""
        most = max(int(self.plan.best[min(items, self.plan.depth)]), self.depth << GRADE_BITS)
        return self._whole_and_rising and self._factors_most * most < EXACT_MAX

    @cached_property
    def _whole_and_rising(self) -> bool:
        fractions = any(unit & ((1 << GRADE_BITS) - 1) for units in self._units.values() for unit in units)
        return not fractions and all(sorted(units) == units for units in self._units.values())

    @cached_property
    def _factors_most(self) -> float:
        return max(sum(abs(factor) for _, factor in terms) for terms in self.terms.values())

    @cached_property
    def gains(self) -> dict[Gain, list[int]]:
        """The gain of each level, as an integer."""
        return {gain: [unit >> GRADE_BITS for unit in units] for gain, units in self._units.items()}

    @cached_property
    def steps(self) -> dict[Gain, list[int]]:
        """The levels with a higher gain than the level below."""
        return {gain: [level for level in range(1, self.levels) if gains[level] > gains[level - 1]] for gain, gains in self.gains.items()}

    @cached_property
    def terms(self) -> dict[Gain, list[tuple[PositionKey, float]]]:
        """Gains as a weighted sum of masks: by levels (gain increments) or by digits (inclusion-exclusion), the shorter one."""
        return {gain: min(self._by_digits(gains), self._by_levels(gain, gains), key=len) for gain, gains in self.gains.items()}

    def _by_levels(self, gain: Gain, gains: Sequence[int]) -> list[tuple[PositionKey, float]]:
        return [(PositionKey(level=level), float(gains[level] - gains[level - 1])) for level in self.steps[gain]]

    def _by_digits(self, gains: Sequence[int]) -> list[tuple[PositionKey, float]]:
        factors = list(gains)
        for plane in range(self.planes):
            for digits in range(self.levels):
                if digits >> plane & 1:
                    factors[digits] -= factors[digits ^ 1 << plane]
        return [(self._key(digits), float(factor)) for digits, factor in enumerate(factors) if factor]

    def _key(self, digits: int) -> PositionKey:
        """Use a level key if it selects the same positions, so that masks are shared."""
        same = digits in (self.levels - 1, self.levels >> 1)
        return PositionKey(level=digits) if same else PositionKey(digits=digits)

    @cached_property
    def pieces(self) -> list[Piece]:
        """The first `depth` positions, cut at cut-offs, at words and at PIECE_BITS."""
        depths = [min(k, self.depth) for k in self.plan.cutoffs]
        made: list[Piece] = []
        rank = 0
        for border in sorted({*depths, *range(WORD, self.depth, WORD)}):
            while rank < border:
                width = min(PIECE_BITS, border - rank)
                ends = tuple(at for at, depth in enumerate(depths) if depth == rank + width)
                toward = next(at for at, depth in enumerate(depths) if depth >= rank + width)
                made.append(Piece(rank // WORD, rank % WORD, width, rank, toward, ends))
                rank += width
        return made

    def earned(self, piece: Piece, weighting: str, factor: float) -> Floats:
        """The sum of discounts (or persistences) times a factor over the positions set, indexed by bits."""
        key = piece, weighting, factor
        if key not in self._earned:
            weights = (self.plan.discounts if weighting == "discount" else self.plan.persistences)[piece.rank : piece.rank + piece.width]
            self._earned[key] = _subset_sums(weights.astype(np.float64) * factor)
        return self._earned[key]

    def first_ranks(self, piece: Piece) -> Numbers:
        """The rank of the first position set (NO_RANK for none), indexed by bits."""
        if piece not in self._first:
            table = np.full(1 << piece.width, NO_RANK, dtype=np.uint8)
            for step in reversed(range(piece.width)):
                table[_has_bit(piece.width, step)] = piece.rank + step + 1
            self._first[piece] = table
        return self._first[piece]

    @cached_property
    def only_piece(self) -> Piece | None:
        """The only piece, or None if there are several or no grade can be relevant."""
        return self.pieces[0] if self.relevant_level and len(self.pieces) == 1 else None

    def by_first_pattern(self, name: str) -> Ints:
        """The values of mrr and hit_rate, indexed by the bits of the only piece or else by the first rank."""
        if name not in self._by_first:
            table = self.plan.by_first_rank[name]
            self._by_first[name] = table.take(self.first_ranks(self.only_piece) % NO_RANK, axis=1) if self.only_piece else table
        return self._by_first[name]

    def precisions(self, piece: Piece) -> Floats:
        """The sum of the precisions at the positions set, indexed by the hits before them (high bits) and their bits."""
        if piece not in self._precisions:
            before = np.arange(piece.rank + 1)[:, None] + np.zeros(1 << piece.width, dtype=np.int64)
            total = np.zeros(before.shape)
            for step in range(piece.width):
                hit = _has_bit(piece.width, step)
                before[:, hit] += 1
                total[:, hit] += np.rint(before[:, hit] / (piece.rank + step + 1) * AP_ONE)
            self._precisions[piece] = total.ravel()
        return self._precisions[piece]

    def best(self, gain: Gain, key: tuple[int, ...]) -> Floats:
        """What 0..depth items of a level add to the ideal DCG beyond the level below; the key is (level,)."""
        if (gain, key) not in self._best:
            level = key[0]
            factor = 1 if self.plan.spec.ideal == "full" else self.gains[gain][level] - self.gains[gain][level - 1]
            self._best[gain, key] = self.plan.best.astype(np.float64) * factor
        return self._best[gain, key]

    def ideal(self, gain: Gain, cutoff: int, counts: Sequence[Numbers]) -> Floats:
        """The ideal DCG at a cut-off, from the number of items with at least each step's level."""
        depth = min(self.plan.cutoffs[cutoff], self.plan.depth)
        total = np.zeros(counts[0].size)
        for level, count in zip(self.steps[gain], counts, strict=True):
            total += self.best(gain, (level,)).take(_capped(count, depth))
        return total

    def ideals(self, gain: Gain, counts: Sequence[Numbers]) -> Floats:
        """The ideal DCG at every cut-off: shape (cutoffs, lists). Uses one joint table if it is small enough."""
        top = min(self.plan.cutoffs[-1], self.plan.depth)
        if (top + 1) ** len(counts) > JOINT_MAX:
            return self._ideal_each(gain, counts)
        joint = _capped(counts[0], top).astype(np.uint16)
        for count in counts[1:]:
            joint *= np.uint16(top + 1)
            joint += _capped(count, top).astype(np.uint16)
        return self._joint_table(gain, len(counts), top).take(joint, axis=1)

    def _joint_table(self, gain: Gain, count: int, top: int) -> Floats:
        if gain not in self._joint:
            counts = [grid.ravel() for grid in np.meshgrid(*[np.arange(top + 1)] * count, indexing="ij")]
            self._joint[gain] = self._ideal_each(gain, counts)
        return self._joint[gain]

    def _ideal_each(self, gain: Gain, counts: Sequence[Numbers]) -> Floats:
        return np.stack([self.ideal(gain, cutoff, counts) for cutoff in range(len(self.plan.cutoffs))])


def _filled(known: list[int] | list[float], size: int) -> list[int]:
    """One entry per level; levels that no grade has repeat the last entry."""
    return [*known, *[known[-1]] * (size - len(known))][:size]


def _capped(counts: Numbers, top: int) -> Numbers:
    """Counts limited to `top`, in the same dtype. Comparing with an array is faster in numpy than with a scalar."""
    return counts if counts.dtype == np.uint8 and top >= NO_RANK else np.minimum(counts, np.full_like(counts, top))


def _has_bit(width: int, step: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return (np.arange(1 << width) >> step & 1).astype(np.bool_)


def _subset_sums(weights: Floats) -> Floats:
    """The sum of the weights of the bits set, for every bit pattern. Integers, so the order of addition does not matter."""
    sums = np.zeros(1)
    for weight in weights:
        sums = np.concatenate([sums, sums + weight])
    return sums
