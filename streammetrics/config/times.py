"""Durations and times as settings: how text becomes a value, and how a time is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import PlainSerializer, PlainValidator

from streammetrics.words.times import SPAN_UNITS_MS, span_ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_MS_MIN = 100_000_000_000
"""In 1973. Smaller numbers are almost certainly seconds."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time as the operator wrote it (`text`, which becomes a label value) and in milliseconds."""

    text: str
    ms: int

    def __str__(self) -> str:
        return self.text


def parse_duration(given: object) -> Duration:
    """Read `90s`, `5m`, `1h`, `7d`, `1500ms` or a plain number of milliseconds. Raises ValueError for anything else.

    The text is kept as written, because it becomes a label value. A plain number gets the largest unit that divides it.

    >>> parse_duration("60m"), parse_duration(300_000)
    (Duration(text='60m', ms=3600000), Duration(text='5m', ms=300000))
    """
    if isinstance(given, Duration):
        return given
    text = str(given).strip() if isinstance(given, str | int) and not isinstance(given, bool) else ""
    ms = span_ms(text)
    return Duration(_canonical(ms) if text.isdecimal() else text, ms)


def _canonical(ms: int) -> str:
    unit = next(unit for unit in reversed(SPAN_UNITS_MS) if ms % SPAN_UNITS_MS[unit] == 0)
    return f"{ms // SPAN_UNITS_MS[unit]}{unit}"


def parse_moment(given: object) -> datetime:
    """Read a time with its zone, from TOML or from ISO-8601 text. Raises ValueError for anything else."""
    try:
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    except ValueError:
        raise ValueError("a time is ISO-8601, such as 2026-01-31T09:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("a time needs a zone, such as 2026-01-31T09:00:00Z")
    return moment


def parse_start(given: object) -> Start:
    """Read `earliest`, `latest`, a time in ISO-8601 with its zone, or epoch milliseconds. Raises ValueError for anything else.

    >>> parse_start("latest"), parse_start(1_732_183_200_123).isoformat(timespec="milliseconds")
    ('latest', '2024-11-21T10:00:00.123+00:00')
    """
    if given in ("earliest", "latest"):
        return "latest" if given == "latest" else "earliest"
    if isinstance(given, bool):
        raise ValueError("true and false are not numbers")
    if isinstance(given, int) or (isinstance(given, str) and re.fullmatch(r"[0-9]{1,15}", given)):
        if (ms := int(given)) < EPOCH_MS_MIN:
            raise ValueError(f"a number is epoch milliseconds, and {ms} is before 1974; did you mean seconds?")
        try:
            return EPOCH + timedelta(milliseconds=ms)
        except OverflowError:
            raise ValueError("a time must be before the year 10000") from None
    moment = parse_moment(given)
    if moment < EPOCH:
        raise ValueError("a time must not be before 1970")
    return moment


def epoch_ms(moment: datetime) -> int:
    """Convert a time to epoch milliseconds; finer digits are cut off."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _optional_moment(given: object) -> datetime | None:
    return None if given in ("", None) else parse_moment(given)


def _moment_text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


Moment = Annotated[
    datetime | None, PlainValidator(_optional_moment), PlainSerializer(_moment_text, return_type=str | None, when_used="json")
]

Start = Literal["earliest", "latest"] | datetime
StartField = Annotated[Start, PlainValidator(parse_start)]
DurationField = Annotated[Duration, PlainValidator(parse_duration), PlainSerializer(str, return_type=str)]
