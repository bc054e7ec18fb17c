"""Types of settings: how text becomes a value, and how a value is shown without its secrets. Defines no setting."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator, Secret, SecretStr

from streammetrics.config.password_hash import PasswordHash
from streammetrics.errors import ConfigError
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.grades import parse_grades

MASK = "***"
MS_MAX = 366 * DAY_MS
"""Maximum duration: a leap year. Longer ones are typing errors, and the limit keeps sums of durations small."""

SHOWN_CHARS_MAX = 120
TEXT_CHARS_MAX = 512
PORT_MAX = 65_535
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_MS_MIN = 100_000_000_000
"""In 1973. Smaller numbers are almost certainly seconds."""
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}


class Conflict(NamedTuple):
    """Settings that are valid alone but contradict each other. `keys` are dotted; the message names the first."""

    keys: tuple[str, ...]
    rule: str


class Section(BaseModel):
    """A table of the configuration file. It is frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, validate_default=True)


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time as the operator wrote it (`text`, which becomes a label value) and in milliseconds."""

    text: str
    ms: int

    def __str__(self) -> str:
        return self.text


class MaskedUrl(Secret[str]):
    """A URL that may contain a password. It prints masked; `get_secret_value()` returns the URL."""

    def _display(self) -> str:
        return mask_url(self.get_secret_value())


def mask_url(url: str) -> str:
    """Return the URL with user, password and query masked. If it is unclear what is secret, everything is masked.

    >>> mask_url("rediss://sm:hunter2@cache:6380/0?password=hunter2")
    'rediss://***@cache:6380/0?***'
    >>> mask_url("redis://:p/w?d#@cache"), mask_url("hunter2@cache")
    ('redis://***', '***')
    """
    scheme, found, rest = url.partition("://")
    if not found or not re.fullmatch(r"[a-z]{1,10}", scheme):
        return MASK
    userinfo, at, place = rest.rpartition("@")
    if "?" in userinfo or "#" in userinfo:
        return f"{scheme}://{MASK}"
    place, query, _ = place.partition("?")
    place, fragment, _ = place.partition("#")
    return f"{scheme}://{MASK + '@' if at else ''}{place}{'?' + MASK if query else ''}{'#' + MASK if fragment else ''}"


def parse_duration(given: object) -> Duration:
    """Read `90s`, `5m`, `1h`, `7d`, `1500ms` or a plain number of milliseconds. Raises ValueError for anything else.

    The text is kept as written, because it becomes a label value. A plain number gets the largest unit that divides it.

    >>> parse_duration("60m"), parse_duration(300_000)
    (Duration(text='60m', ms=3600000), Duration(text='5m', ms=300000))
    """
    if isinstance(given, Duration):
        return given
    text = str(given).strip() if isinstance(given, str | int) and not isinstance(given, bool) else ""
    match = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h|d)?", text)
    if match is None:
        raise ValueError("a duration is a whole number with ms, s, m, h or d, such as 5m")
    ms = int(match[1]) * _UNITS_MS[match[2] or "ms"]
    if not 0 < ms <= MS_MAX:
        raise ValueError("a duration is more than 0 and at most 366d")
    return Duration(text if match[2] else _canonical(ms), ms)


def _canonical(ms: int) -> str:
    unit = next(unit for unit in reversed(_UNITS_MS) if ms % _UNITS_MS[unit] == 0)
    return f"{ms // _UNITS_MS[unit]}{unit}"


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
    _no_bool(given)
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


def _no_bool(given: object) -> object:
    if isinstance(given, bool):
        raise ValueError("true and false are not numbers")
    return given


def _computable(number: float) -> float:
    """Reject whole numbers that are too large for a double: computations use doubles."""
    try:
        float(number)
    except OverflowError:
        raise ValueError("the number is too large") from None
    return number


def _none_if_empty(given: object) -> object:
    return None if given == "" else given


def _none_if_off(given: object) -> object:
    return None if given == "off" else given


def _list(given: object) -> object:
    """Read a list from an array, a JSON array in a string, or a string with commas."""
    if not isinstance(given, str):
        return given
    if given.strip().startswith("["):
        try:
            return json.loads(given)
        except (json.JSONDecodeError, RecursionError):
            raise ValueError("not a JSON array") from None
    return [piece.strip() for piece in given.split(",")] if given.strip() else []


def _distinct(given: tuple[Any, ...]) -> tuple[Any, ...]:
    seen = [item.ms if isinstance(item, Duration) else item for item in given]
    if len(set(seen)) < len(seen):
        raise ValueError("the list contains a value twice")
    return given


def _plain(text: str) -> str:
    if not text.isprintable():
        raise ValueError("control characters are not allowed")
    return text


def _segment(name: str) -> str:
    if "=" in name:
        raise ValueError("a segment name cannot contain =, because segments are shown as name=value")
    return name


def _topic(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) or name in (".", ".."):
        raise ValueError("a topic name has 1 to 249 letters, digits, dots, underscores or hyphens")
    return name


def _server(address: str) -> str:
    match = re.fullmatch(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/@,\[\]]+):([0-9]{1,5})", address)
    if match is None or not address.isprintable() or not 0 < int(match[1]) <= PORT_MAX:
        raise ValueError(f"a server is host:port with a port from 1 to {PORT_MAX}")
    return address


def _grades(text: str) -> str:
    try:
        return parse_grades(text).text
    except ConfigError as error:
        raise ValueError("; ".join(f"{problem.value!r}: {problem.allowed}" for problem in error.problems)) from None


def _user_name(name: str | None) -> str | None:
    if name is not None and ":" in name:
        raise ValueError("a user name cannot contain a colon, because HTTP basic authentication ends it there")
    return name


def _password_hash(given: SecretStr | None) -> SecretStr | None:
    """Check the form of a password hash. Messages never contain it."""
    if given is not None:
        PasswordHash.parse(given.get_secret_value())
    return given


def _redis_url(url: MaskedUrl) -> MaskedUrl:
    """Check a Redis URL. Messages never contain it."""
    try:
        parts = urlsplit(url.get_secret_value())
        parts.port  # noqa: B018 (reading it raises ValueError for an invalid port)
    except ValueError:
        raise ValueError("not a URL; percent-encode special characters in the user and the password") from None
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise ValueError("the scheme must be redis://, rediss:// or unix://")
    if parts.scheme == "unix":
        if not parts.path:
            raise ValueError("a unix:// URL needs the path of the socket")
    elif not parts.hostname or not re.fullmatch(r"/?|/[0-9]{1,5}", parts.path) or parts.fragment:
        raise ValueError("the part after the scheme must be host:port/database; percent-encode special characters in the password")
    return url


Whole = Annotated[int, BeforeValidator(_no_bool)]
WholeOrOff = Annotated[int | None, BeforeValidator(_none_if_off), BeforeValidator(_no_bool)]
Number = Annotated[int | float, BeforeValidator(_no_bool), AfterValidator(_computable)]
Text = Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX), AfterValidator(_plain)]
OptionalText = Annotated[Text | None, BeforeValidator(_none_if_empty)]
OptionalSecret = Annotated[SecretStr | None, BeforeValidator(_none_if_empty)]
OptionalUserName = Annotated[OptionalText, AfterValidator(_user_name)]
OptionalPasswordHash = Annotated[OptionalSecret, AfterValidator(_password_hash)]
RedisUrl = Annotated[MaskedUrl, AfterValidator(_redis_url)]
Item = TypeVar("Item")
Listed = Annotated[tuple[Item, ...], BeforeValidator(_list), AfterValidator(_distinct)]
"""Distinct values, in the order given. A string is split at commas or read as a JSON array."""

Start = Literal["earliest", "latest"] | datetime
StartField = Annotated[Start, PlainValidator(parse_start)]
DurationField = Annotated[Duration, PlainValidator(parse_duration), PlainSerializer(str, return_type=str)]
Segment = Annotated[Text, AfterValidator(_segment)]
Topic = Annotated[str, AfterValidator(_topic)]
Server = Annotated[str, AfterValidator(_server)]
Grades = Annotated[str, AfterValidator(_grades)]


def table_or_json(given: object) -> object:
    """Return a table, or parse one from JSON text."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given) if given.strip() else {}
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("not a JSON object") from None


