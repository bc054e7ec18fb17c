"""Facts about lists, computed from their graded items (hits). Takes any grades.

Hits are sorted by list, then position. Each fact is a cumulative sum over the hits, read at the ends of the lists, so one pass
serves all cut-offs. A cumulative sum may wrap around; differences are still right, because the sum of each list fits int64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.kernel.grade_levels import Levels
from streammetrics.metrics.plan import ScoringPlan
from streammetrics.metrics.spec import Gain
from streammetrics.metrics.units import AP_ONE, carry


class Hits(NamedTuple):
    """Graded items as parallel arrays, sorted by row, then position. `codes` index into Levels."""

    rows: Ints
    positions: Ints
    codes: Ints

    def of_rows(self, low: int, high: int) -> Hits:
        """The hits of rows low..high - 1, renumbered from 0."""
        if low == 0 and (self.rows.size == 0 or self.rows[-1] < high):
            return self
        first, last = np.searchsorted(self.rows, (low, high))
        return Hits(self.rows[first:last] - low, self.positions[first:last], self.codes[first:last])


@dataclass(frozen=True)
class ListFacts:
    """Facts about some lists: int64 with the shape (cutoffs, lists), unless a property says otherwise.

    lengths: items shown, shape (lists,). listed: graded items in the lists. unseen: graded items outside; their positions have no meaning.
    """

    plan: ScoringPlan
    levels: Levels
    lengths: Ints
    listed: Hits
    unseen: Hits

    @cached_property
    def counts(self) -> Ints:
        """The number of hits: shape (lists,)."""
        return np.bincount(self.listed.rows, minlength=self.lengths.size)

    @cached_property
    def ends(self) -> Ints:
        """The index after the last hit: shape (lists,)."""
        return np.cumsum(self.counts)

    @cached_property
    def starts(self) -> Ints:
        """The index of the first hit: shape (lists,)."""
        return self.ends - self.counts

    @cached_property
    def ranks(self) -> Ints:
        """Positions, with all beyond the depth replaced by the depth."""
        return np.minimum(self.listed.positions, self.plan.depth)

    @cached_property
    def shown_ends(self) -> Ints:
        """The index after the last hit among the first k positions: shape (cutoffs, lists)."""
        within = [self._between(_running(self.listed.positions < k), self.ends) for k in self.plan.cutoffs]
        return np.stack(within) + self.starts

    def _between(self, running: Ints, ends: Ints) -> Ints:
        return running[ends] - running[self.starts]

    @cached_property
    def graded(self) -> npt.NDArray[np.bool_]:
        """Whether some item, shown or unseen, has a grade above 0: shape (lists,)."""
        above = self._between(_running(self.levels.above_zero[self.listed.codes]), self.ends)
        return np.asarray(above + self._count_unseen(self.levels.above_zero) > 0)

    def _count_unseen(self, flags: Ints) -> Ints:
        """The number of unseen items with a flagged grade: shape (lists,)."""
        return np.bincount(self.unseen.rows[flags[self.unseen.codes] > 0], minlength=self.lengths.size)

    @cached_property
    def _relevant_running(self) -> Ints:
        return _running(self.levels.relevant[self.listed.codes])

    @cached_property
    def relevant(self) -> Ints:
        """The number of relevant items R, at any rank or unseen: shape (lists,)."""
        relevant = self._between(self._relevant_running, self.ends)
        return relevant + self._count_unseen(self.levels.relevant) if self.unseen.rows.size else relevant

    @cached_property
    def hits(self) -> Ints:
        """The number of relevant items among the first k."""
        return self._between(self._relevant_running, self.shown_ends)

    @cached_property
    def hits_at_relevant(self) -> Ints:
        """The number of relevant items among the first R: shape (lists,)."""
        within = (self.listed.positions < self.relevant[self.listed.rows]) & (self.levels.relevant[self.listed.codes] > 0)
        return self._between(_running(within), self.ends)

    @cached_property
    def _relevant_so_far(self) -> Ints:
        """Per hit: its number (from 1) among the relevant hits of its list, or 0 if it is not relevant."""
        running = self._relevant_running
        return (running[1:] - running[self.starts][self.listed.rows]) * self.levels.relevant[self.listed.codes]

    @cached_property
    def first_rank(self) -> Ints:
        """The rank (from 1) of the first relevant item, depth + 1 if it is beyond the depth, 0 if there is none: shape (lists,)."""
        relevant = np.flatnonzero(self.levels.relevant[self.listed.codes])
        if not relevant.size:
            return np.zeros(self.lengths.size, dtype=np.int64)
        running = self._relevant_running
        first = relevant.take(running[self.starts], mode="clip")
        return (self.ranks[first] + 1) * (running[self.starts] < running[self.ends])

    @cached_property
    def precision_sums(self) -> Ints:
        """The sum of the precisions at the relevant ranks up to k, in units of 2**-42."""
        precisions = self._relevant_so_far / (self.listed.positions + 1)
        return self._between(_running(np.rint(precisions * AP_ONE).astype(np.int64)), self.shown_ends)

    @cached_property
    def gain_sums(self) -> Ints:
        """The sum of the gains of the first k items, in units of 2**-40."""
        return self._between(_running(self.levels.gains[self.plan.spec.gain][self.listed.codes]), self.shown_ends)

    @cached_property
    def weighted(self) -> dict[Gain, Ints]:
        """DCG@k per gain, in units of 2**-44."""
        sums = {}
        for gain in self.plan.weighted_gains:
            whole, rest = self.levels.weighted(gain, self.listed.codes, self.ranks)
            total = self._between(_running(whole), self.shown_ends)
            sums[gain] = total if rest is None else carry(total, self._between(_running(rest), self.shown_ends))
        return sums

    @cached_property
    def persistence_sums(self) -> Ints:
        """The sum of the RBP weights of the relevant items among the first k, in units of 2**-52."""
        weights = self.plan.persistences[self.ranks] * self.levels.relevant[self.listed.codes]
        return self._between(_running(weights), self.shown_ends)

    @cached_property
    def satisfaction_sums(self) -> Ints:
        """The sum over ranks i <= k of P(user stops at i) / i, in units of 2**-42.

        One step per hit, for all lists in parallel, because each probability depends on the hits before it.
        """
        chances = self.levels.satisfactions[self.listed.codes]
        stops = np.zeros(chances.size)
        going_on = np.ones(self.lengths.size)
        ends = self.shown_ends[-1]
        lists = np.arange(self.lengths.size)
        for turn in range(int(self.counts.max(initial=0))):
            lists = lists[self.starts[lists] + turn < ends[lists]]
            if not lists.size:
                break
            at = self.starts[lists] + turn
            stops[at] = going_on[lists] * chances[at] / (self.listed.positions[at] + 1)
            going_on[lists] *= 1 - chances[at]
        return self._between(_running(np.rint(stops * AP_ONE).astype(np.int64)), self.shown_ends)

    @cached_property
    def ideal(self) -> dict[Gain, Ints]:
        """The ideal DCG@k per gain, over the items that the spec counts, in units of 2**-44."""
        return {gain: self._ideal(gain) for gain in self.plan.ideal_gains}

    def _ideal(self, gain: Gain) -> Ints:
        cutoffs = np.minimum(self.plan.cutoffs, self.plan.depth)
        match self.plan.spec.ideal:
            case "full":
                return np.repeat(self.plan.best[cutoffs][:, None], self.lengths.size, axis=1)
            case "shown":
                return self._best(gain, self.listed.rows, self.listed.codes, cutoffs)
            case "first_k":
                within = [self.listed.positions < k for k in self.plan.cutoffs]
                parts = [(self.listed.rows[some], self.listed.codes[some]) for some in within]
                return np.concatenate([self._best(gain, *part, cutoffs[[at]]) for at, part in enumerate(parts)])
        rows, codes = self.listed.rows, self.listed.codes
        if self.unseen.rows.size:
            rows, codes = np.concatenate([rows, self.unseen.rows]), np.concatenate([codes, self.unseen.codes])
        return self._best(gain, rows, codes, cutoffs)

    def _best(self, gain: Gain, rows: Ints, codes: Ints, cutoffs: Ints) -> Ints:
        """The DCG of these items in their best order, in units of 2**-44: shape (cutoffs, lists)."""
        in_place = rows is self.listed.rows
        codes = self._best_first(gain, rows, codes)
        if in_place:
            counts, starts = self.counts, self.starts
        else:
            counts = np.bincount(rows, minlength=self.lengths.size)
            starts = np.cumsum(counts) - counts
            rows = np.repeat(np.arange(counts.size), counts)
        ranks = np.minimum(np.arange(rows.size) - starts[rows], self.plan.depth)
        whole, rest = self.levels.weighted(gain, codes, ranks)
        ends = starts + np.minimum(cutoffs[:, None], counts)
        running = _running(whole)
        total = running[ends] - running[starts]
        if rest is None:
            return total
        running = _running(rest)
        return carry(total, running[ends] - running[starts])

    def _best_first(self, gain: Gain, rows: Ints, codes: Ints) -> Ints:
        """Codes sorted by list, then by falling gain. Both are packed into one integer key, which sorts fastest."""
        if codes.size == 0 or codes.min() == codes.max():
            return codes
        top = self.levels.count - 1
        bits = self.levels.count.bit_length()
        order = self.levels.by_gain(gain)
        keys = (rows << bits) | (top - (codes if order is None else order[0][codes]))
        keys.sort()
        best = top - (keys & ((1 << bits) - 1))
        return best if order is None else order[1][best]


def _running(terms: Ints | npt.NDArray[np.bool_]) -> Ints:
    """Cumulative sums with a leading zero: shape (n + 1,)."""
    out = np.empty(terms.size + 1, dtype=np.int64)
    out[0] = 0
    np.cumsum(terms, out=out[1:])
    return out
