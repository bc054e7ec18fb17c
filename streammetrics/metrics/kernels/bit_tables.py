"""What a few neighbouring positions earn, by their bits: the tables of the path over bits. They come from the plan's own tables."""

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
"""No deeper rank is looked up here: the tables of precisions grow with the square of the depth."""

PIECE_BITS: Final = 10
"""Positions that are looked up at once: a table of 2**10 doubles stays in the fastest cache."""

JOINT_MAX: Final = 1 << 14
"""Ideals are looked up by all counts at once as long as such a table has no more entries."""

NO_RANK: Final = 255
"""Stands for no rank in tables of bytes: beyond DEPTH_MAX."""

EXACT_MAX: Final = 1 << 53


class PositionKey(NamedTuple):
    """Which positions: those with a grade of at least `level`, or (digits != 0) those whose grade has all of these binary digits."""

    level: int = 0
    digits: int = 0


class Piece(NamedTuple):
    """`width` positions from bit `start` of a word; the first has `rank` others before it.

    Cut-offs are named by their index: `toward` is the least that has these positions, and `cutoffs` end with them.
    """

    word: int
    start: int
    width: int
    rank: int
    toward: int
    cutoffs: tuple[int, ...]


class BitTables:
    """The tables for grades of so many binary digits and lists of which no more than `depth` positions can earn."""

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
        """Whether no sum over a list of so many graded items leaves the whole numbers that a double holds."""
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
        """The whole gain of each level."""
        return {gain: [unit >> GRADE_BITS for unit in units] for gain, units in self._units.items()}

    @cached_property
    def steps(self) -> dict[Gain, list[int]]:
        """The levels that earn more than the one below."""
        return {gain: [level for level in range(1, self.levels) if gains[level] > gains[level - 1]] for gain, gains in self.gains.items()}

    @cached_property
    def terms(self) -> dict[Gain, list[tuple[PositionKey, float]]]:
        """Gains as a sum over masks: by levels (each adds what it earns more) or by digits (as inclusion and exclusion), the fewer."""
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
        """All digits, or the highest alone, say the same as a level: one mask serves both."""
        same = digits in (self.levels - 1, self.levels >> 1)
        return PositionKey(level=digits) if same else PositionKey(digits=digits)

    @cached_property
    def pieces(self) -> list[Piece]:
        """The positions that can earn, cut at every cut-off, at every word and where tables would grow too large."""
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

    def earned(self, piece: Piece, law: str, factor: float) -> Floats:
        """What positions earn under the discount or the persistence, times a factor, by their bits."""
        key = piece, law, factor
        if key not in self._earned:
            weights = (self.plan.discounts if law == "discount" else self.plan.persistences)[piece.rank : piece.rank + piece.width]
            self._earned[key] = _subset_sums(weights.astype(np.float64) * factor)
        return self._earned[key]

    def first_ranks(self, piece: Piece) -> Numbers:
        """The rank of the first position that is set, NO_RANK for none, by their bits."""
        if piece not in self._first:
            table = np.full(1 << piece.width, NO_RANK, dtype=np.uint8)
            for step in reversed(range(piece.width)):
                table[_has_bit(piece.width, step)] = piece.rank + step + 1
            self._first[piece] = table
        return self._first[piece]

    @cached_property
    def only_piece(self) -> Piece | None:
        """The piece that has the first relevant item of every list, if there is just one and something can be relevant."""
        return self.pieces[0] if self.relevant_level and len(self.pieces) == 1 else None

    def by_first_pattern(self, name: str) -> Ints:
        """What mrr and hit_rate give, by the bits of the only piece or, if there are more, by the first rank: see `ScoringPlan.by_first_rank`."""
        if name not in self._by_first:
            table = self.plan.by_first_rank[name]
            self._by_first[name] = table.take(self.first_ranks(self.only_piece) % NO_RANK, axis=1) if self.only_piece else table
        return self._by_first[name]

    def precisions(self, piece: Piece) -> Floats:
        """The sum of the precisions at the positions set, by the hits before them (higher digits) and by their bits."""
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
        """What 0..depth items of a level earn at best beyond the level below; the key is (level,) or (factor,) for `full`."""
        if (gain, key) not in self._best:
            level = key[0]
            factor = 1 if self.plan.spec.ideal == "full" else self.gains[gain][level] - self.gains[gain][level - 1]
            self._best[gain, key] = self.plan.best.astype(np.float64) * factor
        return self._best[gain, key]

    def ideal(self, gain: Gain, cutoff: int, counts: Sequence[Numbers]) -> Floats:
        """The best DCG at a cut-off of lists with so many items of at least each step's level."""
        depth = min(self.plan.cutoffs[cutoff], self.plan.depth)
        total = np.zeros(counts[0].size)
        for level, count in zip(self.steps[gain], counts, strict=True):
            total += self.best(gain, (level,)).take(_capped(count, depth))
        return total

    def ideals(self, gain: Gain, counts: Sequence[Numbers]) -> Floats:
        """The same at every cut-off, by all counts at once where that takes a small table: shape (cutoffs, lists)."""
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
    """As many entries as there are levels; those that no grade can have repeat the last."""
    return [*known, *[known[-1]] * (size - len(known))][:size]


def _capped(counts: Numbers, top: int) -> Numbers:
    """Counts up to `top`; bytes stay bytes. numpy compares two arrays many at a time, an array and one number singly."""
    return counts if counts.dtype == np.uint8 and top >= NO_RANK else np.minimum(counts, np.full_like(counts, top))


def _has_bit(width: int, step: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return (np.arange(1 << width) >> step & 1).astype(np.bool_)


def _subset_sums(weights: Floats) -> Floats:
    """The sum of the weights of the bits set, for every pattern of bits; whole numbers, so the order of adding does not matter."""
    sums = np.zeros(1)
    for weight in weights:
        sums = np.concatenate([sums, sums + weight])
    return sums
