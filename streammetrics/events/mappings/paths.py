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
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

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


class Access(Protocol):
    """How compiled mappings reach the values of a record."""

    def get(self, path: Path) -> Get: ...

    def array(self, path: Path) -> Get:
        """Return a function to a value whose parts are read by `elements` only, or that must only be present."""
        ...

    def elements(self, path: Path) -> Access:
        """Return the access to the elements of an array."""
        ...


class DictAccess:
    """Reads records that are plain Python objects."""

    def get(self, path: Path) -> Get:
        return walker(path.steps)

    array = get

    def elements(self, path: Path) -> Access:
        return self


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


class Shape:
    """The fields that all mappings of a topic need. It becomes one typed struct, so that the parser skips everything else."""

    def __init__(self) -> None:
        self.fields: dict[str, Shape] = {}
        self.is_leaf = self.is_whole = False
        self.element: Shape | None = None

    def get(self, path: Path) -> Get:
        node, _ = self._at(path)
        node.is_leaf = True
        return lambda record: None

    def array(self, path: Path) -> Get:
        node, rest = self._at(path)
        node.is_whole, node.is_leaf = True, node.is_leaf or bool(rest)
        return lambda record: None

    def elements(self, path: Path) -> Access:
        node, rest = self._at(path)
        if rest:
            node.is_leaf = True
            return Shape()
        node.element = node.element or Shape()
        return node.element

    def _at(self, path: Path) -> tuple[Shape, Sequence[Step]]:
        node = self
        for at, step in enumerate(path.steps):
            if type(step) is not str:
                return node, path.steps[at:]
            node = node.fields.setdefault(step, Shape())
        return node, ()

    def struct(self) -> Any:
        """Return the struct type, or None if one field is needed as a value and for its parts: then only plain objects work."""
        fields = []
        for index, shape in enumerate(self.fields.values()):
            found = shape._type()
            if found is None:
                return None
            fields.append((f"f{index}", *found))
        rename = {f"f{index}": name for index, name in enumerate(self.fields)}
        return msgspec.defstruct("Fields", fields, rename=rename, gc=False, frozen=True)

    def _type(self) -> tuple[Any, Any] | None:
        if self.is_leaf and (self.fields or (self.element is not None and self.element.fields)):
            return None
        if self.fields:
            if self.element is not None or self.is_whole or (kind := self.struct()) is None:
                return None
            return kind, kind()
        if self.element is not None and self.element.fields:
            element = self.element.struct()
            return None if element is None else (_array_of(element), None)
        return Any, None

    def access(self) -> Access:
        """Return the access to records that were parsed into the struct."""
        return _StructAccess(self)


def _array_of(kind: Any) -> Any:
    """Return the type of an array: type checkers cannot follow types that are made at run time."""
    return list[kind] | None


class _StructAccess:
    """Reads records that were parsed into the struct of a shape."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def get(self, path: Path) -> Get:
        attribute, rest, _ = self._attribute(path)
        if not rest:
            return attrgetter(attribute)
        read, walk = attrgetter(attribute), walker(rest)
        return lambda record: walk(read(record))

    array = get

    def elements(self, path: Path) -> Access:
        _, rest, shape = self._attribute(path)
        element = shape.element
        return DictAccess() if rest or element is None or not element.fields else _StructAccess(element)

    def _attribute(self, path: Path) -> tuple[str, Sequence[Step], Shape]:
        names: list[str] = []
        shape = self._shape
        for at, step in enumerate(path.steps):
            if type(step) is not str:
                return ".".join(names), path.steps[at:], shape
            names.append(f"f{list(shape.fields).index(step)}")
            shape = shape.fields[step]
        return ".".join(names), (), shape
