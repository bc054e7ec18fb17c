"""Values at paths -> fields of events: ids, labels, times, numbers and positions. Each function names the path and the value it refuses."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NoReturn

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events.fields import POSITION_MAX
from streammetrics.events.json_text import has_control, iso_ms
from streammetrics.events.malformed import malformed
from streammetrics.events.mappings.paths import Access, Get, Path, Scalar, is_field
from streammetrics.events.mappings.rules import Constant, FieldSource, Template, TimeUnit
from streammetrics.events.model import TS_MAX

_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?", re.ASCII)
WHOLE_MAX: Final = 2**53
"""Up to here a float has all whole numbers, so one that became a float is still the same."""
_EXPONENT_MAX = 30
"""Larger numbers are neither times nor values. The limit keeps exact arithmetic cheap."""

_FRACTIONS: Final = (float, Decimal)
_FACTORS: Final[dict[TimeUnit, tuple[int, int]]] = {"ms": (1, 1), "s": (1_000, 1), "us": (1, 1_000), "ns": (1, 1_000_000), "utc": (1, 1)}
_UNIT_NAMES: Final = {"ms": "milliseconds", "s": "seconds", "us": "microseconds", "ns": "nanoseconds", "utc": "milliseconds"}


ANY: Final = Scalar(0)
"""For plain access, which reads any value."""
NUMBER: Final = Scalar(64, has_whole=False, has_fraction=True)
POSITION: Final = Scalar(64, 0, POSITION_MAX)


def text_kind(chars_max: int) -> Scalar:
    """Return the values that can be an id or a label."""
    return Scalar(chars_max)


def time_kind(unit: TimeUnit) -> Scalar:
    """Return the values that can be a time."""
    return Scalar(64, 0, TS_MAX) if unit in ("ms", "utc") else Scalar(64, 0, is_exact=True)


def _is_usable(text: object, kind: Scalar) -> bool:
    return type(text) is str and 0 < len(text) <= (kind.text_max or 0) and text.isprintable()


def first_getter(source: FieldSource | None, access: Access, kind: Scalar) -> Get | None:
    """Return a function to the first alternative, if the parser checks it. None if it must be read alone."""
    if source is None or source.rename or not access.is_checked:
        return None
    first = source.alternatives[0]
    if isinstance(first, Path):
        return access.get(first, kind) if is_field(first) else None
    return access.constant(first.value) if isinstance(first, Constant) and _is_usable(first.value, kind) else None


def unrenamed(source: FieldSource | None, chars_max: int, absent: frozenset[str]) -> FieldSource | None:
    """Return a source before its renamings, if none of the new texts has to be checked; otherwise the source."""
    if source is None or not all(0 < len(new) <= chars_max and new.isprintable() and new not in absent for new in source.rename.values()):
        return source
    return FieldSource(source.alternatives)


def first_time(source: FieldSource, access: Access, unit: TimeUnit, absent: frozenset[str]) -> Get | None:
    """Return a function to a time that is valid if it is a whole number or ISO-8601 with a zone. None if it must be read alone."""
    is_plain = unit in ("ms", "utc") and isinstance(source.alternatives[0], Path) and absent == {""}
    return first_getter(source, access, time_kind(unit)) if is_plain else None


def reader_of(source: FieldSource, access: Access, absent: frozenset[str], kind: Scalar) -> Get:
    """Return a function from a record to the first value that is present, or None. Nothing is checked yet."""
    gets = [_alternative(alternative, access, absent, kind) for alternative in source.alternatives]
    first = gets[0] if len(gets) == 1 else first_of(gets, absent)
    if not source.rename:
        return first
    renamed = source.rename

    def read(record: Any) -> Any:
        found = first(record)
        return renamed.get(found, found) if type(found) is str else found

    return read


def first_of(gets: list[Get], absent: frozenset[str]) -> Get:
    """Return a function to the first value that is present, or None."""

    def read(record: Any) -> Any:
        for get in gets:
            found = get(record)
            if found is not None and not (type(found) is str and found in absent):
                return found
        return None

    return read


def _alternative(alternative: Path | Template | Constant, access: Access, absent: frozenset[str], kind: Scalar) -> Get:
    if isinstance(alternative, Path):
        return access.get(alternative, kind)
    if isinstance(alternative, Constant):
        value = alternative.value
        return lambda record: value
    form = "".join(part.replace("%", "%%") if isinstance(part, str) else "%s" for part in alternative.parts)
    gets = [access.get(part, text_kind(kind.text_max or 0)) for part in alternative.parts if isinstance(part, Path)]

    def compose(record: Any) -> Any:
        found = [get(record) for get in gets]
        if all(type(each) is int or (type(each) is str and each not in absent) for each in found):
            return form % tuple(found)
        return None

    return compose


def text_reader(name: str, source: FieldSource, access: Access, chars_max: int, absent: frozenset[str], reason: str = "bad_id") -> Get:
    """Return a function from a record to a checked text: an id or a label. None if it is absent. Whole numbers become decimal text."""
    get = reader_of(source, access, absent, text_kind(chars_max))
    where = f"{name} ({source})"

    def read(record: Any) -> str | None:
        found = get(record)
        if type(found) is str and 0 < len(found) <= chars_max and found.isprintable() and found not in absent:
            return found
        return checked_text(where, found, chars_max, absent, reason)

    return read


def optional_text(
    name: str, source: FieldSource | None, access: Access, chars_max: int, absent: frozenset[str], reason: str = "bad_id"
) -> Get:
    """Return what `text_reader` does; a function to None if there is no source."""
    return _no_value if source is None else text_reader(name, source, access, chars_max, absent, reason)


def optional_number(name: str, source: FieldSource | None, access: Access, absent: frozenset[str]) -> Callable[[Any], float | None]:
    """Return what `number_reader` does; a function to None if there is no source."""
    return _no_value if source is None else number_reader(name, source, access, absent)


def _no_value(record: Any) -> None:
    return None


def label_reader(name: str, source: FieldSource, access: Access, chars_max: int, absent: frozenset[str]) -> Get:
    """Return a function from a record to a checked label. None if it is absent. A boolean becomes `true` or `false`, as in JSON."""
    get = reader_of(source, access, absent, text_kind(chars_max))
    where = f"{name} ({source})"

    def read(record: Any) -> str | None:
        found = get(record)
        text = ("true" if found else "false") if type(found) is bool else found
        return checked_text(where, text, chars_max, absent, "bad_label")

    return read


def checked_text(where: str, found: object, chars_max: int, absent: frozenset[str], reason: str = "bad_id") -> str | None:
    """Return a text under its limit. None if it is absent. Raises MalformedEvent."""
    if found is None or (type(found) is str and found in absent):
        return None
    if type(found) is Decimal and abs(found) <= WHOLE_MAX and found == int(found):
        found = int(found)  # a whole number that some tool made a float of
    text = str(found) if type(found) is int else found
    if type(text) is not str:
        raise malformed(reason, f"{where} must be a text or a whole number", shown(found), "correct the path in the mapping")
    if not 0 < len(text) <= chars_max or has_control(text):
        rule = f"{where} must have 1 to {chars_max} characters and no control characters"
        raise malformed(reason, rule, text, "shorten it or remove control characters")
    return text


def time_reader(name: str, source: FieldSource, access: Access, absent: frozenset[str], unit: TimeUnit) -> Callable[[Any], int]:
    """Return a function from a record to its time in epoch milliseconds."""
    get = reader_of(source, access, absent, time_kind(unit))
    where = f"{name} ({source})"
    factor, divisor = _FACTORS[unit]

    def read(record: Any) -> int:
        found = get(record)
        if type(found) is int:
            ts = found * factor // divisor
            if 0 <= ts <= TS_MAX:
                return ts
        return _checked_time(where, found, unit)

    return read


def _checked_time(where: str, found: object, unit: TimeUnit) -> int:
    if found is None:
        missing(where)
    ts = time_ms(found, unit)
    if ts is None or not 0 <= ts <= TS_MAX:
        rule = f"{where} must be {_UNIT_NAMES[unit]} since 1970 up to the year 9999, or ISO-8601 with a zone"
        raise malformed("bad_ts", rule, shown(found), "correct the path or ts_unit in the mapping (utc: times without a zone)")
    return ts


def time_ms(found: object, unit: TimeUnit) -> int | None:
    """Return the epoch milliseconds of a number, of digits in a text, or of ISO-8601 text. Finer digits are cut off. None: not a time.

    >>> time_ms(1772359200, "s"), time_ms("1772359200000123", "us"), time_ms("2026-03-01 10:00:00", "utc")
    (1772359200000, 1772359200000, 1772359200000)
    """
    number = exact_number(found)
    if number is not None:
        factor, divisor = _FACTORS[unit]
        exact = number if type(number) is int else Fraction(number)  # decimal arithmetic rounds to 28 digits
        return None if number < 0 else int(exact * factor // divisor)
    if type(found) is not str:
        return None
    ts = iso_ms(found)
    return iso_ms(found + "Z") if ts is None and unit == "utc" else ts


def exact_number(found: object) -> int | Decimal | None:
    """Return a number, or the number that a text holds. None if there is none, or an absurdly large one."""
    if type(found) is int:
        return found
    if type(found) is str and _NUMBER.fullmatch(found):
        if found.isdecimal():
            return int(found)
        found = Decimal(found)
    if type(found) is not Decimal or not found.is_finite() or abs(found.adjusted()) > _EXPONENT_MAX:
        return Decimal(0) if type(found) is Decimal and found.is_zero() else None
    return found


def number_reader(name: str, source: FieldSource, access: Access, absent: frozenset[str]) -> Callable[[Any], float | None]:
    """Return a function from a record to a finite number. None if it is absent."""
    get = reader_of(source, access, absent, NUMBER)
    where = f"{name} ({source})"

    def read(record: Any) -> float | None:
        found = get(record)
        if found is None or (type(found) is str and found in absent):
            return None
        number = found if type(found) in _FRACTIONS else exact_number(found)
        if number is None or not math.isfinite(as_double := _double(number)):
            raise malformed("bad_value", f"{where} must be a finite number", shown(found), "correct the path in the mapping")
        return as_double

    return read


def _double(number: int | Decimal | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def checked_position(where: str, found: object, absent: frozenset[str]) -> int | None:
    """Return a position: a whole number, also as text. None if it is absent."""
    if found is None or (type(found) is str and found in absent):
        return None
    number = found if type(found) is int else exact_number(found)
    if number is None or (type(number) is Decimal and number != int(number)) or not 0 <= number <= POSITION_MAX:
        raise malformed(
            "bad_position", f"{where} must be a whole number in 0 … {POSITION_MAX}", shown(found), "correct the path in the mapping"
        )
    return int(number)


def missing(where: str) -> NoReturn:
    raise malformed(
        "missing_field", f"{where} is required and must not be null or empty", None, "send it, or correct the path in the mapping"
    )


def shown(found: object) -> str:
    """Return a value as text for a message."""
    if type(found) is Decimal:
        return str(found)
    try:
        return msgspec.json.encode(found).decode()
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return str(found)


def named(rule_name: str, error: MalformedEvent) -> MalformedEvent:
    """Return an error with the name of the mapping that found it."""
    return MalformedEvent(error.reason, f"{rule_name}: {error.detail}")
