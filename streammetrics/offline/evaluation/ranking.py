"""Ranks items by score, and finds the position of each judged item. No metric formulas, no files."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from streammetrics.metrics.arrays import Floats, Ints, Numbers
from streammetrics.metrics.names import MetricError
from streammetrics.offline.evaluation.numbers import GRADE_END, GRADES_ALLOWED, format_number

TieRule: TypeAlias = Literal["order", "trec_eval", "error"]
NegativeGrades: TypeAlias = Literal["error", "zero"]
Items: TypeAlias = Sequence[Hashable]

NOT_SHOWN: Final = -1
"""Stands for the position of a judged item that its list does not show."""

TIE_RULES: Final = get_args(TieRule)


@dataclass(frozen=True, slots=True)
class ItemLists:
    """Concatenated lists of items: list i has the items[offsets[i]:offsets[i + 1]].

    scores: shape (N,), higher scores rank first; None if items are in rank order. Integers are compared exactly.
    items: item ids, or None if only grades are known.
    """

    lists: Sequence[Hashable]
    offsets: Ints
    items: Items | None
    scores: Numbers | None

    def rows(self) -> Ints:
        """The list of each item, shape (N,)."""
        return np.repeat(np.arange(len(self.lists), dtype=np.int64), np.diff(self.offsets))

    def place(self, at: int) -> str:
        """The item (or position) and list of index `at`, for messages."""
        row = int(np.searchsorted(self.offsets, at, side="right")) - 1
        item = f"item {self.items[at]!r}" if self.items is not None else f"position {at - int(self.offsets[row])}"
        return f"{item} of list {self.lists[row]!r}"


def rank(item_lists: ItemLists, ties: TieRule) -> Ints:
    """The position (from 0) of each item in its list by falling score, shape (N,). For ties see `from_run`.

    Raises MetricError for a NaN score, an unknown rule, ties under `error`, and the rule of trec_eval without item ids.
    """
    if ties not in TIE_RULES:
        raise MetricError("ties", f"got {ties!r}; allowed are {', '.join(TIE_RULES)}")
    rows = item_lists.rows()
    starts = item_lists.offsets[rows]
    if item_lists.scores is None:
        return np.arange(rows.size, dtype=np.int64) - starts
    scores = _scores(item_lists, ties)
    order = _falling(scores, rows)
    sorted_scores = scores[order]
    equal = np.flatnonzero((sorted_scores[1:] == sorted_scores[:-1]) & (rows[1:] == rows[:-1]))
    if equal.size and ties == "error":
        one, other = (item_lists.place(int(order[equal[0] + step])) for step in (0, 1))
        raise MetricError(
            "score", f"got {format_number(sorted_scores[equal[0]])} for {one} and for {other}; allowed are no ties, or another tie rule"
        )
    if ties == "trec_eval":
        _greatest_id_first(item_lists, order, equal)
    positions = np.empty_like(order)
    positions[order] = np.arange(rows.size, dtype=np.int64) - starts
    return positions


def _scores(item_lists: ItemLists, ties: TieRule) -> Numbers:
    scores = np.asarray(item_lists.scores)
    unusable = np.flatnonzero(np.isnan(scores))
    if unusable.size:
        raise MetricError("score", f"got nan for {item_lists.place(int(unusable[0]))}; allowed are numbers, infinite ones too")
    if ties != "trec_eval":
        return scores
    if item_lists.items is None:
        raise MetricError("ties", f"got {ties!r} for items without ids; allowed are order, error")
    return scores.astype(np.float64)


def _falling(scores: Numbers, rows: Ints) -> Ints:
    """Indices by list, then falling score; equal scores keep their order. Sorted input, the usual case, is not sorted again."""
    if ((scores[1:] <= scores[:-1]) | (rows[1:] != rows[:-1])).all():
        return np.arange(rows.size, dtype=np.int64)
    if scores.dtype.kind == "f" and scores.dtype.itemsize <= 8:
        keys = np.empty(rows.size, dtype=np.complex128)  # ordered by list, then score: one sort, several times faster than lexsort
        keys.real, keys.imag = rows, -scores
        return np.argsort(keys, kind="stable").astype(np.int64, copy=False)
    falling = -scores if scores.dtype.kind == "f" else ~scores  # -x overflows for the lowest integer
    return np.lexsort((falling, rows)).astype(np.int64, copy=False)


def _runs(equal: Ints) -> Iterator[tuple[int, int]]:
    """Start and end of each group of ties, from the indices whose successor is equal."""
    if equal.size:
        breaks = np.flatnonzero(np.diff(equal) > 1)
        yield from zip(
            equal[np.concatenate(([0], breaks + 1))].tolist(), (equal[np.concatenate((breaks, [equal.size - 1]))] + 2).tolist(), strict=True
        )


def _greatest_id_first(item_lists: ItemLists, order: Ints, equal: Ints) -> None:
    items: Any = item_lists.items
    for begin, end in _runs(equal):
        order[begin:end] = sorted(order[begin:end].tolist(), key=lambda at: str(items[at]), reverse=True)


class GradedItems(NamedTuple):
    """The items with a grade above 0: shown (rows, positions, grades) and unseen (unseen_rows, unseen_grades)."""

    rows: Ints
    positions: Ints
    grades: Floats
    unseen_rows: Ints
    unseen_grades: Floats


def find(item_lists: ItemLists, positions: Ints, judgments: Sequence[Mapping[Any, float]], negative: NegativeGrades) -> GradedItems:
    """Find the position of each judged item. `judgments` has one mapping of item -> grade per list. Negative grades mean: not judged.

    Raises MetricError for an item that a list shows twice, and for a grade that is not a number in 0 <= grade < 2**53. With
    negative="zero", finite negative grades count as 0.
    """
    assert item_lists.items is not None
    offsets, ranks = item_lists.offsets.tolist(), positions.tolist()
    judged_places: list[int] = []
    for row, judged in enumerate(judgments):
        begin, end = offsets[row], offsets[row + 1]
        judged_places += map(_places(item_lists.items[begin:end], ranks[begin:end], item_lists.lists[row]).get, judged, repeat(NOT_SHOWN))
    rows = np.repeat(np.arange(len(judgments)), np.fromiter(map(len, judgments), dtype=np.int64, count=len(judgments)))
    places, grades = np.array(judged_places, dtype=np.int64), _grades(judgments, negative, item_lists.lists)
    hits, hidden = (places != NOT_SHOWN) & (grades > 0), (places == NOT_SHOWN) & (grades > 0)
    return GradedItems(rows[hits], places[hits], grades[hits], rows[hidden], grades[hidden])


def _places(items: Items, ranks: Sequence[int], list_id: Hashable) -> dict[Hashable, int]:
    """Return the position of each item of a list."""
    try:
        place_of = dict(zip(items, ranks, strict=True))
    except TypeError as error:
        raise MetricError("item", f"{error} in list {list_id!r}; allowed are hashable ids") from None
    if len(place_of) < len(items):
        raise MetricError("item", f"got {_repeated(items)!r} twice in list {list_id!r}; allowed is once")
    return place_of


def _repeated(items: Items) -> Hashable:
    seen: set[Hashable] = set()
    return next(item for item in items if item in seen or seen.add(item))  # type: ignore[func-returns-value]


def _grades(judgments: Sequence[Mapping[Any, float]], negative: NegativeGrades, lists: Sequence[Hashable]) -> Floats:
    """The grades of all judgments, one after the other, as float64. Those below 0 mean: not judged."""
    values = list(chain.from_iterable(judged.values() for judged in judgments))
    try:
        given = np.array(values)
    except ValueError:  # sequences among the grades
        given = np.array(None)
    if given.dtype.kind in "biuf" and given.ndim == 1:
        grades = given.astype(np.float64)
        if ((grades > -np.inf) & (grades < GRADE_END)).all() and (negative == "zero" or (grades >= 0).all()):
            return grades
    checked = (_grade(grade, negative, item, name) for judged, name in zip(judgments, lists, strict=True) for item, grade in judged.items())
    return np.fromiter(checked, dtype=np.float64, count=len(values))


def _grade(given: object, negative: NegativeGrades, item: Hashable, list_id: Hashable) -> float:
    if isinstance(given, int | float | np.integer | np.floating | np.bool_) and -math.inf < given < GRADE_END:
        if given >= 0:
            return float(given)
        if negative == "zero":
            return -1.0
    allowed = GRADES_ALLOWED if negative == "error" else "allowed are finite numbers < 2**53"
    raise MetricError("grade", f"got {given!r} for item {item!r} of list {list_id!r}; {allowed}")
