"""Tallies: exact integer sums over many lists, from which means are read."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.engagement import EngagementLayout
from streammetrics.metrics.exact_integers import sum_of_products, sum_of_row
from streammetrics.metrics.kernels.dispatch import KernelPart
from streammetrics.metrics.kernels.formulas import ListFacts, columns_of_facts, defined, rows_of_family
from streammetrics.metrics.kernels.packed import PackedLists
from streammetrics.metrics.names import Metric, MetricError, parse_metric
from streammetrics.metrics.plan import FIRST_RANKED, Family
from streammetrics.metrics.scorer import Scorer, UnseenItems
from streammetrics.metrics.spec import ARITHMETIC, Spec
from streammetrics.metrics.tally_layout import FIRST_COLUMN, LISTS, WITH_FEEDBACK, FlatTallyLayout, TallyView
from streammetrics.metrics.varints import read_varints, write_varints

VERSION: Final = 1
"""The first byte of a stored tally."""


class TallyLayout(FlatTallyLayout):
    """The order of the numbers in a tally, and the tallies of lists. See `FlatTallyLayout` for the arguments and the order."""

    def rows_of_hits(
        self,
        lengths: npt.ArrayLike,
        rows: npt.ArrayLike,
        positions: npt.ArrayLike,
        grades: npt.ArrayLike,
        sparse: Mapping[int, Sequence[int]] = MappingProxyType({}),
    ) -> Ints:
        """The flat tally of each list: int64, shape (L, width). Takes the arguments of `Scorer.score_hits`.

        Columns of engagement metrics are 0: their owner adds `EngagementLayout.rows` from `engagement_from` on.
        `sparse` has the places (from 0, ascending) that show an item, by row, of lists with empty places. Only `item_hit_rate` depends on
        them: it counts the items shown in the first k places.

        Raises MetricError for a layout with moments, because squares do not fit int64.
        """
        if self.moments:
            raise MetricError("rows", "got a layout with moments (squares exceed int64); allowed is moments=False")
        count, parts = self.scorer.parts_of_hits(lengths, rows, positions, grades)
        out = np.empty((count, self.width), dtype=np.int64)
        for first, facts in parts:
            mine = out[first : first + facts.lengths.size]
            mine[:, LISTS] = 1
            mine[:, WITH_FEEDBACK] = facts.graded
            mine[:, FIRST_COLUMN : self._first_place] = columns_of_facts(facts).T
            for place, column in enumerate(self.place_columns):
                mine[:, self._first_place + place] = mine[:, FIRST_COLUMN + column] * mine[:, WITH_FEEDBACK]
            mine[:, self.engagement_from :] = 0
        for place, column in enumerate(self.place_columns):
            k = self.scorer.columns[column].metric.k
            for row, shown in sparse.items():
                out[row, FIRST_COLUMN + column] = bisect_left(shown, k)
                out[row, self._first_place + place] = out[row, FIRST_COLUMN + column] * out[row, WITH_FEEDBACK]
        return out

    def of_hits(
        self,
        lengths: npt.ArrayLike,
        rows: npt.ArrayLike,
        positions: npt.ArrayLike,
        grades: npt.ArrayLike,
        unseen: UnseenItems | None = None,
    ) -> Tally:
        """The tally of lists given by their graded items. Takes the arguments of `Scorer.score_hits`."""
        return self._sum(self.scorer.parts_of_hits(lengths, rows, positions, grades, unseen))

    def of_ragged(self, grades: npt.ArrayLike, offsets: npt.ArrayLike, unseen: UnseenItems | None = None) -> Tally:
        """The tally of concatenated lists. Takes the arguments of `Scorer.score_ragged`.

        >>> layout = TallyLayout(Scorer(["mrr@3", "ndcg@3"]))
        >>> layout.of_ragged([0, 1, 1, 0], [0, 2, 3, 4]).means()
        {'mrr@3': 0.5, 'ndcg@3': 0.5436432511905878}
        """
        return self._sum(self.scorer.parts_of_ragged(grades, offsets, unseen))

    def of_padded(self, grades: npt.ArrayLike, lengths: npt.ArrayLike | None = None, unseen: UnseenItems | None = None) -> Tally:
        """The tally of the rows of a matrix. Takes the arguments of `Scorer.score_padded`."""
        return self._sum(self.scorer.parts_of_padded(grades, lengths, unseen))

    def of_packed(self, lists: PackedLists, unseen: UnseenItems | None = None) -> Tally:
        """The tally of packed lists. Takes the arguments of `Scorer.score_packed`."""
        return self._sum(self.scorer.parts_of_packed(lists, unseen))

    def of_list(self, grades: Sequence[float], unseen: Sequence[float] = ()) -> Tally:
        """The tally of one list of grades in rank order. Takes the arguments of `Scorer.score_list`."""
        return self.of_ragged(np.asarray(grades, dtype=np.float64), [0, len(grades)], ([0] * len(unseen), unseen) if len(unseen) else None)

    def empty(self) -> Tally:
        """The tally of no lists."""
        return Tally(self, tuple(self.zero()))

    def _sum(self, lists: tuple[int, Iterable[KernelPart]]) -> Tally:
        total = self.zero()
        for _, facts in lists[1]:
            part = self._moments(facts) if self.moments else self._sums(facts)
            total = [left + right for left, right in zip(total, part, strict=True)]
        return Tally(self, tuple(total))

    def _sums(self, facts: ListFacts) -> list[int]:
        part = self.zero()
        part[LISTS], part[WITH_FEEDBACK] = facts.lengths.size, int(np.count_nonzero(facts.graded))
        for family in facts.plan.families:
            for place, total in self._sums_of_family(facts, family):
                part[place] = total
        return part

    def _sums_of_family(self, facts: ListFacts, family: Family) -> Iterator[tuple[int, int]]:
        """Indices and sums. Each column is summed as soon as it is computed, while it is in the CPU cache."""
        if family.name in FIRST_RANKED:
            yield from zip((FIRST_COLUMN + column for column in family.columns), facts.sums_by_first_rank(family.name), strict=True)
            return
        for column, row in rows_of_family(facts, family):
            yield FIRST_COLUMN + column, sum_of_row(row)
            if column in self.place_columns:
                yield self._first_place + self.place_columns.index(column), int(row[facts.graded].sum())

    def _moments(self, facts: ListFacts) -> list[int]:
        columns, graded = columns_of_facts(facts), facts.graded
        part = [facts.lengths.size, int(np.count_nonzero(graded)), *map(sum_of_row, columns)]
        part += [int(columns[index][graded].sum()) for index in self.place_columns]
        part += np.count_nonzero(defined(facts), axis=1).tolist()
        part += [sum_of_products(row, row) for row in columns]
        return part + [sum_of_products(columns[one], columns[other]) for one, other in self.pairs]


@dataclass(frozen=True, eq=False)
class Tally:
    """The tally of some lists, with its layout. Immutable: every method returns a new tally.

    >>> layout = TallyLayout(Scorer(["mrr@3"]))
    >>> first, second = layout.of_list([0, 1]), layout.of_list([1])
    >>> first.merge(second).means(), first.merge(second).revert(first) == second
    ({'mrr@3': 0.75}, True)
    >>> first.merge(layout.empty()) == first == Tally.from_bytes(first.to_bytes())
    True
    """

    layout: TallyLayout
    numbers: tuple[int, ...]

    @property
    def lists(self) -> int:
        """The number of lists."""
        return self.layout.lists(self.numbers)

    @property
    def lists_with_feedback(self) -> int:
        """Lists with some grade > 0, shown or not."""
        return self.layout.lists_with_feedback(self.numbers)

    def merge(self, other: Tally) -> Tally:
        """The tally of the lists of both. Raises MetricError, naming the difference, if the layouts differ."""
        self.layout.require_same(other.layout)
        return Tally(self.layout, tuple(left + right for left, right in zip(self.numbers, other.numbers, strict=True)))

    def revert(self, other: Tally) -> Tally:
        """The tally without the lists of `other`, which must have been merged before. Exact: undoes `merge`."""
        self.layout.require_same(other.layout)
        return Tally(self.layout, tuple(left - right for left, right in zip(self.numbers, other.numbers, strict=True)))

    def update(self, before: Tally, after: Tally) -> Tally:
        """The tally after some lists changed: `before` is their old tally, `after` their new one."""
        return self.revert(before).merge(after)

    def means(self, view: TallyView | None = None) -> dict[str, float]:
        """See `TallyLayout.means`."""
        return self.layout.means(self.numbers, view)

    def covariance(self, one: str | Metric, other: str | Metric | None = None) -> float:
        """See `TallyLayout.covariance`."""
        return self.layout.covariance(self.numbers, one, other)

    def to_bytes(self) -> bytes:
        """A version byte, the header and the numbers. Equal tallies give equal bytes on every machine."""
        return bytes([VERSION]) + write_varints([len(self.layout.header())]) + self.layout.header() + write_varints(self.numbers)

    @staticmethod
    def from_bytes(data: bytes) -> Tally:
        """Read a stored tally. Raises MetricError for another version or arithmetic, and for damaged bytes."""
        if not data or data[0] != VERSION:
            raise MetricError("stored tally", f"got version {data[0] if data else 'none'}; allowed is {VERSION}")
        try:
            (size,), start = read_varints(data, 1, 1)
            layout = _layout_of(bytes(data[start : start + size]))
            numbers, end = read_varints(data, start + size, layout.width)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            if isinstance(error, MetricError):
                raise
            raise MetricError("stored tally", f"got damaged bytes ({error}); allowed are bytes from to_bytes") from None
        if end != len(data):
            raise MetricError("stored tally", f"got {len(data) - end} extra bytes; allowed are bytes from to_bytes")
        return Tally(layout, tuple(numbers))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.numbers == other.numbers and self.layout.header() == other.layout.header()

    def __hash__(self) -> int:
        return hash(self.numbers)


@lru_cache(maxsize=32)
def _layout_of(header: bytes) -> TallyLayout:
    stored: dict[str, Any] = json.loads(header)
    if stored["arithmetic"] != ARITHMETIC:
        raise MetricError("stored tally", f"got arithmetic {stored['arithmetic']}; allowed is {ARITHMETIC}")
    scorer = Scorer(stored["metrics"], Spec(**stored["spec"]))
    engagement = None
    if "engagement" in stored:
        satisfied_grade, *names = stored["engagement"]
        engagement = EngagementLayout(map(parse_metric, names), satisfied_grade)
    products = [tuple(pair) for pair in stored["products"]]
    return TallyLayout(scorer, moments=stored["moments"], products=products, engagement=engagement)
