"""Mappings as values: read from tables of the configuration, with all problems at once. Nothing is decoded here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from streammetrics.events.mappings.paths import Path, parse_path

Preset: TypeAlias = Literal["segment", "ga4", "metarank", "algolia", "snowplow", "personalize", "elastic", "mind", "otel", "openfeature"]
Format: TypeAlias = Literal[
    "native", "ubi", "segment", "ga4", "metarank", "algolia", "snowplow", "personalize", "elastic", "mind", "otel", "openfeature"
]
Kind: TypeAlias = Literal["impression", "feedback", "exposure", "ignore"] | Format
"""What a mapping makes of a record: one kind of event, nothing, or what a format makes of it."""
TimeUnit: TypeAlias = Literal["ms", "s", "us", "ns", "utc"]
PRESETS: Final[tuple[Preset, ...]] = get_args(Preset)
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
KINDS: Final = ("impression", "feedback", "exposure", "ignore", *FORMATS)
EXPOSURE_PRESETS: Final = ("otel", "openfeature")
"""The presets that make exposures."""
UNITS: Final[tuple[str, ...]] = get_args(TimeUnit)
MAPPINGS_MAX: Final = 100
_BRACES = re.compile(r"\{([^{}]*)\}")
_COMMON = ("name", "kind", "topics", "when", "absent")
_FIELDS = ("user_id", "ts", "ts_unit", "impression_id", "items", "item_separator", "item_id")
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "impression": (*_COMMON, *_FIELDS, "item_position", "item_team", "fragment", "page_start", "experiments", "segments"),
    "feedback": (*_COMMON, *_FIELDS, "action", "value", "item_action", "item_value"),
    "exposure": (*_COMMON, "user_id", "ts", "ts_unit", "experiment", "variant"),
    "ignore": _COMMON,
    **dict.fromkeys(FORMATS, _COMMON),
}
_ALL_KEYS: Final = tuple(dict.fromkeys(key for keys in _KEYS.values() for key in keys))


class Template(msgspec.Struct, frozen=True):
    """A text with paths in braces, such as `{user}/{session}`."""

    text: str
    parts: tuple[str | Path, ...]


class Constant(msgspec.Struct, frozen=True):
    """A value for records without one: a text, a number, or an empty array."""

    value: Any

    @property
    def text(self) -> str:
        return str(self.value)


class FieldSource(msgspec.Struct, frozen=True):
    """Where a value comes from: the first alternative that is present. `rename` replaces some texts by others."""

    alternatives: tuple[Path | Template | Constant, ...]
    rename: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(alternative.text for alternative in self.alternatives)


class PageStart(msgspec.Struct, frozen=True):
    """How many items come before those of a record: a number, or (if `size` is given) that of a page, counted from `first`."""

    number: FieldSource
    size: FieldSource | None = None
    first: int = 1


class Condition(msgspec.Struct, frozen=True):
    """A condition on the value at a path: one of `values`, or (if `values` is None) that the value is present or absent.

    No values at all: it is an empty array, or (if `holds_if_found` is false) present and no empty array.
    """

    path: Path
    values: tuple[str | int | bool, ...] | None
    holds_if_found: bool = True


class MappingRule(msgspec.Struct, frozen=True, kw_only=True):
    """One mapping. Fields that the kind does not use are None."""

    kind: Kind
    name: str
    topics: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()
    absent: frozenset[str] = frozenset({""})
    user_id: FieldSource | None = None
    ts: FieldSource | None = None
    ts_unit: TimeUnit = "ms"
    impression_id: FieldSource | None = None
    items: FieldSource | None = None
    item_separator: str | None = None
    item_id: FieldSource | None = None
    item_position: FieldSource | None = None
    order_counts: bool = False
    """Whether a list without any position has the order of its array."""
    item_team: FieldSource | None = None
    fragment: bool = False
    page_start: PageStart | None = None
    action: FieldSource | None = None
    value: FieldSource | None = None
    item_action: FieldSource | None = None
    item_value: FieldSource | None = None
    experiment: FieldSource | None = None
    variant: FieldSource | None = None
    experiments: FieldSource | Mapping[str, FieldSource] | None = None
    segments: FieldSource | Mapping[str, FieldSource] | None = None


class MappingError(ValueError):
    """Mappings with problems. `problems` has one message for each, with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def parse_mappings(tables: object) -> tuple[MappingRule, ...]:
    """Read mappings from the tables of a configuration. Raises MappingError with all problems.

    >>> parse_mappings([{"kind": "ignore", "when": {"event": "page"}}])[0].when[0].values
    ('page',)
    >>> parse_mappings([{"kind": "feedback", "ts": "t", "item_id": "a..b"}])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    streammetrics.events.mappings.rules.MappingError: mapping 1: item_id: 'a..b' is not a path; mapping 1: user_id is required; ...
    """
    if not isinstance(tables, Sequence) or isinstance(tables, str | bytes):
        raise MappingError(["mappings must be an array of tables: write [[events.mappings]]"])
    if len(tables) > MAPPINGS_MAX:
        raise MappingError([f"at most {MAPPINGS_MAX} mappings are allowed, and these are {len(tables)}"])
    problems: list[str] = []
    rules = []
    for number, table in enumerate(tables, 1):
        reader = _TableReader(table, number)
        rules.append(reader.rule())
        problems += reader.problems
    if problems:
        raise MappingError(problems)
    return tuple(rule for rule in rules if rule is not None)