def setting(default: Any, description: str, allowed: str | None = None, **rules: Any) -> Any:
    """Define a setting: its default, its description, and the allowed values in words (None: derived from the type)."""
    return Field(default, description=description, json_schema_extra={"allowed": allowed} if allowed else None, **rules)


def whole(default: int | None, description: str, least: int, most: int, unless: str = "") -> Any:
    """Define a whole number from `least` to `most`. `unless` names another allowed value, such as ", or off"."""
    return setting(default, description, f"a whole number from {least} to {most}{unless}", ge=least, le=most)


def milliseconds(default: int | None, description: str, least: int = 0, most: int = MS_MAX, unless: str = "") -> Any:
    """Define a duration in milliseconds, never negative."""
    return whole(default, description, least, most, unless)


def shown(value: object) -> str:
    """Return a value as one printable line of at most SHOWN_CHARS_MAX characters. Not for secrets."""
    if value is None or value == "":
        return "(empty)"
    try:
        text = printable(str(value) if isinstance(value, str | int | float | Duration) else json.dumps(value, default=str))
    except RecursionError:
        return "(nested too deeply)"
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"


def printable(text: str) -> str:
    """Return the text on one line, with control characters escaped."""
    return text if text.isprintable() else ascii(text)


PATH_OR_EMPTY = "a path, or empty for none"


def key_without_certificate(name: str, certfile: str | None, keyfile: str | None) -> Iterator[Conflict]:
    """Yield the conflict of a private key without its certificate. `name` is the section."""
    if keyfile and not certfile:
        rule = f"is required with {name}.ssl_keyfile: a key needs its certificate"
        yield Conflict((f"{name}.ssl_certfile", f"{name}.ssl_keyfile"), rule)
