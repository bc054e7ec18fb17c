"""Flat tallies: exact integer sums over many lists, and the means that are read from them.

A flat tally is a list of ints. Adding two of them merges them; all zeros is the tally of no lists; subtracting removes lists. Python
ints do not overflow, so nothing is ever rounded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.engagement import EngagementLayout
from streammetrics.metrics.kernel.formulas import columns_of_facts
from streammetrics.metrics.names import MetricError
from streammetrics.metrics.scorer import Scorer

TallyView: TypeAlias = Literal["zero", "with_feedback"]

LISTS: Final = 0
WITH_FEEDBACK: Final = 1
FIRST_COLUMN: Final = 2
"""Indices in a flat tally: the two list counts come first, then the columns."""
ListShape: TypeAlias = tuple[Any, ...]
"""All that the scorer's columns of a list depend on: its length, or the places (from 0, ascending) that show an item if others are empty;
then the position (from 0) and the grade of each hit, in turn."""
SHAPES_KEPT_MAX: Final = 1 << 12
"""Shapes of which a layout keeps the rows: 2 MB for 64 columns. When there are more, it starts again."""


class TallyLayout:
    """The order of the numbers in a flat tally, the tallies of lists, and what is read from them.

    The order is: the number of lists; the number of lists with feedback (some grade > 0); the scorer's columns; for each
    `item_hit_rate` its places in lists with feedback; the columns of engagement metrics. All other columns of the scorer are 0 for a
    list without feedback, so they need no second sum.

    scorer: its columns are summed. engagement: the engagement metrics that are summed too.

    >>> layout = TallyLayout(Scorer(["mrr@3", "hit_rate@1"]))
    >>> rows = layout.rows_of_hits(lengths=[3, 2], rows=[0, 1], positions=[0, 1], grades=[1, 1])
    >>> layout.means(rows.sum(axis=0).tolist())
    {'mrr@3': 0.75, 'hit_rate@1': 0.5}
    """

    def __init__(self, scorer: Scorer, *, engagement: EngagementLayout | None = None) -> None:
        self.scorer = scorer
        self.engagement = engagement
        columns = scorer.columns
        self.place_columns = [index for index, column in enumerate(columns) if column.kind == "places"]
        self._first_place = FIRST_COLUMN + len(columns)
        self.engagement_from = self._first_place + len(self.place_columns)
        """The index in a flat tally of the first column of engagement metrics. They are the last columns."""
        engagement_columns = () if engagement is None else engagement.columns
        self.columns = (*columns, *engagement_columns)
        """All columns that are summed: the scorer's, then those of engagement metrics."""
        self.metrics = (*scorer.metrics, *(() if engagement is None else engagement.metrics))
        self.width = self.engagement_from + len(engagement_columns)
        self._numbers: dict[ListShape, int] = {}
        self._kept = np.empty((SHAPES_KEPT_MAX, self.width), dtype=np.int64)
        """Rows of shapes, by their numbers. Most lists have one of few shapes."""

    def rows_of_shapes(self, shapes: Sequence[ListShape]) -> Ints:
        """The flat tally of a list of each shape: int64, shape (L, width). Columns of engagement metrics are 0.

        >>> layout = TallyLayout(Scorer(["mrr@3", "hit_rate@1"]))
        >>> rows = layout.rows_of_shapes([(3,), (3, 0, 1), (3,)])
        >>> layout.means(rows.sum(axis=0).tolist()) == {"mrr@3": 1 / 3, "hit_rate@1": 1 / 3}
        True
        """
        numbers = self._numbers
        new = [shape for shape in dict.fromkeys(shapes) if shape not in numbers]
        if len(numbers) + len(new) > SHAPES_KEPT_MAX:
            numbers.clear()
            new = list(dict.fromkeys(shapes))
            if len(new) > SHAPES_KEPT_MAX:
                return self._score(shapes)
        if new:
            first = len(numbers)
            self._kept[first : first + len(new)] = self._score(new)
            numbers.update(zip(new, count(first)))
        return self._kept[[numbers[shape] for shape in shapes]]

    def _score(self, shapes: Sequence[ListShape]) -> Ints:
        hits = [(row, *hit) for row, shape in enumerate(shapes) for hit in zip(shape[1::2], shape[2::2], strict=True)]
        sparse = {row: shape[0] for row, shape in enumerate(shapes) if type(shape[0]) is tuple}
        return self.rows_of_hits(
            np.array([shape[0] if type(shape[0]) is int else shape[0][-1] + 1 for shape in shapes], dtype=np.int64),
            np.array([row for row, _, _ in hits], dtype=np.int64),
            np.array([position for _, position, _ in hits], dtype=np.int64),
            np.array([grade for _, _, grade in hits], dtype=np.float64),
            sparse,
        )

    def describe(self) -> str:
        """Return one line with every rule of the values. Sums of other values are never merged."""
        metrics = f"spec={self.scorer.spec.digest()} metrics[{','.join(map(str, self.metrics))}]"
        return metrics if self.engagement is None else f"{metrics} {self.engagement.describe()}"

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
        """
        lists, blocks = self.scorer.blocks_of_hits(lengths, rows, positions, grades)
        out = np.empty((lists, self.width), dtype=np.int64)
        for first, facts in blocks:
            mine = out[first : first + facts.lengths.size]
            mine[:, LISTS] = 1
            mine[:, WITH_FEEDBACK] = facts.graded
            mine[:, FIRST_COLUMN : self._first_place] = columns_of_facts(facts).T
            for place, column in enumerate(self.place_columns):
                mine[:, self._first_place + place] = mine[:, FIRST_COLUMN + column] * mine[:, WITH_FEEDBACK]
            mine[:, self.engagement_from :] = 0
        for place, column in enumerate(self.place_columns):
            k = self.scorer.columns[column].metric.k
            for row, cells in sparse.items():
                out[row, FIRST_COLUMN + column] = bisect_left(cells, k)
                out[row, self._first_place + place] = out[row, FIRST_COLUMN + column] * out[row, WITH_FEEDBACK]
        return out

    def lists(self, flat: Sequence[int]) -> int:
        """The number of lists in a flat tally."""
        return flat[LISTS]

    def lists_with_feedback(self, flat: Sequence[int]) -> int:
        """The number of lists with some grade > 0, shown or not."""
        return flat[WITH_FEEDBACK]

    def sums(self, flat: Sequence[int]) -> Sequence[int]:
        """The sums of all `columns` over all lists, in their order.

        >>> layout = TallyLayout(Scorer(["hit_rate@2"]))
        >>> flat = [3, 2, 2 << 40]
        >>> layout.lists(flat), layout.lists_with_feedback(flat), [total >> 40 for total in layout.sums(flat)]
        (3, 2, [2])
        """
        if self.engagement is None:
            return flat[FIRST_COLUMN : self._first_place]
        return (*flat[FIRST_COLUMN : self._first_place], *flat[self.engagement_from :])

    def place_of(self, column: int) -> int:
        """The index in a flat tally of the sum of one of the `columns`, given by its index."""
        index = column - len(self.scorer.columns)
        return FIRST_COLUMN + column if index < 0 else self.engagement_from + index

    def zero(self) -> list[int]:
        """The flat tally of no lists: the identity of addition."""
        return [0] * self.width

    def means(self, flat: Sequence[int], view: TallyView = "zero") -> dict[str, float]:
        """The mean of each metric over the lists of a flat tally, by name: one correctly rounded division of integers.

        view: which lists count. `zero`: all. `with_feedback`: lists with some grade > 0. `item_hit_rate` is hits / places in both.
        Engagement metrics are over all lists, and only in the view `zero`. A metric without lists (or places) is left out.

        Raises MetricError for an unknown view.
        """
        if view not in get_args(TallyView):
            raise MetricError("view", f"got {view!r}; allowed are {', '.join(get_args(TallyView))}")
        return {label: top / below for label, top, below in self._ratios(flat, view) if below}

    def _ratios(self, flat: Sequence[int], view: TallyView) -> Iterator[tuple[str, int, int]]:
        lists = self.lists(flat) if view == "zero" else self.lists_with_feedback(flat)
        for index, column in enumerate(self.scorer.columns):
            total = flat[FIRST_COLUMN + index]
            if column.kind == "places":
                places = total if view == "zero" else flat[self._first_place + self.place_columns.index(index)]
                yield str(column.metric), flat[FIRST_COLUMN + index - 1], places
            elif column.kind == "sum":
                yield str(column.metric), total, lists << column.scale_bits
        if self.engagement is not None and view == "zero":
            yield from self.engagement.ratios(flat[self.engagement_from :], self.lists(flat))
