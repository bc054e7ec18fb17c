"""The layout of totals and moments: what is measured per user, and which products are summed over users.

A measure is a metric at one grain. A user's totals are the number of lists, then the scorer's columns. Only this module knows which
columns make a measure, and which sums its estimate needs. Integers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.errors import ExperimentError
from streammetrics.metrics.names import Column, metric_text
from streammetrics.metrics.records import METRICS

MeasureKind: TypeAlias = Literal["mean", "ratio", "users"]

USERS: Final = 0
"""Index of the constant 1 in a user's row. Its sum counts users."""
LISTS: Final = 1
"""Index of the number of lists in a user's row."""
USERS_AT: Final = 0
"""Index of the number of users in moments."""
LISTS_AT: Final = 1
"""Index of the number of lists in moments."""
COVARIATE_BITS: Final = 20
"""A covariate is a user's earlier mean, in units of 2**-20. Its products with the user's totals fit."""

USER_GRAIN: Final = {name: record.of_users for name, record in METRICS.items() if record.of_users}
"""Metrics that are 0 or 1 for a list, and the measure of users with at least one 1."""
Product: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that variants are compared by: sum of `top` / sum of `bottom` over users / 2**scale_bits.

    `top` and `bottom` are indexes in a user's row (see Measures). `kind` is `mean` (over lists), `ratio` (of two sums) or `users`
    (the share of users with a hit). `lower_is_better`: a rise is a regression. `ceiling`: its greatest value; None: it has no bound.
    """

    name: str
    k: int
    kind: MeasureKind
    top: int
    bottom: int
    scale_bits: int

    lower_is_better: bool = False
    ceiling: int | None = 1

    def __str__(self) -> str:
        return metric_text(self.name, self.k)


@dataclass(frozen=True, slots=True)
class MomentColumns:
    """Indexes of one measure's moments: users, and the sums of y, d, yy, dd, yd."""

    users: int
    y: int
    d: int
    yy: int
    dd: int
    yd: int


@dataclass(frozen=True, slots=True)
class CovariateColumns:
    """Indexes of the moments of one measure's covariate x.

    users: users with any earlier lists. The others are sums over users with x, of h = d and x d: h, x, hh, hx, xx, hy, xy, hd, xd.
    """

    users: int
    h: int
    x: int
    hh: int
    hx: int
    xx: int
    hy: int
    xy: int
    hd: int
    xd: int


