"""Reads lists of grades, from dicts, sequences and arrays. Item ids are not needed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from streammetrics.metrics import checks
from streammetrics.metrics.arrays import Floats, Ints, Numbers
from streammetrics.metrics.names import MetricError
from streammetrics.offline.evaluation.judged import NO_GRADES, NO_INTS, JudgedLists, Users, build_judged
from streammetrics.offline.evaluation.numbers import (
    GRADE_END,
    GRADES_ALLOWED,
    comparable,
    of_values,
    offsets_of,
    require_not_rounded,
    require_sized,
    with_list_ids,
)
from streammetrics.offline.evaluation.ranking import GradedItems, ItemLists, TieRule, rank


def from_grades(
    grades: Mapping[Any, Sequence[float]] | Sequence[Sequence[float]],
    *,
    scores: Mapping[Any, Sequence[float]] | Sequence[Sequence[float]] | None = None,
    ties: TieRule = "order",
    users: Users | None = None,
) -> JudgedLists:
    """Read the grades of the shown items of each list.

    grades: list id -> grades; or a sequence of such lists, with ids 0, 1, ...
    scores: one number per grade, in the same shape; higher scores rank first. Without scores, grades are in rank order.
    ties: see `from_run`. `trec_eval` is rejected, because there are no item ids.

    Raises MetricError that names the list and the position.

    >>> from_grades([[0, 3, 1], []]).positions
    array([1, 2])
    >>> from_grades([[0, 3]], scores=[[0.1, 0.2]]).positions
    array([0])
    """
    by_list = with_list_ids(grades)
    offsets = offsets_of(len(require_sized("grades", one, name)) for name, one in by_list.items())
    flat = list(chain.from_iterable(by_list.values()))
    numbers = of_values("grade", flat, ItemLists(tuple(by_list), offsets, None, None).place)
    if scores is None:
        return from_ragged(numbers, offsets, lists=tuple(by_list), users=users)
    scores_of = with_list_ids(scores)
    for name, one in by_list.items():
        if name not in scores_of or len(require_sized("scores", scores_of[name], name)) != len(one):
            got = len(scores_of[name]) if name in scores_of else "no"
            raise MetricError("scores", f"got {got} numbers for list {name!r}; allowed are {len(one)}, one per grade")
    ranking = list(chain.from_iterable(scores_of[name] for name in by_list))
    score_numbers = of_values("score", ranking, ItemLists(tuple(by_list), offsets, None, None).place)
    return from_ragged(numbers, offsets, scores=score_numbers, ties=ties, lists=tuple(by_list), users=users)


def from_ragged(
    grades: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    scores: npt.ArrayLike | None = None,
    ties: TieRule = "order",
    lists: Sequence[Hashable] | None = None,
    users: Users | None = None,
    unseen: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> JudgedLists:
    """Read concatenated lists: list i has the grades[offsets[i]:offsets[i + 1]].

    grades, scores: numbers, shape (N,). Without scores, grades are in rank order. offsets: integers, shape (L + 1,), ascending
        from 0 to N.
    lists: L ids, by default 0, 1, ... ties: see `from_grades`. users: see `from_run`.
    unseen: (rows, grades), shape (U,) each: relevant items that a list did not show.

    Raises MetricError that names the list and the position.

    >>> from_ragged([0, 1, 2], [0, 2, 3], unseen=([1], [4])).lengths
    array([2, 1])
    """
    flat, borders = checks.numbers("grades", grades), checks.whole_numbers("offsets", offsets)
    checks.check_offsets(borders, flat.size)
    names = _list_ids(lists, borders.size - 1)
    numbers = None if scores is None else _ranking(scores, checks.numbers("scores", scores))
    if numbers is not None and numbers.size != flat.size:
        raise MetricError("scores", f"got {numbers.size}; allowed are {flat.size}, one per grade")
    item_lists = ItemLists(names, borders, None, numbers)
    doubles = flat.astype(np.float64)
    _require_grades(doubles, item_lists)
    positions = rank(item_lists, ties)
    hits = np.flatnonzero(doubles)
    unseen_rows, unseen_grades = _unseen(unseen, len(names))
    graded = GradedItems(item_lists.rows()[hits], positions[hits], doubles[hits], unseen_rows, unseen_grades)
    return build_judged(item_lists, graded, users)


def from_padded(
    grades: npt.ArrayLike,
    *,
    scores: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
    ties: TieRule = "order",
    lists: Sequence[Hashable] | None = None,
    users: Users | None = None,
) -> JudgedLists:
    """Read matrices with one list per row, as in scikit-learn: `from_padded(y_true, scores=y_score)`.

    grades, scores: numbers, shape (L, width). lengths: integers 0..width, shape (L,); cells beyond a length are never read.
    Other arguments: see `from_ragged`. Raises MetricError that names the list and the position.

    >>> from_padded([[0, 1], [2, 0]], scores=[[0.1, 0.9], [0.2, 0.8]]).positions
    array([0, 1])
    """
    cells = checks.matrix("grades", grades)
    count, width = cells.shape
    sizes = np.full(count, width, dtype=np.int64) if lengths is None else checks.whole_numbers("lengths", lengths)
    if sizes.size != count:
        raise MetricError("lengths", f"got {sizes.size}; allowed are {count}, one per row")
    checks.check_lengths(sizes, width)
    inside = np.arange(width) < sizes[:, None]
    ranking = None
    if scores is not None:
        ranking = _ranking(scores, checks.matrix("scores", scores))
        if ranking.shape != cells.shape:
            raise MetricError("scores", f"got shape {ranking.shape}; allowed is {cells.shape}, that of the grades")
        ranking = ranking[inside]
    return from_ragged(cells[inside], offsets_of(sizes.tolist()), scores=ranking, ties=ties, lists=lists, users=users)


def _require_grades(grades: Floats, item_lists: ItemLists) -> None:
    with np.errstate(invalid="ignore"):
        unusable = np.flatnonzero(~((grades >= 0) & (grades < GRADE_END)))
    if unusable.size:
        at = int(unusable[0])
        raise MetricError("grade", f"got {grades[at]:g} at {item_lists.place(at)}; {GRADES_ALLOWED}")


def _list_ids(lists: Sequence[Hashable] | None, count: int) -> Sequence[Hashable]:
    if lists is None:
        return range(count)
    names: list[Hashable] = lists.tolist() if isinstance(lists, np.ndarray) else list(lists)
    if len(names) != count:
        raise MetricError("lists", f"got {len(names)} ids; allowed are {count}, one per list")
    for name in names:
        if not isinstance(name, Hashable):
            raise MetricError("lists", f"got id {name!r}; allowed are hashable ids")
    if len(set(names)) < count:
        seen: set[Hashable] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise MetricError("lists", f"got id {twice!r} twice; allowed is each id once")
    return names


def _ranking(given: npt.ArrayLike, scores: Numbers) -> Numbers:
    """Scores as comparable numbers; rejects integers that numpy rounded to floats."""
    require_not_rounded("score", given, scores, lambda at: f"index {at}")
    return comparable(scores)


def _unseen(unseen: tuple[npt.ArrayLike, npt.ArrayLike] | None, count: int) -> tuple[Ints, Floats]:
    if unseen is None:
        return NO_INTS, NO_GRADES
    rows, grades = checks.whole_numbers("unseen rows", unseen[0]), checks.numbers("unseen grades", unseen[1]).astype(np.float64)
    if rows.size != grades.size:
        raise MetricError("unseen", f"got {rows.size} rows and {grades.size} grades; allowed are equal sizes")
    wrong = np.flatnonzero((rows < 0) | (rows >= count) | ~((grades >= 0) & (grades < GRADE_END)))
    if wrong.size:
        at = int(wrong[0])
        raise MetricError(
            "unseen", f"got row {rows[at]}, grade {grades[at]:g} at index {at}; allowed are rows 0..{count - 1}, grades 0 <= grade < 2**53"
        )
    kept = grades > 0
    return rows[kept], grades[kept]
