"""Paths into a JSON object: parsed once, then compiled to functions. A path that leads nowhere gives None.

| path | finds |
|---|---|
| `properties.products` | a field of a field |
| `contexts[0].id` | an element of an array, from 0 |
| `event_params[key=ga_session_id].value` | the first object of an array with this text in a field |
| `properties."list.id"` | a name with a dot or a bracket |

A step into a text goes into the JSON that the text holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from streammetrics.events.mappings.plain import json_in_text

Get: TypeAlias = Callable[[Any], Any]
"""Returns the value at a path of a record or an element; None if it is absent or null."""

STEPS_MAX: Final = 16
_STEP = re.compile(r"""(?:"([^"]+)"|([^."\[\]{}=]+)|\[([0-9]{1,6})\]|\[([^."\[\]{}=]+)=([^\[\]]*)\])""")


class Matching(NamedTuple):
    """A step to the first object of an array with a text in one of its fields."""

    field: str
    text: str


Step: TypeAlias = str | int | Matching


class Path(NamedTuple):
    """A path as written, and its steps."""

    text: str
    steps: tuple[Step, ...]


def is_field(path: Path) -> bool:
    """Return whether a path leads through objects only."""
    return all(type(step) is str for step in path.steps)


def parse_path(text: str) -> Path:
    """Parse a path. Raises ValueError for text that is not one.

    >>> parse_path('a."b.c"[0].d').steps
    ('a', 'b.c', 0, 'd')
    >>> parse_path("params[key=page].value").steps
    ('params', Matching(field='key', text='page'), 'value')
    """
    steps: list[Step] = []
    at = 0
    while at < len(text):
        if steps and text[at] != "[":
            if text[at] != ".":
                raise ValueError(f"{text!r} is not a path")
            at += 1
        found = _STEP.match(text, at)
        if found is None or (not steps and found[0].startswith("[")):
            raise ValueError(f"{text!r} is not a path")
        quoted, name, index, field, value = found.groups()
        steps.append(Matching(field, value) if field else int(index) if index else quoted or name)
        at = found.end()
    if not steps:
        raise ValueError("a path must not be empty")
    if len(steps) > STEPS_MAX:
        raise ValueError(f"a path may have at most {STEPS_MAX} steps")
    return Path(text, tuple(steps))


class Scalar(NamedTuple):
    """The single values that a field may have: texts up to a length (None: no texts), whole numbers in a range, and other numbers.

    It bounds what the typed parser takes. What it leaves out is read as plain objects.
    """

    text_max: int | None
    least: int | None = None
    most: int | None = None
    has_whole: bool = True
    has_fraction: bool = False
    is_exact: bool = False
    """Whether other numbers count, too, and must not be rounded."""


class Access(Protocol):
    """How compiled mappings reach the values of a record.

    `is_checked`: the parser has checked the types and lengths of all values.
    """

    is_checked: bool

    def get(self, path: Path, kind: Scalar) -> Get:
        """Return a function to a single value."""
        ...

    def constant(self, value: Any) -> Get:
        """Return a function to a value that no record has."""
        ...

    def present(self, path: Path) -> Get:
        """Return a function to a value that must only be present."""
        ...

    def whole(self, path: Path) -> Get:
        """Return a function to a value of any kind, as plain objects."""
        ...

    def texts(self, path: Path, ids_max: int, is_text: bool) -> Get:
        """Return a function to an array of ids. With `is_text`, it may be one text."""
        ...

    def objects(self, path: Path) -> tuple[Get, Access]:
        """Return a function to an array of objects, and the access to one of them."""
        ...

    def together(self, gets: Sequence[Get | None]) -> Get:
        """Return a function to several checked values at once. A value is None where it must be read alone, and checked."""
        ...

    def sent(self, paths: Sequence[Path]) -> Get | None:
        """Return a function to the values at some paths, as JSON where possible. None if records are plain objects already."""
        ...


class PlainAccess:
    """Reads records that are plain Python objects."""

    is_checked = False

    def get(self, path: Path, kind: Scalar) -> Get:
        return walker(path.steps)

    def constant(self, value: Any) -> Get:
        return lambda record: value

    def present(self, path: Path) -> Get:
        return walker(path.steps)

    whole = present

    def texts(self, path: Path, ids_max: int, is_text: bool) -> Get:
        return walker(path.steps)

    def objects(self, path: Path) -> tuple[Get, Access]:
        return walker(path.steps), self

    def together(self, gets: Sequence[Get | None]) -> Get:
        nothing = (None,) * len(gets)
        return lambda record: nothing

    def sent(self, paths: Sequence[Path]) -> Get | None:
        return None


def walker(steps: Sequence[Step]) -> Get:
    """Return a function that follows steps through plain objects and arrays, and through JSON in a text."""

    def walk(found: Any) -> Any:
        for step in steps:
            if type(found) is str:
                found = json_in_text(found)
            if type(step) is str:
                found = found.get(step) if type(found) is dict else None
            elif type(found) is not list:
                return None
            elif type(step) is int:
                found = found[step] if step < len(found) else None
            else:
                found = next((each for each in found if type(each) is dict and each.get(step.field) == step.text), None)  # type: ignore[union-attr]
            if found is None:
                return None
        return found

    return walk
