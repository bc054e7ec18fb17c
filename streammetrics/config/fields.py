"""Types of settings: how text becomes a value, and how a value is shown without its secrets. Defines no setting.

Messages never contain the address of a server, because people paste logins into them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Secret, SecretStr

from streammetrics.config.password_hash import PasswordHash
from streammetrics.config.times import Duration
from streammetrics.errors import ConfigError
from streammetrics.events.grades import parse_grades
from streammetrics.words.times import SPAN_MS_MAX

MASK = "***"
SHOWN_CHARS_MAX = 120
TEXT_CHARS_MAX = 512
PORT_MAX = 65_535
PATH_OR_EMPTY = "a path, or empty for none"


class Conflict(NamedTuple):
    """Settings that are valid alone but contradict each other. `keys` are dotted; the message names the first."""

    keys: tuple[str, ...]
    rule: str


class Section(BaseModel):
    """A table of the configuration file. It is frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, validate_default=True)


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
    scheme, separator, rest = url.partition("://")
    if not separator or not re.fullmatch(r"[a-z]{1,10}", scheme):
        return MASK
    userinfo, at, place = rest.rpartition("@")
    if "?" in userinfo or "#" in userinfo:
        return f"{scheme}://{MASK}"
    place, query, _ = place.partition("?")
    place, fragment, _ = place.partition("#")
    return f"{scheme}://{MASK + '@' if at else ''}{place}{'?' + MASK if query else ''}{'#' + MASK if fragment else ''}"


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
        return parsed_json(given, "a JSON array")
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
    require_host(address.rpartition(":")[0].strip("[]"))
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


Whole = Annotated[int, BeforeValidator(_no_bool)]
WholeOrOff = Annotated[int | None, BeforeValidator(_none_if_off), BeforeValidator(_no_bool)]
Number = Annotated[int | float, BeforeValidator(_no_bool), AfterValidator(_computable)]
Text = Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX), AfterValidator(_plain)]
OptionalText = Annotated[Text | None, BeforeValidator(_none_if_empty)]
OptionalSecret = Annotated[SecretStr | None, BeforeValidator(_none_if_empty)]
OptionalUserName = Annotated[OptionalText, AfterValidator(_user_name)]
OptionalPasswordHash = Annotated[OptionalSecret, AfterValidator(_password_hash)]
Item = TypeVar("Item")
Listed = Annotated[tuple[Item, ...], BeforeValidator(_list), AfterValidator(_distinct)]
"""Distinct values, in the order given. A string is split at commas or read as a JSON array."""

Segment = Annotated[Text, AfterValidator(_segment)]
Topic = Annotated[str, AfterValidator(_topic)]
Server = Annotated[str, AfterValidator(_server)]
Grades = Annotated[str, AfterValidator(_grades)]


def parsed_json(text: str, what: str) -> object:
    """Parse JSON text. Raises ValueError, which says `what` it is not."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"not {what}") from None


def table_or_json(given: object) -> object:
    """Return a table, or parse one from JSON text."""
    if not isinstance(given, str):
        return given
    return parsed_json(given, "a JSON object") if given.strip() else {}


def setting(default: Any, description: str, allowed: str | None = None, **rules: Any) -> Any:
    """Define a setting: its default, its description, and the allowed values in words (None: derived from the type)."""
    return Field(default, description=description, json_schema_extra={"allowed": allowed} if allowed else None, **rules)


def whole(default: int | None, description: str, least: int, most: int, unless: str = "") -> Any:
    """Define a whole number from `least` to `most`. `unless` names another allowed value, such as ", or off"."""
    return setting(default, description, f"a whole number from {least} to {most}{unless}", ge=least, le=most)


def milliseconds(default: int | None, description: str, least: int = 0, most: int = SPAN_MS_MAX, unless: str = "") -> Any:
    """Define a duration in milliseconds, never negative."""
    return whole(default, description, least, most, unless)


def value_text(value: object) -> str:
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


def key_without_certificate(name: str, certfile: str | None, keyfile: str | None) -> Iterator[Conflict]:
    """Yield the conflict of a private key without its certificate. `name` is the section."""
    if keyfile and not certfile:
        rule = f"is required with {name}.ssl_keyfile: a key needs its certificate"
        yield Conflict((f"{name}.ssl_certfile", f"{name}.ssl_keyfile"), rule)


def non_empty(section: Section, name: str, prefix: str) -> str:
    """List the non-empty keys of a section that begin with a prefix."""
    return ", ".join(f"{name}.{key}" for key in type(section).model_fields if key.startswith(prefix) and getattr(section, key))


def secret_text(value: SecretStr | None) -> str | None:
    """Return the text of a secret; None if there is none."""
    return None if value is None else value.get_secret_value()


def http_parts(url: str) -> SplitResult:
    """Return the parts of an http or https URL. Raises ValueError for another text.

    >>> http_parts("https://exporter:9464/metrics").hostname
    'exporter'
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (reading it raises ValueError for an invalid port)
    except ValueError:
        raise ValueError("not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("a URL begins with http:// or https://, and has a host")
    require_host(parts.hostname)
    return parts


def require_host(name: str) -> None:
    """Raise ValueError for the name of a host that cannot be looked up. The look-up itself would raise an error of another kind.

    >>> require_host("broker-1.internal"), require_host("10.0.0.1"), require_host("::1")
    (None, None, None)
    """
    try:
        name.encode("idna")
    except UnicodeError:
        raise ValueError("a part of the host's name is empty or too long") from None


def is_this_machine(host: str | None) -> bool:
    """Return whether only this machine can be reached by a host.

    >>> [is_this_machine(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "127.0.0.1.shop.test", None)]
    [True, True, True, False, False, False]
    """
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