class _TableReader:
    """Reads one table and collects its problems."""

    def __init__(self, table: object, number: int) -> None:
        self.table: Mapping[str, Any] = table if isinstance(table, Mapping) else {}
        name = self.table.get("name")
        self.where = f"mapping {number}" + (f" ({name})" if isinstance(name, str) and name else "")
        self.problems: list[str] = [] if isinstance(table, Mapping) else [f"{self.where}: must be a table"]

    def add(self, problem: str) -> None:
        self.problems.append(f"{self.where}: {problem}")

    def rule(self) -> MappingRule | None:
        if self.problems:
            return None
        kind = self.table.get("kind")
        if kind not in KINDS:
            self.add(f"kind must be one of {', '.join(KINDS)}")
            return None
        self._check_keys(kind)
        rule = MappingRule(
            kind=kind,
            name=self._text("name") or self.where,
            topics=self._texts("topics"),
            when=tuple(self._conditions()),
            absent=frozenset({"", *self._texts("absent")}),
            ts_unit=self._unit(),
            item_separator=self._text("item_separator"),
            fragment=self._flag("fragment") or "page_start" in self.table,
            page_start=self._page_start(),
            experiments=self._labels("experiments"),
            segments=self._labels("segments"),
            order_counts=_has_order(self.table.get("item_position")),
            **{key: self._source(key, _without_order(key, self.table.get(key))) for key in _SOURCES},
        )
        self._check_items(rule)
        self._check_needs(rule)
        return None if self.problems else rule

    def _check_keys(self, kind: str) -> None:
        for key in self.table:
            if key not in _KEYS[kind]:
                near = difflib.get_close_matches(str(key), _KEYS[kind], 1, 0.6)
                known = f" for kind = {kind}" if key in _ALL_KEYS else ""
                self.add(f"unknown key {key}{known}" + (f"; did you mean {near[0]}?" if near and not known else ""))

    def _check_items(self, rule: MappingRule) -> None:
        """Report values of fields that cannot be lists, and items that cannot be anything else."""
        sources = [(key, getattr(rule, key)) for key in _SOURCES]
        empty = [key for key, source in sources if source is not None and Constant([]) in source.alternatives and key != "items"]
        for key in empty:
            self.add(f"{key}: {{ value = [] }} is for items only")
        if rule.items is not None and not (
            all(isinstance(each, Path) or each == Constant([]) for each in rule.items.alternatives)
            and isinstance(rule.items.alternatives[0], Path)
            and not rule.items.rename
        ):
            self.add("items must be a path to an array, or an array of paths; { value = [] } as the last one makes an absent array empty")

    def _check_needs(self, rule: MappingRule) -> None:
        """Report fields that the kind needs and that no key gives."""
        given = self.table.keys()
        if rule.kind == "exposure":
            for key in ("user_id", "ts", "experiment", "variant"):
                if key not in given:
                    self.add(f"{key} is required")
            return
        if rule.kind in ("impression", "feedback"):
            needed = ["user_id", "ts", *(["impression_id"] if rule.kind == "impression" else [])]
            for key in needed:
                if key not in given:
                    self.add(f"{key} is required")
            if "items" not in given and "item_id" not in given:
                self.add("items or item_id is required")
        if rule.kind == "feedback" and "action" not in given and "item_action" not in given:
            self.add("action is required")
        if rule.kind == "impression" and "items" not in given and not rule.fragment:
            self.add("a list of one item from each record is a list in parts: set fragment = true, or give items")
        if rule.kind == "impression" and rule.fragment and "item_position" not in given and not given >= {"items", "page_start"}:
            self.add("fragment = true needs item_position, or page_start with items")
        if "items" not in given:
            for key in ("item_action", "item_value", "item_separator"):
                if key in given:
                    self.add(f"{key} needs items; without items, use {key.removeprefix('item_')}")

    def _text(self, key: str) -> str | None:
        found = self.table.get(key)
        if found is None or (isinstance(found, str) and found and len(found) <= 128 and found.isprintable()):
            return found
        self.add(f"{key} must be a text of 1 to 128 characters")
        return None

    def _texts(self, key: str) -> tuple[str, ...]:
        found = self.table.get(key, ())
        if isinstance(found, str):
            found = (found,)
        if isinstance(found, Sequence) and all(isinstance(text, str) for text in found):
            return tuple(found)
        self.add(f"{key} must be an array of texts")
        return ()

    def _flag(self, key: str) -> bool:
        found = self.table.get(key, False)
        if not isinstance(found, bool):
            self.add(f"{key} must be true or false")
        return found is True

    def _unit(self) -> Any:
        found = self.table.get("ts_unit", "ms")
        if found not in UNITS:
            self.add(f"ts_unit must be one of {', '.join(UNITS)}")
            return "ms"
        return found

    def _conditions(self) -> Iterator[Condition]:
        found = self.table.get("when", {})
        if not isinstance(found, Mapping):
            self.add('when must be a table such as { event = "Product Clicked" }')
            return
        for text, wanted in found.items():
            try:
                path = parse_path(str(text))
            except ValueError as error:
                self.add(f"when: {error}")
                continue
            if isinstance(wanted, Mapping) and wanted.keys() == {"present"} and isinstance(wanted["present"], bool):
                yield Condition(path, None, wanted["present"])
            elif isinstance(wanted, Mapping) and wanted.keys() == {"empty"} and isinstance(wanted["empty"], bool):
                yield Condition(path, (), wanted["empty"])
            elif isinstance(wanted, Mapping) and wanted.keys() == {"not"} and (values := _scalars(wanted["not"])):
                yield Condition(path, values, False)
            elif values := _scalars(wanted):
                yield Condition(path, values)
            else:
                self.add(
                    f"when: {text} must be a text, a whole number, true or false, an array of these, {{ not = … }}, {{ present = true }}"
                    " or { empty = true }"
                )

    def _labels(self, key: str) -> Any:
        found = self.table.get(key)
        if not isinstance(found, Mapping):
            return self._source(key, found)
        labels = {name: self._source(f"{key}.{name}", source) for name, source in found.items()}
        if "" in labels:
            self.add(f"{key}: a name must not be empty")
        return labels

    def _page_start(self) -> PageStart | None:
        found = self.table.get("page_start")
        if not (isinstance(found, Mapping) and "page" in found):
            start = self._source("page_start", found)
            return None if start is None else PageStart(start)
        size, first = found.get("size"), found.get("first", 1)
        is_whole = type(size) is int and size > 0
        if not found.keys() <= {"page", "size", "first"} or not (is_whole or isinstance(size, str)) or type(first) is not int or first < 0:
            self.add(
                "page_start must be a path, or { page = …, size = … }: size is a path or a whole number above 0, first is 1 if not given"
            )
            return None
        number, of_size = self._source("page_start", found["page"]), self._source("page_start", {"value": size} if is_whole else size)
        return None if number is None or of_size is None else PageStart(number, of_size, first)

    def _source(self, key: str, given: object) -> FieldSource | None:
        if given is None:
            return None
        try:
            return _parse_source(given)
        except ValueError as error:
            self.add(f"{key}: {error}")
            return None


