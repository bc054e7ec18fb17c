"""The public scorer: many inputs, one law. Every input is reduced to sparse hits; only grades above 0 are hits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streammetrics.metrics import checks
from streammetrics.metrics.batch import Hits, level_codes, score_sorted, small_levels
from streammetrics.metrics.names import Column, Metric, MetricError
from streammetrics.metrics.plan import compile_plan
from streammetrics.metrics.single import OneList
from streammetrics.metrics.spec import Spec
from streammetrics.metrics.units import Ints

ITEMS_MAX_DEFAULT: Final = 1_000_000


class Scorer:
    """Scores ranked lists under many metrics at once, in exact integers.

    metrics: names such as `ndcg@10`, or Metric values, each once; `columns` follow their order.
    spec: what libraries disagree on; see Spec.
    items_max: the longest list that is accepted (1..4194304).
    grade_max: the largest grade that is accepted; by default, and at most, the largest whole grade with which no sum over a
        list can overflow (15 for exp2 gains at k = 20, 37234 for linear ones).

    A grade is rounded to a multiple of 2**-40 on entry, and a DCG is held to 2**-44: values of whole grades are right to 1e-12, and
    so are those of fractions down to about 0.1; grades below 0.001 should be scaled up.

    Every method returns int64 (or int) columns: one per metric, with two, hits and places, for `item_hit_rate`. Divide by
    2**scale_bits of the column, or read a row with `values`. All methods give the same integers for the same list. They raise
    MetricError for what they refuse, naming rule, place and value. An empty list is legal and scores 0; a cut-off beyond the end
    of a list is legal too.

    With DCG@k = sum of gain / log2(i+1) over ranks i <= k, relevant = grade >= threshold, h@k = relevant items among the first k,
    R = relevant items of the list:

    ======================  ======================================================================================
    cg, dcg                 sum of gains; DCG@k (units of 2**-32)
    ndcg, ndcg_exp          DCG@k / DCG@k of all graded items of the list, best first; 0 if none is graded
    mrr                     1 / rank of the first relevant item if that rank <= k, else 0
    hit_rate                1 if h@k > 0, else 0
    item_hit_rate           hits h@k and places min(k, n): a ratio of sums
    precision, recall       h@k / k; h@k / R
    map                     sum of h@i / i over the relevant ranks i <= k, / min(R, k)
    ======================  ======================================================================================

    >>> scorer = Scorer(["ndcg@3", "mrr@3", "item_hit_rate@3"])
    >>> scorer.values(scorer.score_list([0, 1, 0, 1]))
    {'ndcg@3': 0.38685280723439064, 'mrr@3': 0.5, 'item_hit_rate@3': 0.3333333333333333}
    """

    def __init__(
        self,
        metrics: Iterable[str | Metric],
        spec: Spec | None = None,
        *,
        items_max: int = ITEMS_MAX_DEFAULT,
        grade_max: float | None = None,
    ) -> None:
        self._plan = compile_plan(metrics, spec or Spec(), items_max, grade_max)
        self._small = small_levels(self._plan)
        self._one = OneList(self._plan)
        self.metrics: tuple[Metric, ...] = self._plan.metrics
        self.columns: tuple[Column, ...] = self._plan.columns
        self.spec: Spec = self._plan.spec
        self.items_max: int = self._plan.items_max
        self.grade_max: float = self._plan.grade_max
        self._labelled = _labelled(self.metrics, self.columns)

    def score_hits(self, lengths: npt.ArrayLike, rows: npt.ArrayLike, positions: npt.ArrayLike, grades: npt.ArrayLike) -> Ints:
        """Score lists of which only the graded items are given.

        lengths: whole numbers, shape (L,): how many items each list has.
        rows, positions, grades: shape (H,), in any order: hit h is the item of list rows[h] at positions[h], counted from 0. Items
            that are not named have grade 0. No place may be named twice.
        Returns int64 of shape (L, columns). Memory and time grow with L + H, not with the lengths.

        >>> Scorer(["precision@2", "item_hit_rate@2"]).score_hits([1000, 1], rows=[0], positions=[1], grades=[3])
        array([[549755813888,            1,            2],
               [           0,            0,            1]])
        """
        sizes = checks.whole_numbers("lengths", lengths)
        at_rows, at_positions = checks.whole_numbers("rows", rows), checks.whole_numbers("positions", positions)
        numbers = checks.numbers("grades", grades)
        checks.check_lengths(sizes, self.items_max)
        checks.check_hits(sizes, at_rows, at_positions, numbers)
        doubles = checks.check_grades(numbers, at_rows, at_positions, self.grade_max)
        keys = at_rows * (self.items_max + 1) + at_positions
        if not (keys[1:] > keys[:-1]).all():
            order = np.argsort(keys)
            keys, at_rows, at_positions, doubles = keys[order], at_rows[order], at_positions[order], doubles[order]
            checks.check_no_repeats(keys, at_rows, at_positions)
        levels, codes = level_codes(self._plan, self._small, doubles)
        return score_sorted(self._plan, levels, sizes, Hits(at_rows, at_positions, codes))

    def score_ragged(self, grades: npt.ArrayLike, offsets: npt.ArrayLike) -> Ints:
        """Score lists given one after the other: list i has the grades[offsets[i]:offsets[i + 1]], in rank order.

        grades: numbers, shape (N,). offsets: whole numbers, shape (L + 1,), from 0 to N, never falling.
        Returns int64 of shape (L, columns).

        >>> Scorer(["dcg@5"]).score_ragged([3, 2, 3, 0, 1, 0.5], [0, 5, 5, 6]) / 2**32
        array([[6.14871231],
               [0.        ],
               [0.5       ]])
        """
        flat, ends = checks.numbers("grades", grades), checks.whole_numbers("offsets", offsets)
        checks.check_offsets(ends, flat.size)
        lengths = np.diff(ends)
        hits = np.flatnonzero(flat)
        rows = np.searchsorted(ends, hits, side="right") - 1
        return self.score_hits(lengths, rows, hits - ends[rows], flat[hits])

    def score_padded(self, grades: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> Ints:
        """Score lists given as the rows of a matrix, in rank order.

        grades: numbers, shape (L, width). lengths: whole numbers 0..width, shape (L,): what lies beyond is padding and never read;
            without them every list fills its row.
        Returns int64 of shape (L, columns).

        >>> Scorer(["hit_rate@1"]).score_padded([[1, 0], [-1, -1]], lengths=[2, 0]) >> 40
        array([[1],
               [0]])
        """
        cells = checks.matrix("grades", grades)
        count, width = cells.shape
        sizes = np.full(count, width, dtype=np.int64) if lengths is None else checks.whole_numbers("lengths", lengths)
        if sizes.size != count:
            raise MetricError(f"lengths: got {sizes.size}; allowed are {count}, one a row")
        checks.check_lengths(sizes, min(width, self.items_max))
        graded = cells != 0
        if lengths is not None:
            graded &= np.arange(width) < sizes[:, None]
        rows, positions = np.nonzero(graded)
        return self.score_hits(sizes, rows, positions, cells[rows, positions])

    def score_list(self, grades: Sequence[float] | npt.NDArray[Any]) -> tuple[int, ...]:
        """Score one list of grades in rank order, without numpy's overhead. Returns one int a column.

        >>> Scorer(["mrr@2", "mrr@3"]).score_list([0, 0, 1])
        (0, 366503875925)
        """
        items: Sequence[float] = grades.tolist() if isinstance(grades, np.ndarray) else grades
        checks.check_length(len(items), self.items_max)
        places = [place for place, grade in enumerate(items) if grade != 0]
        return self._one.score(len(items), places, [items[place] for place in places])

    def score_list_hits(self, length: int, hits: Mapping[int, float] | Iterable[tuple[int, float]]) -> tuple[int, ...]:
        """Score one list of `length` items of which only the graded ones are given: position (from 0) to grade, in any order.

        Returns one int a column.

        >>> scorer = Scorer(["ndcg@10", "mrr@10"])
        >>> scorer.score_list_hits(1000, {1: 2, 0: 0.5}) == scorer.score_list([0.5, 2, *[0] * 998])
        True
        """
        try:
            pairs = sorted(hits.items() if isinstance(hits, dict) or isinstance(hits, Mapping) else hits)  # noqa: SIM101 (twice as fast)
            places = [place for place, _ in pairs]
            grades = [grade for _, grade in pairs]
        except (TypeError, ValueError) as error:
            raise MetricError(f"hits: got {hits!r} ({error}); allowed are positions with their grades") from None
        if type(length) is not int or not 0 <= length <= self.items_max:
            checks.check_length(length, self.items_max)
        self._check_places(length, places)
        return self._one.score(int(length), places, grades)

    @staticmethod
    def _check_places(length: int, places: Sequence[Any]) -> None:
        before = -1
        for place in places:
            if type(place) is not int or not before < place < length:
                checks.check_place(place, length)
                if place == before:
                    raise MetricError(f"position: got {place} twice; allowed is one grade per position")
            before = place

    def values(self, row: Sequence[int] | Ints) -> dict[str, float]:
        """The values of one list from its row of columns, by metric name. `item_hit_rate` of an empty list has none and is absent.

        >>> scorer = Scorer(["hit_rate@5", "item_hit_rate@5"])
        >>> scorer.values(scorer.score_list([]))
        {'hit_rate@5': 0.0}
        """
        if len(row) != len(self.columns):
            raise MetricError(f"row: got {len(row)} columns; allowed are {len(self.columns)}, as in `columns`")
        return {label: int(row[top]) / below for label, top, below in self._denominators(row) if below}

    def _denominators(self, row: Sequence[int] | Ints) -> Iterable[tuple[str, int, int]]:
        for label, at, column in self._labelled:
            yield label, at, int(row[at + 1]) if column.kind == "hits" else 1 << column.scale_bits


def _labelled(metrics: Iterable[Metric], columns: Sequence[Column]) -> list[tuple[str, int, Column]]:
    """Each metric's label and its first column."""
    first = {column.metric: (at, column) for at, column in reversed(list(enumerate(columns)))}
    return [(str(metric), *first[metric]) for metric in metrics]
