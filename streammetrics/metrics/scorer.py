"""The public scorer: checks lists, scores them, and returns integer columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.metrics import checks
from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.kernel.blocks import Block, Blocks, UnseenGrades
from streammetrics.metrics.kernel.formulas import columns_of_facts
from streammetrics.metrics.names import Column, Metric, MetricError
from streammetrics.metrics.plan import compile_plan
from streammetrics.metrics.spec import Spec

UnseenItems: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike]
Grades: TypeAlias = Sequence[float] | npt.NDArray[Any]


class Scorer:
    """Scores ranked lists under several metrics at once, in exact integers.

    metrics: names such as `ndcg@10`, or Metric values. Each may appear once; `columns` follow their order.
    spec: the definitions on which libraries disagree; see Spec.
    items_max: the longest accepted list (1..4194304), and the most graded items of one list. The default is 1000000, or 16384
        if a metric has no cut-off.
    grade_max: the largest accepted grade. The default is the largest whole grade for which no sum over a list can overflow
        (15 for exp2 gains at k = 20, 37234 for linear gains). A gain table and `err_grade_max` lower it.

    Each method returns int64 (or int) columns: one per metric, and two (hits, places) for `item_hit_rate`. Divide a column by
    2**scale_bits, or read a row with `values`. All methods give the same integers for the same list. They raise MetricError for
    invalid input; the message names the rule, the place and the value. An empty list scores 0. A list may be shorter than k.

    A grade is rounded to a multiple of 2**-40, and a DCG is kept to 2**-44. Values are correct to 1e-12 for whole grades, and for
    fractions down to about 0.1. Scale up grades below 0.001.

    `METRICS` of `metrics/records.py` says what each metric is, and the README has their formulas and sources.

    >>> scorer = Scorer(["ndcg@3", "mrr@3", "item_hit_rate@3"])
    >>> scorer.values(scorer.score_list([0, 1, 0, 1]))
    {'ndcg@3': 0.38685280723439064, 'mrr@3': 0.5, 'item_hit_rate@3': 0.3333333333333333}
    """

    def __init__(
        self,
        metrics: Iterable[str | Metric],
        spec: Spec | None = None,
        *,
        items_max: int | None = None,
        grade_max: float | None = None,
    ) -> None:
        self._plan = compile_plan(metrics, spec or Spec(), items_max, grade_max)
        self._blocks = Blocks(self._plan)
        self.metrics: tuple[Metric, ...] = self._plan.metrics
        self.columns: tuple[Column, ...] = self._plan.columns
        self.spec: Spec = self._plan.spec
        self.items_max: int = self._plan.items_max
        self.grade_max: float = self._plan.grade_max
        self._labelled = _labelled(self.metrics, self.columns)

    def score_hits(
        self,
        lengths: npt.ArrayLike,
        rows: npt.ArrayLike,
        positions: npt.ArrayLike,
        grades: npt.ArrayLike,
        unseen: UnseenItems | None = None,
    ) -> Ints:
        """Score lists from their graded items only.

        lengths: integers, shape (L,): the number of items in each list.
        rows, positions, grades: shape (H,), in any order. Hit h is the item of list rows[h] at position positions[h] (from 0). All
            other items have grade 0. A position may be given once per list.
        unseen: (rows, grades), shape (U,) each, in any order: relevant items that a list did not show. They count in R and in the
            ideal (see Spec). Every method takes them.
        Returns int64, shape (L, columns). Time and memory grow with L + H, not with the lengths.

        >>> Scorer(["precision@2", "item_hit_rate@2"]).score_hits([1000, 1], rows=[0], positions=[1], grades=[3])
        array([[549755813888,            1,            2],
               [           0,            0,            1]])
        """
        count, blocks = self.blocks_of_hits(lengths, rows, positions, grades, unseen)
        return self._columns(count, blocks)

    def score_ragged(self, grades: npt.ArrayLike, offsets: npt.ArrayLike, unseen: UnseenItems | None = None) -> Ints:
        """Score concatenated lists: list i has the grades[offsets[i]:offsets[i + 1]], in rank order.

        grades: numbers, shape (N,). offsets: integers, shape (L + 1,), ascending from 0 to N.
        unseen: see `score_hits`. Returns int64, shape (L, columns).

        >>> Scorer(["dcg@5"]).score_ragged([3, 2, 3, 0, 1, 0.5], [0, 5, 5, 6]) / 2**32
        array([[6.14871231],
               [0.        ],
               [0.5       ]])
        >>> Scorer(["recall@5"]).score_ragged([0, 1], [0, 2], unseen=([0, 0], [1, 2])) / 2**40
        array([[0.33333333]])
        """
        flat, ends = checks.numbers("grades", grades), checks.whole_numbers("offsets", offsets)
        checks.check_offsets(ends, flat.size)
        checks.check_lengths(np.diff(ends), self.items_max)
        return self._columns(ends.size - 1, self._blocks.of_ragged(flat, ends, self._unseen(unseen, ends.size - 1)))

    def blocks_of_hits(
        self,
        lengths: npt.ArrayLike,
        rows: npt.ArrayLike,
        positions: npt.ArrayLike,
        grades: npt.ArrayLike,
        unseen: UnseenItems | None = None,
    ) -> tuple[int, Iterator[Block]]:
        """The number of lists, and their facts block by block. Takes the arguments of `score_hits`."""
        sizes = checks.whole_numbers("lengths", lengths)
        at_rows, at_positions = checks.whole_numbers("rows", rows), checks.whole_numbers("positions", positions)
        numbers = checks.numbers("grades", grades)
        checks.check_lengths(sizes, self.items_max)
        checks.check_hits(sizes, at_rows, at_positions, numbers)
        return sizes.size, self._blocks.of_hits(sizes, at_rows, at_positions, numbers, self._unseen(unseen, sizes.size))

    def _unseen(self, unseen: UnseenItems | None, lists: int) -> UnseenGrades:
        if unseen is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        rows, grades = checks.check_unseen(unseen, lists)
        checks.check_grades(grades, rows, None, self._plan)
        order = np.argsort(rows, kind="stable")
        return rows[order], grades[order]

    def _columns(self, count: int, blocks: Iterable[Block]) -> Ints:
        out = np.empty((count, len(self.columns)), dtype=np.int64)
        for first, facts in blocks:
            out[first : first + facts.lengths.size] = columns_of_facts(facts).T
        return out

    def score_list(self, grades: Grades, unseen: Grades = ()) -> tuple[int, ...]:
        """Score one list. Returns one int per column, equal to its row in a batch.

        grades: a sequence of numbers in rank order; a pandas Series is read by position, not by its index.
        unseen: the grades of relevant items that were not shown.

        A call costs about 0.1 ms whatever the length. Collect lists and use `score_ragged` where speed matters.

        >>> Scorer(["mrr@2", "mrr@3"]).score_list([0, 0, 1])
        (0, 366503875925)
        """
        items, hidden = checks.in_order("grades", grades), checks.in_order("unseen", unseen)
        checks.check_length(len(items), self.items_max)
        places = [place for place, grade in enumerate(items) if grade != 0]
        listed = [items[place] for place in places]
        checks.check_one_unseen(len(places), len(hidden), self.items_max)
        for grade in (*listed, *hidden):  # one by one, because numpy would name a dtype instead of the bad grade
            checks.check_grade(grade, self._plan)
        blocks = self._blocks.of_hits(
            np.array([len(items)], dtype=np.int64),
            np.zeros(len(places), dtype=np.int64),
            np.array(places, dtype=np.int64),
            np.array(listed, dtype=np.float64),
            (np.zeros(len(hidden), dtype=np.int64), np.array(hidden, dtype=np.float64)),
        )
        return tuple(self._columns(1, blocks)[0].tolist())

    def values(self, row: Sequence[int] | Ints) -> dict[str, float]:
        """The values of one list by metric name, from its row of columns.

        `item_hit_rate` of an empty list is undefined and left out. Raises MetricError for a row of another width.

        >>> scorer = Scorer(["hit_rate@5", "item_hit_rate@5"])
        >>> scorer.values(scorer.score_list([]))
        {'hit_rate@5': 0.0}
        """
        if len(row) != len(self.columns):
            raise MetricError("row", f"got {len(row)} columns; allowed are {len(self.columns)}, as in `columns`")
        return {label: int(row[top]) / below for label, top, below in self._denominators(row) if below}

    def _denominators(self, row: Sequence[int] | Ints) -> Iterable[tuple[str, int, int]]:
        for label, at, column in self._labelled:
            yield label, at, int(row[at + 1]) if column.kind == "hits" else 1 << column.scale_bits


def _labelled(metrics: Iterable[Metric], columns: Sequence[Column]) -> list[tuple[str, int, Column]]:
    """The label of each metric, the index of its first column, and that column."""
    first = {column.metric: (at, column) for at, column in reversed(list(enumerate(columns)))}
    return [(str(metric), *first[metric]) for metric in metrics]
