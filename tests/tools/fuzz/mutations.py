"""Random damage: to the bytes of a record or a file, and to single values of a record in JSON."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from streammetrics.events.record import SentValue

Place = tuple[str | int, ...]

TEXTS: Final = ["", "a", "-", "(not set)", "\x7f", "a\nb", "x" * 41, "x" * 61, "7", "07", "1.5", "1e5", "-3", "true", "[1]", '{"id":"a"}']
TIMES: Final = [
    "2026-03-01T12:00:00.123Z",
    "2026-03-01 12:00:00",
    "20260301T120000+01",
    "2026-03-01T24:00:00Z",
    "2026-03-01T12:00:00.Z",
]
NUMBERS: Final[list[int | float]] = [0, 1, -1, 2**53, 2**63, 10**30, 10**400, 1772366400, 1772366400123, True, False]
NUMBERS += [0.5, 7.0, -0.0, 1e17, 1e29, 1e31, 1e-31, 1e300]
NESTED: Final[list[Any]] = [{}, [], {"id": "a"}, {"id": None}, ["a", "b"], ["a", "a"], [None], [1, 2.5], [{"id": "a"}, None], [[]]]
NESTED.append(["a"] * 9)
VALUES: Final = [None, *TEXTS, *TIMES, *NUMBERS, *NESTED]


def places(record: Any, before: Place = ()) -> list[Place]:
    """Return the places of all values inside a record."""
    inner = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    return [place for name, value in inner for place in [(*before, name), *places(value, (*before, name))]]


def changed(record: Any, place: Place, value: object) -> Any:
    """Return a record with another value at a place. Without that place, it stays as it is."""
    first, rest = place[0], place[1:]
    copy = dict(record) if isinstance(record, dict) else list(record) if isinstance(record, list) else None
    if copy is None or (isinstance(copy, dict) is isinstance(first, int)) or (isinstance(copy, list) and first >= len(copy)):  # type: ignore[operator]
        return record
    if rest:
        copy[first] = changed(copy.get(first) if isinstance(copy, dict) else copy[first], rest, value)  # type: ignore[index,call-overload]
    else:
        copy[first] = value  # type: ignore[index,call-overload]
    return copy


def with_odd_values(random: Random, record: Any) -> Any:
    """Return a record with up to three odd values; half of all stay as they are."""
    for _ in range(random.choice((0, 0, 0, 1, 1, 2, 3))):
        if record_places := places(record):
            record = changed(record, random.choice(record_places), random.choice(VALUES))
    return record


def damaged(random: Random, value: bytes, other: bytes, most: int = 20) -> bytes:
    """Return bytes with some random changes, `most` at the most; one in ten stays as it is. `other` lends a part now and then."""
    content = bytearray(value)
    for _ in range(min(most, random.choice((0, 1, 1, 1, 2, 2, 3, 5, 8, 20)))):
        kind, at = random.randrange(7), random.randrange(len(content) + 1)
        if kind <= 2 and at < len(content):
            content[at] = random.randrange(256)
        elif kind == 3 and at < len(content):
            content[at] ^= 1 << random.randrange(8)
        elif kind == 4:
            del content[at : at + random.randrange(1, 6)]
        elif kind == 5:
            content[at:at] = random.randbytes(random.randrange(1, 6))
        elif kind == 6:
            content = content[:at] + other[random.randrange(len(other) + 1) :]
    return bytes(content)


def damaged_record(random: Random, value: bytes, other: bytes) -> bytes | None:
    """Return a record with damage to its bytes or its headers. One in a hundred has no value."""
    if random.random() < 0.01:
        return None
    content = damaged(random, value, other)
    if not isinstance(value, SentValue):
        return content
    headers = dict(value.headers)
    if headers and random.random() < 0.2:
        headers[random.choice(list(headers))] = random.choice((None, b"", random.randbytes(8), bytes(7) + b"\x07"))
    return SentValue.of(content, headers, key=value.key)
