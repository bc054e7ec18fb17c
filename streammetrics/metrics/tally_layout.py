"""The order of the numbers in a flat tally, and the means that are read from it.

A flat tally is a list of ints. Adding two of them merges them; all zeros is the tally of no lists; subtracting removes lists. Python
ints do not overflow, so nothing is ever rounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Final, Literal, TypeAlias, get_args

from streammetrics.metrics.engagement import EngagementLayout
from streammetrics.metrics.names import Metric, MetricError, parse_metric
from streammetrics.metrics.scorer import Scorer
from streammetrics.metrics.spec import ARITHMETIC, NoRelevant, Spec

TallyView: TypeAlias = NoRelevant | Literal["with_feedback"]

LISTS: Final = 0
WITH_FEEDBACK: Final = 1
FIRST_COLUMN: Final = 2
"""Indices in a flat tally: the two list counts come first, then the columns."""
_VIEWS: Final = (*get_args(NoRelevant), "with_feedback")


class FlatTallyLayout:
    """The order of the numbers in a flat tally, for the metrics of a scorer, and what is read from them.

    The order is: the number of lists; the number of lists with feedback (some grade > 0, shown or not); the scorer's columns; for
    each `item_hit_rate` its places in lists with feedback; the columns of engagement metrics. All other columns of the scorer are 0
    for a list without feedback, so they need no second sum.

    With `moments` there follow: for each `sum` column the number of lists that define it (see `means`); the sum of squares of every
    column; the sums of products: hits x places of each `item_hit_rate`, then the requested pairs.

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
        self._first_place = FIRST_COLUMN + len(columns)
        self._first_defined = self._first_place + len(self.place_columns)
        self._first_square = self._first_defined + len(self.sum_columns)
        self._first_product = self._first_square + len(columns)
        self.engagement_from = self._first_defined
        """The index in a flat tally of the first column of engagement metrics. They are the last columns."""
        own = () if engagement is None else engagement.columns
        self.columns = (*columns, *own)
        """All columns that are summed: the scorer's, then those of engagement metrics."""
        self.metrics = (*scorer.metrics, *(() if engagement is None else engagement.metrics))
        self.width = self._first_product + len(self.pairs) if moments else self.engagement_from + len(own)

    def _parsed(self, metric: str | Metric) -> Metric:
        parsed = metric if isinstance(metric, Metric) else parse_metric(metric)
        if parsed not in self.scorer.metrics or parsed.name == "item_hit_rate":
            raise MetricError("product", f"got {parsed}; allowed are metrics of the scorer that are one column")
        return parsed

    def lists(self, flat: Sequence[int]) -> int:
        """The number of lists in a flat tally."""
        return flat[LISTS]

    def lists_with_feedback(self, flat: Sequence[int]) -> int:
        """The number of lists with some grade > 0, shown or not."""
        return flat[WITH_FEEDBACK]

    def sums(self, flat: Sequence[int]) -> Sequence[int]:
        """The sums of all `columns` over all lists, in their order.

        >>> layout = FlatTallyLayout(Scorer(["hit_rate@2"]), moments=False)
        >>> flat = [3, 2, 2 << 40]
        >>> layout.lists(flat), layout.lists_with_feedback(flat), [total >> 40 for total in layout.sums(flat)]
        (3, 2, [2])
        """
        if self.engagement is None:
            return flat[FIRST_COLUMN : self._first_place]
        return (*flat[FIRST_COLUMN : self._first_place], *flat[self.engagement_from :])

    def place_of(self, column: int) -> int:
        """The index in a flat tally of the sum of one of the `columns`, given by its index."""
        own = column - len(self.scorer.columns)
        return FIRST_COLUMN + column if own < 0 else self.engagement_from + own

    def zero(self) -> list[int]:
        """The flat tally of no lists: the identity of addition."""
        return [0] * self.width

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
            total = flat[FIRST_COLUMN + index]
            if column.kind == "places":
                places = flat[self._first_place + self.place_columns.index(index)] if view == "with_feedback" else total
                yield str(column.metric), flat[FIRST_COLUMN + index - 1], places
            elif column.kind == "sum":
                lists = self.lists_with_feedback(flat) if view == "with_feedback" else self.lists(flat)
                if view in ("skip", "one"):
                    known = flat[self._first_defined + self.sum_columns.index(index)]
                    total += (lists - known) << column.scale_bits if view == "one" else 0
                    lists = known if view == "skip" else lists
                yield str(column.metric), total, lists << column.scale_bits
        if self.engagement is not None and view == "zero":
            yield from self.engagement.ratios(flat[self.engagement_from :], self.lists(flat))

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
        above = lists * product - flat[FIRST_COLUMN + at] * flat[FIRST_COLUMN + to]
        return above / (lists * (lists - 1) << bits) if lists > 1 else float("nan")

    def _column(self, metric: Metric) -> int:
        return next(index for index in self.sum_columns if self.scorer.columns[index].metric == metric)

    def require_same(self, other: FlatTallyLayout) -> None:
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
