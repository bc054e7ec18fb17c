"""Tallies: exact integer sums over many lists, from which means are read.

A flat tally is a list of ints in the order of a `TallyLayout`. Adding two of them merges them; all zeros is the tally of no lists;
subtracting removes lists. Python ints do not overflow, so nothing is ever rounded.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

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
from streammetrics.metrics.spec import ARITHMETIC, NoRelevant, Spec
from streammetrics.metrics.varints import read_varints, write_varints

TallyView: TypeAlias = NoRelevant | Literal["with_feedback"]

VERSION: Final = 1
"""The first byte of a stored tally."""

_LISTS: Final = 0
_WITH_FEEDBACK: Final = 1
_LEAD: Final = 2
"""Indices in a flat tally: the two list counts come first, then the columns."""
_VIEWS: Final = (*get_args(NoRelevant), "with_feedback")


class TallyLayout:
    """The order of the numbers in a flat tally, for the metrics of a scorer.

    The order is: lists; lists with feedback (some grade > 0, shown or not); the scorer's columns; for each `item_hit_rate` its
    places in lists with feedback; and the columns of engagement metrics. All other columns of the scorer are 0 for a list without
    feedback, so they need no second sum. With
    `moments` there follow: for each `sum` column the number of lists that define it (see `means`); the sum of squares of every
    column; and the sums of products: hits x places of each `item_hit_rate`, then the requested pairs.

    scorer: its columns are summed. moments: keep squares and the counts for every view; the stream does not need them.
    products: pairs of metrics whose products are summed, for covariances; needs moments.
    engagement: the engagement metrics that are summed too; only without moments.

    Raises MetricError for products without moments, for engagement with moments, and for products of metrics that are not one column
    of the scorer.
    """

    def __init__(
        self,
        scorer: Scorer,
        *,
        moments: bool = True,
        products: Iterable[tuple[str | Metric, str | Metric]] = (),
        engagement: EngagementLayout | None = None,
    ) -> None:
        self.scorer = scorer
        self.moments = moments
        self.engagement = engagement
        if engagement is not None and moments:
            raise MetricError("engagement", "got some with moments; allowed is moments=False")
        self.products = tuple((self._parsed(one), self._parsed(other)) for one, other in products)
        if self.products and not moments:
            raise MetricError("products", "got some without moments; allowed is moments=True")
        columns = scorer.columns
        self.place_columns = [index for index, column in enumerate(columns) if column.kind == "places"]
        self.sum_columns = [index for index, column in enumerate(columns) if column.kind == "sum"]
        of_metric = {column.metric: index for index, column in enumerate(columns) if column.kind == "sum"}
        self.pairs = [(index - 1, index) for index in self.place_columns] + [(of_metric[a], of_metric[b]) for a, b in self.products]
        self._first_extra = _LEAD + len(columns)
        self._first_defined = self._first_extra + len(self.place_columns)
        self._first_square = self._first_defined + len(self.sum_columns)
        self._first_product = self._first_square + len(columns)
        self._first_engagement = self._first_defined
        own = () if engagement is None else engagement.columns
        self.columns = (*columns, *own)
        """All columns that are summed: the scorer's, then those of engagement metrics."""
        self.metrics = (*scorer.metrics, *(() if engagement is None else engagement.metrics))
        self.width = self._first_product + len(self.pairs) if moments else self._first_engagement + len(own)

    def _parsed(self, metric: str | Metric) -> Metric:
        parsed = metric if isinstance(metric, Metric) else parse_metric(metric)
        if parsed not in self.scorer.metrics or parsed.name == "item_hit_rate":
            raise MetricError("product", f"got {parsed}; allowed are metrics of the scorer that are one column")
        return parsed

    def lists(self, flat: Sequence[int]) -> int:
        """The number of lists in a flat tally."""
        return flat[_LISTS]

    def lists_with_feedback(self, flat: Sequence[int]) -> int:
        """The number of lists with some grade > 0, shown or not."""
        return flat[_WITH_FEEDBACK]

    def sums(self, flat: Sequence[int]) -> Sequence[int]:
        """The sums of all `columns` over all lists, in their order.

        >>> layout = TallyLayout(Scorer(["hit_rate@2"]), moments=False)
        >>> flat = layout.of_ragged([0, 1, 1], [0, 2, 3, 3]).numbers
        >>> layout.lists(flat), layout.lists_with_feedback(flat), [total >> 40 for total in layout.sums(flat)]
        (3, 2, [2])
        """
        if self.engagement is None:
            return flat[_LEAD : self._first_extra]
        return (*flat[_LEAD : self._first_extra], *flat[self._first_engagement :])

    def place_of(self, column: int) -> int:
        """The index in a flat tally of the sum of one of the `columns`, given by its index."""
        own = column - len(self.scorer.columns)
        return _LEAD + column if own < 0 else self._first_engagement + own

    def zero(self) -> list[int]:
        """The flat tally of no lists: the identity of addition."""
        return [0] * self.width

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
            mine[:, _LISTS] = 1
            mine[:, _WITH_FEEDBACK] = facts.graded
            mine[:, _LEAD : self._first_extra] = columns_of_facts(facts).T
            for extra, column in enumerate(self.place_columns):
                mine[:, self._first_extra + extra] = mine[:, _LEAD + column] * mine[:, _WITH_FEEDBACK]
            mine[:, self._first_engagement :] = 0
        for extra, column in enumerate(self.place_columns):
            k = self.scorer.columns[column].metric.k
            for row, shown in sparse.items():
                out[row, _LEAD + column] = bisect_left(shown, k)
                out[row, self._first_extra + extra] = out[row, _LEAD + column] * out[row, _WITH_FEEDBACK]
        return out

    @property
    def engagement_from(self) -> int:
        """The index in a flat tally of the first column of engagement metrics. They are the last columns."""
        return self._first_engagement

    def of_hits(
        self,
        lengths: npt.ArrayLike,
        rows: npt.ArrayLike,
        positions: npt.ArrayLike,
        grades: npt.ArrayLike,
        unseen: UnseenItems | None = None,
    ) -> Tally:
        """The tally of lists given by their graded items. Takes the arguments of `Scorer.score_hits`."""
        return self._tally(self.scorer.parts_of_hits(lengths, rows, positions, grades, unseen))

    def of_ragged(self, grades: npt.ArrayLike, offsets: npt.ArrayLike, unseen: UnseenItems | None = None) -> Tally:
        """The tally of concatenated lists. Takes the arguments of `Scorer.score_ragged`.

        >>> layout = TallyLayout(Scorer(["mrr@3", "ndcg@3"]))
        >>> layout.of_ragged([0, 1, 1, 0], [0, 2, 3, 4]).means()
        {'mrr@3': 0.5, 'ndcg@3': 0.5436432511905878}
        """
        return self._tally(self.scorer.parts_of_ragged(grades, offsets, unseen))

    def of_padded(self, grades: npt.ArrayLike, lengths: npt.ArrayLike | None = None, unseen: UnseenItems | None = None) -> Tally:
        """The tally of the rows of a matrix. Takes the arguments of `Scorer.score_padded`."""
        return self._tally(self.scorer.parts_of_padded(grades, lengths, unseen))

    def of_packed(self, lists: PackedLists, unseen: UnseenItems | None = None) -> Tally:
        """The tally of packed lists. Takes the arguments of `Scorer.score_packed`."""
        return self._tally(self.scorer.parts_of_packed(lists, unseen))

    def of_list(self, grades: Sequence[float], unseen: Sequence[float] = ()) -> Tally:
        """The tally of one list of grades in rank order. Takes the arguments of `Scorer.score_list`."""
        return self.of_ragged(np.asarray(grades, dtype=np.float64), [0, len(grades)], ([0] * len(unseen), unseen) if len(unseen) else None)

    def empty(self) -> Tally:
        """The tally of no lists."""
        return Tally(self, tuple(self.zero()))

    def _tally(self, lists: tuple[int, Iterable[KernelPart]]) -> Tally:
        total = self.zero()
        for _, facts in lists[1]:
            part = self._moments(facts) if self.moments else self._sums(facts)
            total = [left + right for left, right in zip(total, part, strict=True)]
        return Tally(self, tuple(total))

    def _sums(self, facts: ListFacts) -> list[int]:
        part = self.zero()
        part[_LISTS], part[_WITH_FEEDBACK] = facts.lengths.size, int(np.count_nonzero(facts.graded))
        for family in facts.plan.families:
            for place, total in self._sums_of_family(facts, family):
                part[place] = total
        return part

    def _sums_of_family(self, facts: ListFacts, family: Family) -> Iterator[tuple[int, int]]:
        """Indices and sums. Each column is summed as soon as it is computed, while it is in the CPU cache."""
        if family.name in FIRST_RANKED:
            yield from zip((_LEAD + column for column in family.columns), facts.sums_by_first_rank(family.name), strict=True)
            return
        for column, row in rows_of_family(facts, family):
            yield _LEAD + column, sum_of_row(row)
            if column in self.place_columns:
                yield self._first_extra + self.place_columns.index(column), int(row[facts.graded].sum())

    def _moments(self, facts: ListFacts) -> list[int]:
        columns, graded = columns_of_facts(facts), facts.graded
        part = [facts.lengths.size, int(np.count_nonzero(graded)), *map(sum_of_row, columns)]
        part += [int(columns[index][graded].sum()) for index in self.place_columns]
        part += np.count_nonzero(defined(facts), axis=1).tolist()
        part += [sum_of_products(row, row) for row in columns]
        return part + [sum_of_products(columns[one], columns[other]) for one, other in self.pairs]

    def means(self, flat: Sequence[int], view: TallyView | None = None) -> dict[str, float]:
        """The mean of each metric over the lists of a flat tally, by name: one correctly rounded division of integers.

        view: which lists count. `zero`: all. `skip`: those that define the metric. `one`: all, with 1 for lists that do not define
            it. `with_feedback`: lists with some grade > 0. None: the spec's `no_relevant`.

        A list defines an NDCG if its ideal is above 0, `err` if some grade is above 0, and the sums `dcg` and `cg` always. It
        defines every other metric, and an NDCG with a `full` ideal, if it has a relevant item. Unseen items count.
        `item_hit_rate` is hits / places in every view. Engagement metrics are over all lists, and only in the view `zero`. A metric
        without lists (or places) is left out.

        Raises MetricError for an unknown view, and for `skip` and `one` without moments.
        """
        wanted = self.scorer.spec.no_relevant if view is None else view
        if wanted not in _VIEWS:
            raise MetricError("view", f"got {wanted!r}; allowed are {', '.join(_VIEWS)}")
        if not self.moments and wanted in ("skip", "one"):
            raise MetricError("view", f"got {wanted!r} of a tally without moments; allowed are zero, with_feedback")
        return {label: top / below for label, top, below in self._ratios(flat, wanted) if below}

    def _ratios(self, flat: Sequence[int], view: TallyView) -> Iterator[tuple[str, int, int]]:
        for index, column in enumerate(self.scorer.columns):
            total = flat[_LEAD + index]
            if column.kind == "places":
                places = flat[self._first_extra + self.place_columns.index(index)] if view == "with_feedback" else total
                yield str(column.metric), flat[_LEAD + index - 1], places
            elif column.kind == "sum":
                lists = self.lists_with_feedback(flat) if view == "with_feedback" else self.lists(flat)
                if view in ("skip", "one"):
                    known = flat[self._first_defined + self.sum_columns.index(index)]
                    total += (lists - known) << column.scale_bits if view == "one" else 0
                    lists = known if view == "skip" else lists
                yield str(column.metric), total, lists << column.scale_bits
        if self.engagement is not None and view == "zero":
            yield from self.engagement.ratios(flat[self._first_engagement :], self.lists(flat))

    def covariance(self, flat: Sequence[int], one: str | Metric, other: str | Metric | None = None) -> float:
        """The sample covariance of two metrics over lists, or the variance of one. NaN with fewer than two lists.

        Computed with one division of integers. Raises MetricError without moments, for a metric that is not one column, and for a
        pair that is not in `products`.
        """
        if not self.moments:
            raise MetricError("covariance", "got a tally without moments; allowed is moments=True")
        first = self._parsed(one)
        second = first if other is None else self._parsed(other)
        at, to = self._column(first), self._column(second)
        if at == to:
            product = flat[self._first_square + at]
        elif (pair := (at, to)) in self.pairs or (pair := (to, at)) in self.pairs:
            product = flat[self._first_product + self.pairs.index(pair)]
        else:
            raise MetricError("covariance", f"got {first} and {second}; allowed are the pairs of products")
        lists = self.lists(flat)
        bits = self.scorer.columns[at].scale_bits + self.scorer.columns[to].scale_bits
        above = lists * product - flat[_LEAD + at] * flat[_LEAD + to]
        return above / (lists * (lists - 1) << bits) if lists > 1 else float("nan")

    def _column(self, metric: Metric) -> int:
        return next(index for index in self.sum_columns if self.scorer.columns[index].metric == metric)

    def require_same(self, other: TallyLayout) -> None:
        """Raise MetricError, naming the difference, if tallies of the two layouts cannot be merged."""
        self.scorer.spec.require_same(other.scorer.spec)
        for what in ("metrics", "moments", "products"):
            mine, its = getattr(self, what), getattr(other, what)
            if mine != its:
                raise MetricError(f"tally {what}", f"got {_shown(its)} and {_shown(mine)}; allowed is one layout")

    def header(self) -> bytes:
        """The meaning of a stored tally's numbers as JSON: arithmetic version, spec fields that differ from the default, metrics."""
        spec = asdict(self.scorer.spec)
        changed = {field.name: spec[field.name] for field in fields(Spec) if spec[field.name] != field.default}
        metrics = [str(metric) for metric in self.scorer.metrics]
        products = [[str(one), str(other)] for one, other in self.products]
        header = {"arithmetic": ARITHMETIC, "spec": changed, "metrics": metrics, "moments": self.moments, "products": products}
        if self.engagement is not None:
            header["engagement"] = [self.engagement.satisfied_grade, *map(str, self.engagement.metrics)]
        return json.dumps(header, separators=(",", ":")).encode()


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


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