_SOURCES = (
    "user_id",
    "ts",
    "impression_id",
    "items",
    "item_id",
    "item_position",
    "item_team",
    "action",
    "value",
    "item_action",
    "item_value",
    "experiment",
    "variant",
)


def _scalars(wanted: object) -> tuple[str | int | bool, ...]:
    values = tuple(wanted) if isinstance(wanted, list | tuple) else (wanted,)
    return values if all(isinstance(value, str | int) for value in values) else ()


def _parse_source(given: object) -> FieldSource:
    """Read a path, a template, a table with a constant or with a path and its renamings, or an array of alternatives."""
    if isinstance(given, str):
        return FieldSource((_parse_text(given),))
    if isinstance(given, list | tuple) and given:
        sources = [_parse_source(each) for each in given]
        return FieldSource(
            tuple(each for source in sources for each in source.alternatives), {k: v for s in sources for k, v in s.rename.items()}
        )
    if isinstance(given, Mapping) and given.keys() == {"value"} and _is_constant(given["value"]):
        value = given["value"]
        return FieldSource((Constant([] if _is_empty(value) else value),))
    if isinstance(given, Mapping) and given.keys() == {"path", "rename"}:
        rename = given["rename"]
        if isinstance(rename, Mapping) and all(isinstance(text, str) for text in rename.values()):
            return FieldSource(_parse_source(given["path"]).alternatives, dict(rename))
    raise ValueError(
        'must be a path, an array of paths, { value = "a constant" } (a text, a whole number, or [] for items),'
        ' or { path = …, rename = { from = "to" } }'
    )


def _is_constant(value: object) -> bool:
    return (type(value) is str and value != "") or type(value) is int or _is_empty(value)


def _is_empty(value: object) -> bool:
    return isinstance(value, list | tuple) and not value


_ORDER: Final = {"order": True}
"""The last alternative of item_position: a list without any position has the order of its array."""


def _has_order(given: object) -> bool:
    return isinstance(given, list | tuple) and bool(given) and given[-1] == _ORDER


def _without_order(key: str, given: object) -> object:
    return given[:-1] if key == "item_position" and isinstance(given, list | tuple) and _has_order(given) else given


def _parse_text(text: str) -> Path | Template:
    if "{" not in text:
        return parse_path(text)
    pieces = _BRACES.split(text)
    if any("{" in piece or "}" in piece for piece in pieces[::2]):
        raise ValueError(f"{text!r}: each brace needs its partner")
    parts = (piece if index % 2 == 0 else parse_path(piece) for index, piece in enumerate(pieces))
    return Template(text, tuple(part for part in parts if part))
