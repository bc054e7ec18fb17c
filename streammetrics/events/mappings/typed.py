"""Typed access to records: the fields that all mappings of a topic need become one struct. The parser checks them and skips the rest.

The parser takes what well-formed records have. What it refuses is read as plain objects (see `explainer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from streammetrics.events.label_cache import ABSENT
from streammetrics.events.mappings.paths import Access, Get, Path, PlainAccess, Scalar, Step, walker
from streammetrics.events.model import EventLimits

_NOTHING: Final = "nothing"
"""An attribute that is always None."""


class NotTypedError(Exception):
    """One field is needed as a value and for its parts: the records must be read as plain objects."""


class Shape:
    """A field of a record, and what the mappings need of it. The root is the record itself."""

    def __init__(self) -> None:
        self.fields: dict[str, Shape] = {}
        self.constants: dict[str, Any] = {_NOTHING: None}
        self.scalar: Scalar | None = None
        self.ids_max: int | None = None
        """The field is an array of ids of at most so many characters."""
        self.element: Shape | None = None
        """The field is an array of objects."""
        self.is_any = self.is_raw = self.is_present = False
        self._objects: list[tuple[str, Shape]] = []
        self.empty: Any = None
        """The struct of an absent object. None for other fields."""

    def at(self, path: Path) -> tuple[Shape, str, Sequence[Step]]:
        """Return the field at a path, its attribute, and the steps that no struct can follow."""
        node, names = self, list[str]()
        for at, step in enumerate(path.steps):
            if type(step) is not str:
                return node, ".".join(names), path.steps[at:]
            if step not in node.fields:
                node.fields[step] = Shape()
            names.append(f"f{list(node.fields).index(step)}")
            node = node.fields[step]
        return node, ".".join(names), ()

    def add(self, kind: Scalar) -> None:
        """Let the field be a single value, too. Ranges and lengths are the narrowest of all uses."""
        old = self.scalar or kind
        self.scalar = Scalar(
            min((each for each in (old.text_max, kind.text_max) if each is not None), default=None),
            max((each for each in (old.least, kind.least) if each is not None), default=None),
            min((each for each in (old.most, kind.most) if each is not None), default=None),
            old.has_whole or kind.has_whole,
            old.has_fraction or kind.has_fraction,
            is_exact=old.is_exact and kind.is_exact,
        )

    @property
    def is_loose(self) -> bool:
        """Whether the parser does not check some field that has a type."""
        inside = [*self.fields.values(), *([self.element] if self.element is not None else [])]
        return (self._is_any and (self.scalar is not None or self.ids_max is not None)) or any(each.is_loose for each in inside)

    @property
    def _is_any(self) -> bool:
        return self.is_any or (self.is_raw and (self.is_present or self.scalar is not None or self.ids_max is not None))

    def filled(self, record: Any) -> Any:
        """Return a parsed record with an empty object in the place of each null."""
        for name, shape in self._objects:
            found = getattr(record, name)
            whole = shape.empty if found is None else shape.filled(found)
            if whole is not found:
                record = replace(record, **{name: whole})
        return record

    def struct(self, limits: EventLimits) -> Any:
        """Return the struct type. Raises NotTypedError."""
        self._objects = [(f"f{index}", shape) for index, shape in enumerate(self.fields.values()) if shape.fields]
        fields = [(f"f{index}", *shape._type(limits)) for index, shape in enumerate(self.fields.values())]
        rename = {f"f{index}": name for index, name in enumerate(self.fields)}
        return msgspec.defstruct("Fields", fields, rename=rename, namespace=dict(self.constants), gc=False, frozen=True)

    def _type(self, limits: EventLimits) -> tuple[Any, Any]:
        """Return the type of a field, and the value of an absent one."""
        uses = (self.is_any, self.is_raw, self.is_present, self.scalar is not None, self.ids_max is not None, self.element is not None)
        if self.fields:
            if any(uses[:2] + uses[3:]):
                raise NotTypedError
            inner = self.struct(limits)
            self.empty = inner()
            return inner | None, self.empty
        if self.element is not None and (self._is_any or self.is_raw or self.ids_max is not None):
            raise NotTypedError
        if self._is_any or not any(uses[1:2] + uses[3:]):
            return Any, None
        return (msgspec.Raw, ABSENT) if self.is_raw else (self._values(limits), None)

    def _values(self, limits: EventLimits) -> Any:
        """Return the type of a single value or of an array."""
        kind: Any = None
        if self.element is not None:
            element: Any = self.element.struct(limits)
            kind |= _array(list[element], limits)
        if self.ids_max is not None:
            identity: Any = Annotated[str, Meta(min_length=1, max_length=self.ids_max)] | int
            kind |= _array(tuple[identity, ...], limits)
        if self.scalar is not None and self.scalar.is_exact and kind is None:
            return Any  # only the parser of plain objects leaves numbers as they are
        if self.scalar is not None:
            if self.scalar.text_max is not None:
                kind |= Annotated[str, Meta(max_length=self.scalar.text_max)]
            if self.scalar.has_whole:
                kind |= Annotated[int, Meta(ge=self.scalar.least, le=self.scalar.most)]
            if self.scalar.has_fraction:
                kind |= float
        return kind


def _array(kind: Any, limits: EventLimits) -> Any:
    return Annotated[kind, Meta(max_length=limits.items_max)]


class TypedAccess:
    """Reads records that were parsed into the struct of a shape. It gives the shape the fields that it reads.

    Without `is_checked`, every value is read alone: for records in which the parser does not check everything. Mappings are compiled twice:
    first to give the shape all fields.
    """

    def __init__(self, shape: Shape, is_checked: bool) -> None:
        self._shape, self.is_checked = shape, is_checked
        self._names: dict[Get, str] = {}

    def get(self, path: Path, kind: Scalar) -> Get:
        node, name, rest = self._shape.at(path)
        if rest:
            return self._walk(node, name, rest)
        node.add(kind)
        return self._getter(name)

    def constant(self, value: Any) -> Get:
        name = f"c{len(self._shape.constants)}"
        self._shape.constants[name] = value
        return self._getter(name)

    def present(self, path: Path) -> Get:
        node, name, rest = self._shape.at(path)
        if rest:
            return self._walk(node, name, rest)
        node.is_present = True
        if not node.fields:
            return self._getter(name)
        read = attrgetter(name)
        return lambda record: None if (found := read(record)) is node.empty else found

    def whole(self, path: Path) -> Get:
        return self._walk(*self._shape.at(path))

    def texts(self, path: Path, ids_max: int, is_text: bool) -> Get:
        node, name, rest = self._shape.at(path)
        if rest:
            return self._walk(node, name, rest)
        node.ids_max = ids_max
        if is_text:
            node.add(Scalar(1 << 30, has_whole=False))
        return self._getter(name)

    def objects(self, path: Path) -> tuple[Get, Access]:
        node, name, rest = self._shape.at(path)
        if rest:
            return self._walk(node, name, rest), PlainAccess()
        node.element = node.element or Shape()
        return self._getter(name), TypedAccess(node.element, self.is_checked)

    def together(self, gets: Sequence[Get | None]) -> Get:
        return attrgetter(*[_NOTHING if get is None else self._names.get(get, _NOTHING) for get in gets])

    def sent(self, paths: Sequence[Path]) -> Get:
        gets, names = list[Get](), list[str]()
        for path in paths:
            node, name, rest = self._shape.at(path)
            node.is_raw = node.is_raw or not rest
            names += [] if rest else [name]
            gets.append(self._walk(node, name, rest) if rest else attrgetter(name))
        if len(names) == len(gets) > 1:
            return attrgetter(*names)
        return lambda record: [get(record) for get in gets]

    def values(self, paths: Sequence[Path], chars_max: int) -> Get:
        """Return a function to the values at some paths, as a key of a dictionary."""
        gets = [self.get(path, Scalar(chars_max)) for path in dict.fromkeys(paths)]
        return gets[0] if len(gets) == 1 else lambda record: tuple([get(record) for get in gets])

    def _getter(self, name: str) -> Get:
        get = attrgetter(name)
        self._names[get] = name
        return get

    def _walk(self, node: Shape, name: str, rest: Sequence[Step]) -> Get:
        """Read a field as a plain object, and follow the other steps in it."""
        node.is_any = True
        read, walk = attrgetter(name), walker(rest)
        if not rest:
            return read
        return lambda record: walk(read(record))
