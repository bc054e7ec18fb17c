"""Converts grades and scores to arrays without rounding, and lists to ids, sizes and offsets. Other values raise a MetricError that names
the place."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streammetrics.metrics.arrays import Ints, Numbers
from streammetrics.metrics.names import MetricError

GRADE_END: Final = 2.0**53
"""All grades are below this number. The limit of a scorer is much lower."""

GRADES_ALLOWED: Final = "allowed are numbers 0 <= grade < 2**53"

_WHOLE_END: Final = 1 << 1023
"""Integers of this size and beyond are rejected, because they may be too large for a double."""


def format_number(number: Any) -> str:
    """A number for messages; integers with all digits."""
    return str(number) if isinstance(number, np.integer) else f"{number:g}"


def comparable(numbers: Numbers) -> Numbers:
    """Numbers that can be compared: integers and floats in their own dtype, booleans as float64."""
    return numbers if numbers.dtype.kind in "iuf" else numbers.astype(np.float64)


def of_values(what: str, values: list[Any], place: Callable[[int], str]) -> Numbers:
    """Python numbers as an array. Rejects other values (text, None), and scores that would be rounded."""
    array = _array(values)
    if array is None:
        for at, value in enumerate(values):
            if not isinstance(value, int | float | np.number | np.bool_):
                raise MetricError(what, f"got {value!r} at {place(at)}; allowed are numbers")
            require_in_range(what, value, place(at))
        array = np.array([float(value) for value in values])
    if what == "score":
        require_not_rounded(what, values, array, place)
    return array


def _array(values: list[Any]) -> Numbers | None:
    """The values as a numeric array, or None if they are not all numbers."""
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        return None
    return comparable(array) if array.ndim == 1 and (array.dtype.kind in "biuf" or not values) else None


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or NA or NaT of pandas. These are recognised by name, because pandas is not imported."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value))


def require_in_range(what: str, value: Any, place: str) -> None:
    """Raise MetricError for an integer that may be too large for a double."""
    if isinstance(value, int) and not -_WHOLE_END < value < _WHOLE_END:
        raise MetricError(
            what, f"got a whole number of {value.bit_length()} bits at {place}; allowed are numbers, whole ones below 2**1023"
        )


def require_not_rounded(what: str, given: npt.ArrayLike, numbers: Numbers, place: Callable[[int], str]) -> None:
    """Raise MetricError for an integer that changed when `given` became the float array `numbers`."""
    if numbers.dtype.kind != "f" or getattr(given, "dtype", None) not in (None, np.dtype(object)):
        return
    flat = numbers.ravel()
    large = np.flatnonzero(np.isfinite(flat) & (np.abs(flat) >= GRADE_END)).tolist()
    values = np.asarray(given, dtype=object).ravel() if large else ()
    for at in large:
        if isinstance(values[at], int | np.integer) and int(values[at]) != int(flat[at]):
            allowed = "allowed beyond 2**53 are whole numbers that a double holds, or whole numbers of 64 bits only"
            raise MetricError(what, f"got {values[at]} at {place(at)}, which a double does not hold; {allowed}")


def with_list_ids(lists: Mapping[Any, Any] | Sequence[Any]) -> Mapping[Any, Any]:
    """Return lists by id. Those of a sequence get the ids 0, 1, ... Raises MetricError for anything else."""
    if isinstance(lists, str | bytes) or not hasattr(lists, "__len__"):
        raise MetricError("lists", f"got {lists!r}; allowed is a mapping by list id, or a sequence of lists")
    return lists if isinstance(lists, Mapping) else dict(enumerate(lists))


def require_sized(what: str, values: Any, name: Hashable) -> Any:
    """Return the values of a list, which must have a length. Raises MetricError that names the list."""
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise MetricError(what, f"got {values!r} for list {name!r}; allowed is a sequence")
    return values


def offsets_of(lengths: Iterable[int]) -> Ints:
    """Return the offsets of concatenated lists: int64, shape (L + 1,)."""
    return np.cumsum([0, *lengths], dtype=np.int64)