class Measures:
    """The measures of a scorer's columns, and the layout of totals and moments.

    totals: integers of one user in one experiment and scope, summed over final lists: [lists, *columns]. The width is
        `totals_width`. Columns have the scorer's order and units.
    row: the factors of products: [1, lists, *columns, *(1 if hits else 0, per user measure),
        1 if there are covariates, *(d, x d, per covariate)].
    moments: integers of one variant: for each of `pairs`, the product of two entries of a row, summed over users. The width is
        `moments_width`. Users and lists come first.
    covariates: whether rows have a covariate for each measure of lists (for variance reduction). A share of users has none.
    items_per_list, lists_per_user: means that are no measures, because a ranker does not aim at them. They are for warnings: items shown
        in the first k places, with the largest k of an item_hit_rate (None without one), and lists. `estimates.estimate` gives their
        mean and its variance, clustered by user, from the moments of a variant.

    >>> from streammetrics.metrics import Scorer
    >>> measures = Measures(Scorer(["ndcg@10", "hit_rate@10", "item_hit_rate@10"]).columns)
    >>> [str(measure) for measure in measures]
    ['ndcg@10', 'hit_rate@10', 'item_hit_rate@10', 'user_hit_rate@10']
    >>> measures.totals_width, measures.moments_width
    (5, 17)
    """

    def __init__(self, columns: Iterable[Column], covariates: bool = False) -> None:
        self.columns = tuple(columns)
        self.covariates = covariates
        self.totals_width = 1 + len(self.columns)
        self.hits: tuple[int, ...] = tuple(
            LISTS + 1 + at for at, column in enumerate(self.columns) if column.metric.name in USER_GRAIN and column.kind == "sum"
        )
        self.all: tuple[Measure, ...] = (*self._of_lists(), *self._of_users())
        self.lists_per_user: Final = Measure("lists_per_user", 0, "mean", LISTS, USERS, 0, ceiling=None)
        self.items_per_list: Final = self._items_per_list()
        self._first_covariate = LISTS + 1 + len(self.columns) + len(self.hits)
        self.of_lists: tuple[Measure, ...] = tuple(measure for measure in self.all if measure.kind != "users")
        self.row_width = self._first_covariate + (1 + 2 * len(self.of_lists) if covariates else 0)
        self.pairs: tuple[Product, ...] = tuple(dict.fromkeys(self._pairs()))
        self.moments_width = len(self.pairs)
        self.pair_sides = np.array(self.pairs, dtype=np.int64).T
        self._at = {pair: index for index, pair in enumerate(self.pairs)}
        self._places: dict[Product, MomentColumns] = {}

    def __iter__(self) -> Iterator[Measure]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(str(measure) for measure in self.all)

    def named(self, name: str) -> Measure:
        """Return the measure with a name such as `ndcg@10`. Raises ExperimentError if it is not measured."""
        for measure in self.all:
            if str(measure) == name:
                return measure
        raise ExperimentError("measure", f"got {name!r}; must be one of {', '.join(self.names)}")

    def places(self, measure: Measure) -> MomentColumns:
        """Return the indexes of a measure's moments."""
        y, d = measure.top, measure.bottom
        if (y, d) not in self._places:
            pairs = ((USERS, USERS), (USERS, y), (USERS, d), (y, y), (d, d), (y, d))
            self._places[y, d] = MomentColumns(*(self._place(*pair) for pair in pairs))
        return self._places[y, d]

    def users_column(self, measure: Measure) -> int:
        """Return the place of a share of users among all of them."""
        return measure.top - LISTS - 1 - len(self.columns)

    def covariate_places(self, measure: Measure) -> CovariateColumns:
        """Return the indexes of the moments of a list measure's covariate. Raises ExperimentError in a layout without covariates."""
        if not self.covariates:
            raise ExperimentError("covariates", "this layout has none; use Measures(columns, covariates=True)")
        return CovariateColumns(*(self._place(*pair) for pair in self._covariate_pairs(self.of_lists.index(measure), measure)))

    def covariate_columns_of(self, measure: Measure) -> tuple[int, int]:
        """Return the columns of h = d and x d in the sums of an hour, which begin with (lists, *columns)."""
        first = self.totals_width + 2 * self.of_lists.index(measure)
        return first, first + 1

    @property
    def covariate_bottoms(self) -> tuple[int, ...]:
        """The column of the denominator of each measure with a covariate, among (lists, *columns)."""
        return tuple(measure.bottom - LISTS for measure in self.of_lists)

    @cached_property
    def plain(self) -> Measures:
        """This layout without covariates."""
        return Measures(self.columns) if self.covariates else self

    @cached_property
    def with_covariates(self) -> Measures:
        """This layout with covariates."""
        return self if self.covariates else Measures(self.columns, covariates=True)

    def without_covariates(self, moments: Sequence[int]) -> list[int]:
        """Convert moments of this layout to the layout without covariates.

        >>> from streammetrics.metrics import Scorer
        >>> from streammetrics.statistics.moments import of_users
        >>> wide = Measures(Scorer(["mrr@10"]).columns, covariates=True)
        >>> wide.without_covariates(of_users(wide, [[2, 3]], [[5]])) == of_users(wide.plain, [[2, 3]])
        True
        """
        self._check("moments", moments, self.moments_width)
        return [moments[self._place(*pair)] for pair in self.plain.pairs]

    def row(self, totals: Sequence[int], covariates: Sequence[int | None] | None = None) -> list[int]:
        """Return a user's row as Python integers. `covariates` has one entry per measure of lists, None if the user has no earlier lists.

        Raises ExperimentError when a width is wrong.
        """
        self._check("totals", totals, self.totals_width)
        row = [1, *totals]
        row += [1 if totals[place - 1] else 0 for place in self.hits]
        if self.covariates:
            values = [None] * len(self.of_lists) if covariates is None else covariates
            self._check("covariates", values, len(self.of_lists))
            row.append(int(any(covariate is not None for covariate in values)))
            for measure, covariate in zip(self.of_lists, values, strict=True):
                row += (0, 0) if covariate is None else (row[measure.bottom], covariate * row[measure.bottom])
        elif covariates is not None:
            raise ExperimentError("covariates", "got some; this layout has none: use Measures(columns, covariates=True)")
        return row

    def covariate_values(self, earlier: Sequence[int]) -> list[int | None]:
        """Return a user's covariates, one per measure of lists: the means of the lists before the experiment, from their totals.

        Each is rounded once, half to even, to 2**-20, so that its products are integers. It is None if the user had no lists (or
        no items).
        """
        self._check("earlier totals", earlier, self.totals_width)
        values: list[int | None] = []
        for measure in self.of_lists:
            top, bottom = earlier[measure.top - LISTS], earlier[measure.bottom - LISTS]
            values.append(divide_half_even(top << COVARIATE_BITS, bottom << measure.scale_bits) if bottom else None)
        return values

    def covariate_columns(self, earlier: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return `covariate_values` of many users as columns: (h, x) per measure of lists; h is 1 for a user with x, else both are 0.

        earlier: totals, shape (users, totals_width). The result has shape (users, 2 * measures of lists).
        """
        columns = np.zeros((len(earlier), 2 * len(self.of_lists)), dtype=np.int64)
        for at, measure in enumerate(self.of_lists):
            top, bottom = earlier[:, measure.top - LISTS], earlier[:, measure.bottom - LISTS]
            has = bottom > 0
            below = np.where(has, bottom, 1) << max(measure.scale_bits - COVARIATE_BITS, 0)
            shift = max(COVARIATE_BITS - measure.scale_bits, 0)
            if (top >= 1 << (62 - shift)).any() or (bottom >= 1 << (61 - max(measure.scale_bits - COVARIATE_BITS, 0))).any():
                values = [self.covariate_values(row)[at] for row in earlier.tolist()]  # beyond int64: in Python integers
                columns[:, 2 * at] = [value is not None for value in values]
                columns[:, 2 * at + 1] = [value or 0 for value in values]
                continue
            whole, rest = np.divmod(top << shift, below)
            whole += (2 * rest > below) | ((2 * rest == below) & (whole % 2 == 1))
            columns[:, 2 * at], columns[:, 2 * at + 1] = has, np.where(has, whole, 0)
        return columns

    def covariate_factors(self, rows: npt.NDArray[np.int64], covariates: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the factors of covariates in rows: 1 for users who have some, then (d, x d) per measure of lists.

        rows: factors without covariates. covariates: see `covariate_columns`.
        """
        has = np.asarray(covariates[:, ::2].any(axis=1), dtype=np.int64)
        lists = rows[:, [measure.bottom for measure in self.of_lists]]
        return np.concatenate([has[:, None], covariates * np.repeat(lists, 2, axis=1)], axis=1)

    @staticmethod
    def _check(what: str, values: Sequence[Any], width: int) -> None:
        if len(values) != width:
            raise ExperimentError(what, f"got {len(values)} numbers; the layout has {width}")

    def _place(self, one: int, other: int) -> int:
        return self._at[(one, other) if one <= other else (other, one)]

    def _of_lists(self) -> Iterable[Measure]:
        for at, column in enumerate(self.columns):
            place = LISTS + 1 + at
            metric = column.metric
            rules = metric.record.lower_is_better, metric.record.ceiling
            if column.kind == "sum":
                yield Measure(metric.name, metric.k, "mean", place, LISTS, column.scale_bits, *rules)
            elif column.kind in ("hits", "numerator"):
                yield Measure(metric.name, metric.k, "ratio", place, place + 1, 0, *rules)

    def _items_per_list(self) -> Measure | None:
        places = [(column.metric.k, LISTS + 1 + at) for at, column in enumerate(self.columns) if column.kind == "places"]
        k, top = max(places, default=(0, 0))
        return Measure("items_per_list", k, "ratio", top, LISTS, 0, ceiling=None) if places else None

    def _of_users(self) -> Iterable[Measure]:
        for at, place in enumerate(self.hits):
            metric = self.columns[place - LISTS - 1].metric
            yield Measure(USER_GRAIN[metric.name], metric.k, "users", LISTS + 1 + len(self.columns) + at, USERS, 0)

    def _pairs(self) -> Iterable[Product]:
        yield USERS, USERS
        yield USERS, LISTS
        yield LISTS, LISTS
        if self.items_per_list is not None:
            yield from ((USERS, self.items_per_list.top), (self.items_per_list.top,) * 2, (LISTS, self.items_per_list.top))
        for index, measure in enumerate(self.all):
            y, d = measure.top, measure.bottom
            for one, other in ((USERS, USERS), (USERS, d), (d, d), (USERS, y), (y, y), (d, y)):
                yield (one, other) if one <= other else (other, one)
            if self.covariates and index < len(self.of_lists):
                for one, other in self._covariate_pairs(index, measure):
                    yield (one, other) if one <= other else (other, one)

    def _covariate_pairs(self, index: int, measure: Measure) -> tuple[Product, ...]:
        h = self._first_covariate + 1 + 2 * index
        x, y, d = h + 1, measure.top, measure.bottom
        sums = (USERS, self._first_covariate), (USERS, h), (USERS, x)
        return (*sums, (h, h), (h, x), (x, x), (h, y), (x, y), (h, d), (x, d))


def divide_half_even(above: int, below: int) -> int:
    """Return above / below rounded half to even. `below` must be positive.

    >>> [divide_half_even(above, 2) for above in (1, 3, 5, -1)]
    [0, 2, 2, 0]
    """
    whole, rest = divmod(above, below)
    return whole + (2 * rest > below or (2 * rest == below and whole % 2 == 1))
