"""Rules for inputs. Each broken rule is a MetricError that names the rule, the place and the value; nothing is repaired silently."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streammetrics.metrics.names import MetricError
from streammetrics.metrics.units import Floats, Ints

AnyArray = npt.NDArray[Any]


def whole_numbers(name: str, values: npt.ArrayLike) -> Ints:
    """A one-dimensional array of whole numbers as int64; an empty one may have any dtype."""
    array = _one_dimension(name, values)
    if array.size and array.dtype.kind not in "iu":
        raise MetricError(f"{name}: got dtype {array.dtype}; allowed are whole numbers")
    return array.astype(np.int64, copy=False)


def numbers(name: str, values: npt.ArrayLike) -> AnyArray:
    """A one-dimensional array of numbers, in its own dtype."""
    array = _one_dimension(name, values)
    _require_numeric(name, array)
    return array


def matrix(name: str, values: npt.ArrayLike) -> AnyArray:
    """A two-dimensional array of numbers, in its own dtype."""
    array = _as_array(name, values)
    if array.ndim != 2:
        raise MetricError(f"{name}: got {array.ndim} dimensions; allowed are 2 (lists, ranks)")
    _require_numeric(name, array)
    return array


def _as_array(name: str, values: npt.ArrayLike) -> AnyArray:
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise MetricError(f"{name}: got {type(values).__name__} that is no array ({error}); allowed is an array of numbers") from None


def _one_dimension(name: str, values: npt.ArrayLike) -> AnyArray:
    array = _as_array(name, values)
    if array.ndim != 1:
        raise MetricError(f"{name}: got {array.ndim} dimensions; allowed is 1")
    return array


def _require_numeric(name: str, array: AnyArray) -> None:
    if array.size and array.dtype.kind not in "biuf":
        raise MetricError(f"{name}: got dtype {array.dtype}; allowed are real numbers")


def check_grade(grade: object, grade_max: float) -> None:
    """One grade: a finite number in 0..grade_max."""
    number = isinstance(grade, int | float | np.integer | np.floating | np.bool_)
    if not number or not 0 <= grade <= grade_max:  # type: ignore[operator]
        raise MetricError(f"grade: got {grade!r}; {_allowed_grades(grade_max)}")


def check_grades(grades: AnyArray, rows: Ints, positions: Ints, grade_max: float) -> Floats:
    """Every grade is finite and in 0..grade_max; returns them as doubles."""
    doubles = grades.astype(np.float64, copy=False)
    if doubles.size == 0:
        return doubles
    with np.errstate(invalid="ignore"):
        fine = doubles.min() >= 0 and doubles.max() <= grade_max
    if not fine:
        hit = int(np.flatnonzero(~((doubles >= 0) & (doubles <= grade_max)))[0])
        place = f"list {rows[hit]}, position {positions[hit]}"
        raise MetricError(f"grade: got {doubles[hit]:g} at {place}; {_allowed_grades(grade_max)}")
    return doubles


def _allowed_grades(grade_max: float) -> str:
    return f"allowed are finite numbers 0..{grade_max:g} (grade_max)"


def check_lengths(lengths: Ints, items_max: int) -> None:
    """Every list has 0..items_max items."""
    if lengths.size and not (lengths.min() >= 0 and lengths.max() <= items_max):
        row = int(np.flatnonzero((lengths < 0) | (lengths > items_max))[0])
        raise MetricError(f"length: got {lengths[row]} at list {row}; {_allowed_lengths(items_max)}")


def check_length(length: object, items_max: int) -> None:
    """One length: a whole number in 0..items_max."""
    if not isinstance(length, int | np.integer) or not 0 <= length <= items_max:
        raise MetricError(f"length: got {length!r}; {_allowed_lengths(items_max)}")


def _allowed_lengths(items_max: int) -> str:
    return f"allowed are whole numbers 0..{items_max} (items_max)"


def check_hits(lengths: Ints, rows: Ints, positions: Ints, grades: AnyArray) -> None:
    """Hits are parallel arrays, each row names a list, each position lies in its list."""
    if not rows.size == positions.size == grades.size:
        raise MetricError(f"hits: got {rows.size} rows, {positions.size} positions, {grades.size} grades; allowed are equal sizes")
    if rows.size == 0:
        return
    if not (rows.min() >= 0 and rows.max() < lengths.size):
        hit = int(np.flatnonzero((rows < 0) | (rows >= lengths.size))[0])
        raise MetricError(f"row: got {rows[hit]} at hit {hit}; allowed are 0..{lengths.size - 1}, one of {lengths.size} lists")
    if positions.min() < 0 or (positions >= lengths[rows]).any():
        hit = int(np.flatnonzero((positions < 0) | (positions >= lengths[rows]))[0])
        length = lengths[rows[hit]]
        raise MetricError(f"position: got {positions[hit]} at hit {hit} of list {rows[hit]}; allowed are 0 <= position < {length}")


def check_no_repeats(keys: Ints, rows: Ints, positions: Ints) -> None:
    """No place is graded twice; `keys` ascend and are equal exactly where list and position are."""
    same = np.flatnonzero(keys[1:] == keys[:-1])
    if same.size:
        hit = int(same[0])
        raise MetricError(f"position: got {positions[hit]} twice in list {rows[hit]}; allowed is one grade per position")


def check_place(place: object, length: int) -> None:
    """One position: a whole number in 0..length - 1."""
    if not isinstance(place, int | np.integer) or not 0 <= place < length:
        raise MetricError(f"position: got {place!r}; allowed are whole numbers 0 <= position < {length}")


def check_offsets(offsets: Ints, size: int) -> None:
    """Offsets start at 0, never fall and end at the number of grades."""
    if offsets.size == 0:
        raise MetricError("offsets: got none; allowed are one more than there are lists, starting with 0")
    if offsets[0] != 0 or offsets[-1] != size:
        raise MetricError(f"offsets: got {offsets[0]}..{offsets[-1]}; allowed is a start of 0 and an end of {size}, the number of grades")
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if falls.size:
        index = int(falls[0]) + 1
        raise MetricError(f"offsets: got {offsets[index]} after {offsets[index - 1]} at index {index}; allowed are numbers that never fall")
