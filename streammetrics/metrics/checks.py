"""Input checks. Invalid input raises a MetricError that names the rule, the value and the place; nothing is corrected silently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streammetrics.metrics.arrays import AnyArray, Floats, Ints
from streammetrics.metrics.names import MetricError
from streammetrics.metrics.plan import ScoringPlan


def whole_numbers(name: str, values: npt.ArrayLike) -> Ints:
    """A one-dimensional integer array as int64. An empty array may have any dtype."""
    array = _one_dimension(name, values)
    if array.size and array.dtype.kind not in "iu":
        raise MetricError(name, f"got dtype {array.dtype}; allowed are whole numbers")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise MetricError(name, f"got {array.max()} at index {array.argmax()}; allowed are whole numbers that fit int64")
    return array.astype(np.int64, copy=False)


def numbers(name: str, values: npt.ArrayLike) -> AnyArray:
    """A one-dimensional numeric array, in its own dtype."""
    array = _one_dimension(name, values)
    _require_numeric(name, array)
    return array


def matrix(name: str, values: npt.ArrayLike) -> AnyArray:
    """A two-dimensional numeric array, in its own dtype."""
    array = _as_array(name, values)
    if array.ndim != 2:
        raise MetricError(name, f"got {array.ndim} dimensions; allowed are 2 (lists, ranks)")
    _require_numeric(name, array)
    return array


def _as_array(name: str, values: npt.ArrayLike) -> AnyArray:
    if hasattr(values, "mask") and hasattr(values, "filled"):
        raise MetricError(name, "got a masked array; allowed is one without a mask, fill it first")
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise MetricError(name, f"got {type(values).__name__} that is no array ({error}); allowed is an array of numbers") from None


def _one_dimension(name: str, values: npt.ArrayLike) -> AnyArray:
    array = _as_array(name, values)
    if array.ndim != 1:
        raise MetricError(name, f"got {array.ndim} dimensions; allowed is 1")
    return array


def _require_numeric(name: str, array: AnyArray) -> None:
    if array.size and array.dtype.kind not in "biuf":
        raise MetricError(name, f"got dtype {array.dtype}; allowed are real numbers")


def check_grade(grade: object, plan: ScoringPlan) -> None:
    """Require one grade to be a finite number in 0..grade_max, and whole if gains are a table."""
    number = isinstance(grade, int | float | np.integer | np.floating | np.bool_)
    if not number or not 0 <= grade <= plan.grade_max:  # type: ignore[operator]
        raise MetricError("grade", f"got {grade!r}; {_allowed_grades(plan.grade_max)}")
    if plan.whole_grades_only and grade != int(grade):  # type: ignore[call-overload]
        raise MetricError("grade", f"got {grade!r}; {_allowed_whole(plan.grade_max)}")


def check_grades(grades: AnyArray, rows: Ints, positions: Ints | None, plan: ScoringPlan, first: int = 0) -> Floats:
    """Require all grades to be finite, in 0..grade_max, and whole if gains are a table. Returns them as float64.

    `rows` and `positions` (None for unseen items) locate the grades in messages; `first` is the number of the first list.
    """
    doubles = grades.astype(np.float64, copy=False)
    if doubles.size == 0:
        return doubles
    with np.errstate(invalid="ignore"):
        if not (doubles.min() >= 0 and doubles.max() <= plan.grade_max):
            bad = ~((doubles >= 0) & (doubles <= plan.grade_max))
            raise MetricError("grade", f"{_first_of(doubles, bad, rows, positions, first)}; {_allowed_grades(plan.grade_max)}")
    if plan.whole_grades_only and (doubles != np.floor(doubles)).any():
        bad = doubles != np.floor(doubles)
        raise MetricError("grade", f"{_first_of(doubles, bad, rows, positions, first)}; {_allowed_whole(plan.grade_max)}")
    return doubles


def _first_of(doubles: Floats, bad: AnyArray, rows: Ints, positions: Ints | None, first: int) -> str:
    """The first invalid grade and its place, for messages."""
    hit = int(np.flatnonzero(bad)[0])
    place = "never shown" if positions is None else f"position {positions[hit]}"
    return f"got {doubles[hit]:g} at list {first + rows[hit]}, {place}"


def _allowed_grades(grade_max: float) -> str:
    return f"allowed are finite numbers 0..{grade_max:g} (grade_max)"


def _allowed_whole(grade_max: float) -> str:
    return f"allowed are whole numbers 0..{grade_max:g}, because gains are a table"


def check_lengths(lengths: Ints, items_max: int) -> None:
    """Require every list to have 0..items_max items."""
    if lengths.size and not (lengths.min() >= 0 and lengths.max() <= items_max):
        row = int(np.flatnonzero((lengths < 0) | (lengths > items_max))[0])
        raise MetricError("length", f"got {lengths[row]} at list {row}; {_allowed_lengths(items_max)}")


def check_length(length: int, items_max: int) -> None:
    """Require one list to have at most items_max items."""
    if length > items_max:
        raise MetricError("length", f"got {length}; {_allowed_lengths(items_max)}")


def _allowed_lengths(items_max: int) -> str:
    return f"allowed are whole numbers 0..{items_max} (items_max)"


def check_hits(lengths: Ints, rows: Ints, positions: Ints, grades: AnyArray) -> None:
    """Require hits to be parallel arrays with rows that exist and positions inside their lists."""
    if not rows.size == positions.size == grades.size:
        raise MetricError("hits", f"got {rows.size} rows, {positions.size} positions, {grades.size} grades; allowed are equal sizes")
    if rows.size == 0:
        return
    if not (rows.min() >= 0 and rows.max() < lengths.size):
        hit = int(np.flatnonzero((rows < 0) | (rows >= lengths.size))[0])
        raise MetricError("row", f"got {rows[hit]} at hit {hit}; allowed are 0..{lengths.size - 1}, one of {lengths.size} lists")
    if positions.min() < 0 or (positions >= lengths[rows]).any():
        hit = int(np.flatnonzero((positions < 0) | (positions >= lengths[rows]))[0])
        length = lengths[rows[hit]]
        raise MetricError("position", f"got {positions[hit]} at hit {hit} of list {rows[hit]}; allowed are 0 <= position < {length}")


def check_no_repeats(keys: Ints, rows: Ints, positions: Ints) -> None:
    """Require each position to be graded once. `keys` ascend; two are equal if list and position are equal."""
    same = np.flatnonzero(keys[1:] == keys[:-1])
    if same.size:
        hit = int(same[0])
        raise MetricError("position", f"got {positions[hit]} twice in list {rows[hit]}; allowed is one grade per position")


def check_offsets(offsets: Ints, size: int) -> None:
    """Require offsets to ascend from 0 to the number of grades."""
    if offsets.size == 0:
        raise MetricError("offsets", "got none; allowed are one more than there are lists, starting with 0")
    if offsets[0] != 0 or offsets[-1] != size:
        raise MetricError("offsets", f"got {offsets[0]}..{offsets[-1]}; allowed is a start of 0 and an end of {size}, the number of grades")
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if falls.size:
        index = int(falls[0]) + 1
        raise MetricError(
            "offsets", f"got {offsets[index]} after {offsets[index - 1]} at index {index}; allowed are numbers that never fall"
        )


def check_graded(listed: Ints, unseen_rows: Ints, items_max: int, first: int) -> None:
    """Require every list to have at most items_max graded items, shown and unseen."""
    counts = listed + np.bincount(unseen_rows, minlength=listed.size)
    if counts.max() > items_max:
        row = int(np.argmax(counts))
        got = f"{counts[row]} graded items at list {first + row}, with those shown"
        raise MetricError("unseen", f"got {got}; allowed are {items_max} (items_max)")


def check_unseen(unseen: object, lists: int) -> tuple[Ints, AnyArray]:
    """Require unseen items to be two parallel arrays, rows and grades, with rows that exist."""
    if not isinstance(unseen, tuple) or len(unseen) != 2:
        raise MetricError("unseen", f"got {type(unseen).__name__}; allowed is a tuple of two arrays of equal size: rows and grades")
    rows, grades = whole_numbers("unseen rows", unseen[0]), numbers("unseen grades", unseen[1])
    if rows.size != grades.size:
        raise MetricError("unseen", f"got {rows.size} rows, {grades.size} grades; allowed are equal sizes")
    if rows.size and not (rows.min() >= 0 and rows.max() < lists):
        at = int(np.flatnonzero((rows < 0) | (rows >= lists))[0])
        raise MetricError("unseen row", f"got {rows[at]} at index {at}; allowed are 0..{lists - 1}, one of {lists} lists")
    return rows, grades


def check_one_unseen(listed: int, unseen: int, items_max: int) -> None:
    """Require one list to have at most items_max graded items, shown and unseen."""
    if listed + unseen > items_max:
        raise MetricError("unseen", f"got {listed + unseen} graded items, with those shown; allowed are {items_max} (items_max)")


def in_order(name: str, grades: Any) -> Sequence[float]:
    """Grades as a sequence in their order. A pandas Series is converted, because `series[i]` looks up its index, not a position."""
    if isinstance(grades, Sequence):
        return grades
    given = grades.tolist() if hasattr(grades, "tolist") else grades
    if not (isinstance(given, Iterable) and hasattr(given, "__getitem__")) or isinstance(given, Mapping):
        raise MetricError(name, f"got {type(grades).__name__}; allowed is a sequence of grades")
    return list(given)
