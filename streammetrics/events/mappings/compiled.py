"""Mappings -> functions. Each mapping is compiled once, for records of one kind of access (see `paths`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.items import Item, moved, ranked
from streammetrics.events.malformed import malformed
from streammetrics.events.mappings.labels import NO_LABELS, labels_reader
from streammetrics.events.mappings.nearest import nearest_path
from streammetrics.events.mappings.paths import Access, DictAccess, Get, Path
from streammetrics.events.mappings.plain import json_in_text
from streammetrics.events.mappings.rules import Condition, FieldSource, MappingRule
from streammetrics.events.mappings.values import (
    checked_position,
    checked_text,
    first_of,
    label_reader,
    missing,
    number_reader,
    reader_of,
    shown,
    text_reader,
    time_reader,
)
from streammetrics.events.model import Event, EventLimits, Exposure, Feedback, Impression, PartsDecoder, RecordPart

Whole: TypeAlias = PartsDecoder
"""A decoder of a whole record in another format."""
Build: TypeAlias = Callable[[Any, bytes], Sequence[RecordPart]]
"""Returns the events of a parsed record. The bytes are the record as sent."""
ItemIds: TypeAlias = Callable[[Any], tuple[Sequence[Any], list[str]]]
"""Returns the elements of a list in a record, and their ids."""


class Compiled(NamedTuple):
    """A compiled mapping. `matches` is None if it applies to every record; `build` is None if it ignores the record."""

    name: str
    matches: Get | None
    build: Build | None


def compile_rule(rule: MappingRule, access: Access, limits: EventLimits, formats: Mapping[str, Whole]) -> Compiled:
    """Compile one mapping. `formats` decodes records of the kinds native and ubi."""
    matches = _all_of([_condition(condition, access, rule.absent) for condition in rule.when])
    if rule.kind == "impression":
        return Compiled(rule.name, matches, _impression(rule, access, limits))
    if rule.kind == "feedback":
        return Compiled(rule.name, matches, _feedback(rule, access, limits))
    if rule.kind == "exposure":
        return Compiled(rule.name, matches, _exposure(rule, access, limits))
    if rule.kind == "ignore":
        return Compiled(rule.name, matches, None)
    decode = formats[rule.kind]
    return Compiled(rule.name, matches, lambda record, value: decode(value))


def _all_of(conditions: list[Get]) -> Get | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return lambda record: all(holds(record) for holds in conditions)


def _condition(condition: Condition, access: Access, absent: frozenset[str]) -> Get:
    values, wanted = condition.values, condition.holds_if_found
    get = access.array(condition.path) if values is None else access.get(condition.path)
    if values is None:

        def is_present(record: Any) -> bool:
            found = get(record)
            return (found is not None and not (type(found) is str and found in absent)) is wanted

        return is_present
    if wanted and all(type(value) is str for value in values):
        texts = frozenset(values)

        def is_one_of_texts(record: Any) -> bool:
            found = get(record)
            return type(found) is str and found in texts

        return is_one_of_texts

    def is_one_of(record: Any) -> bool:
        found = get(record)
        return any(type(found) is type(value) and found == value for value in values) is wanted

    return is_one_of


def _impression(rule: MappingRule, access: Access, limits: EventLimits) -> Build:
    assert rule.user_id is not None
    assert rule.ts is not None
    assert rule.impression_id is not None
    ids_max, absent = limits.id_chars_max, rule.absent
    user_of = text_reader("user_id", rule.user_id, access, ids_max, absent)
    list_of = text_reader("impression_id", rule.impression_id, access, ids_max, absent)
    time_of = time_reader("ts", rule.ts, access, absent, rule.ts_unit)
    inside = _element_access(rule, access)
    items_of = _items(rule, access, inside, limits)
    rank, on_page = _ranker(rule, inside, limits), _pages(rule, access, limits)
    experiments_of, segments_of = labels_reader("experiments", rule, access, limits), labels_reader("segments", rule, access, limits)

    def build(record: Any, value: bytes) -> Sequence[Event]:
        impression_id, user_id = list_of(record), user_of(record)
        if impression_id is None or user_id is None:
            missing(f"impression_id ({rule.impression_id})" if impression_id is None else f"user_id ({rule.user_id})")
        ts = time_of(record)
        elements, ids = items_of(record)
        items, positions, teams = (tuple(ids), None, ()) if rank is None else rank(elements, ids)
        if on_page is not None and positions:
            positions = on_page(record, positions)
        experiments, notes = NO_LABELS if experiments_of is None else experiments_of(record)
        segments, more_notes = NO_LABELS if segments_of is None else segments_of(record)
        return (Impression(impression_id, user_id, ts, items, experiments, segments, positions, teams, notes + more_notes),)

    return build


def _feedback(rule: MappingRule, access: Access, limits: EventLimits) -> Build:
    assert rule.user_id is not None
    assert rule.ts is not None
    ids_max, labels_max, absent = limits.id_chars_max, limits.label_chars_max, rule.absent
    user_of = text_reader("user_id", rule.user_id, access, ids_max, absent)
    time_of = time_reader("ts", rule.ts, access, absent, rule.ts_unit)
    inside = _element_access(rule, access)
    items_of = _items(rule, access, inside, limits)
    list_of = None if rule.impression_id is None else text_reader("impression_id", rule.impression_id, access, ids_max, absent)

    def label(name: str, source: FieldSource | None, place: Access) -> Get | None:
        return None if source is None else text_reader(name, source, place, labels_max, absent, "bad_label")

    def number(name: str, source: FieldSource | None, place: Access) -> Get | None:
        return None if source is None else number_reader(name, source, place, absent)

    action_of, value_of = label("action", rule.action, access), number("value", rule.value, access)
    own_action, own_value = label("item_action", rule.item_action, inside), number("item_value", rule.item_value, inside)
    action_name = f"action ({rule.item_action or rule.action})"

    def build(record: Any, value: bytes) -> Sequence[Event]:
        user_id = user_of(record)
        if user_id is None:
            missing(f"user_id ({rule.user_id})")
        ts = time_of(record)
        impression_id = None if list_of is None else list_of(record)
        shared_action = None if action_of is None else action_of(record)
        shared_value = None if value_of is None else value_of(record)
        elements, ids = items_of(record)
        events = []
        for element, item_id in zip(elements, ids, strict=True):
            action = shared_action if own_action is None else own_action(element) or shared_action
            if action is None:
                missing(action_name)
            amount = shared_value if own_value is None else own_value(element)
            events.append(Feedback(user_id, ts, item_id, action, shared_value if amount is None else amount, impression_id))
        return events

    return build


def _exposure(rule: MappingRule, access: Access, limits: EventLimits) -> Build:
    assert rule.user_id is not None
    assert rule.ts is not None
    assert rule.experiment is not None
    assert rule.variant is not None
    labels_max, absent = limits.label_chars_max, rule.absent
    user_of = text_reader("user_id", rule.user_id, access, limits.id_chars_max, absent)
    time_of = time_reader("ts", rule.ts, access, absent, rule.ts_unit)
    experiment_of = text_reader("experiment", rule.experiment, access, labels_max, absent, "bad_label")
    variant_of = label_reader("variant", rule.variant, access, labels_max, absent)

    def build(record: Any, value: bytes) -> Sequence[Event]:
        user_id, ts, experiment, variant = user_of(record), time_of(record), experiment_of(record), variant_of(record)
        if user_id is None:
            missing(f"user_id ({rule.user_id})")
        if experiment is None or variant is None:
            missing(f"experiment ({rule.experiment})" if experiment is None else f"variant ({rule.variant})")
        return (Exposure(user_id, ts, experiment, variant),)

    return build


def _element_access(rule: MappingRule, access: Access) -> Access:
    """Return the access to one item: an element of the array, or the record itself."""
    if rule.items is None:
        return access
    paths = array_paths(rule.items)
    return access.elements(paths[0]) if len(paths) == 1 else DictAccess()


def array_paths(source: FieldSource) -> list[Path]:
    """Return the paths at which an array may be."""
    return [path for path in source.alternatives if isinstance(path, Path)]


def _items(rule: MappingRule, access: Access, inside: Access, limits: EventLimits) -> ItemIds:
    ids_max, absent = limits.id_chars_max, rule.absent
    id_of = None if rule.item_id is None else reader_of(rule.item_id, inside, absent)
    if rule.items is None:
        assert rule.item_id is not None
        one_of, name = text_reader("item_id", rule.item_id, access, ids_max, absent), f"item_id ({rule.item_id})"

        def single(record: Any) -> tuple[Sequence[Any], list[str]]:
            item = one_of(record)
            if item is None:
                missing(name)
            return (record,), [item]

        return single
    paths, separator = array_paths(rule.items), rule.item_separator
    first = access.array(paths[0]) if len(paths) == 1 else first_of([access.get(path) for path in paths], absent)
    name, may_be_absent = str(rule.items), len(paths) < len(rule.items.alternatives)
    suffix = "" if rule.item_id is None else f".{rule.item_id}"

    def several(record: Any) -> tuple[Sequence[Any], list[str]]:
        elements = first(record)
        if type(elements) is str and separator is None and type(inside_text := json_in_text(elements)) is list:
            elements = inside_text
        if type(elements) is not list:
            elements = [] if elements is None and may_be_absent else _split(name, elements, separator, absent)
        if len(elements) > limits.items_max:
            fields.check_count(len(elements), limits)
        ids = elements if id_of is None else [id_of(element) for element in elements]
        if ids and not (set(map(type, ids)) == _TEXT and _are_usable(ids, ids_max, absent)):
            ids = [_item(f"items ({name}[{at}]{suffix})", found, ids_max, absent) for at, found in enumerate(ids)]
        return elements, ids

    return several


_TEXT, _WHOLE = {str}, {int}


def _are_ascending(positions: list[Any]) -> bool:
    """Return whether items are in the order of their positions already, the common case."""
    if set(map(type, positions)) != _WHOLE or positions[0] < 0 or positions[-1] > fields.POSITION_MAX:
        return False
    return positions == sorted(positions) and len(set(positions)) == len(positions)


def _are_usable(ids: Sequence[str], chars_max: int, absent: frozenset[str]) -> bool:
    return "".join(ids).isprintable() and max(map(len, ids)) <= chars_max and absent.isdisjoint(ids)


def _split(path: str, found: object, separator: str | None, absent: frozenset[str]) -> list[str]:
    if found is None or (type(found) is str and found in absent):
        missing(f"items ({path})")
    if type(found) is str and separator is not None:
        return [piece for piece in map(str.strip, found.split(separator)) if piece]
    advice = "correct the path in the mapping, or set item_separator for ids in one text"
    raise malformed("bad_value", f"items ({path}) must be an array", shown(found), advice)


def _item(where: str, found: object, chars_max: int, absent: frozenset[str]) -> str:
    text = checked_text(where, found, chars_max, absent)
    if text is None:
        missing(where)
    return text


def _ranker(rule: MappingRule, inside: Access, limits: EventLimits) -> Callable[[Sequence[Any], list[str]], Any] | None:
    """Return a function that puts items in the order of their positions, or None if the mapping has neither positions nor teams."""
    if rule.item_position is None and rule.item_team is None and rule.page_start is None:
        return None
    absent, is_fragment = rule.absent, rule.fragment
    position_of = None if rule.item_position is None else reader_of(rule.item_position, inside, absent)
    team_of = (
        None if rule.item_team is None else text_reader("item_team", rule.item_team, inside, limits.label_chars_max, absent, "bad_label")
    )
    where = f"item_position ({rule.item_position})"
    needs_positions = position_of is not None and not rule.order_counts
    first = None if rule.page_start is None else limits.first_place or 0  # pages need no positions
    order_is_enough = team_of is None and not is_fragment and limits.first_place is None

    def rank(elements: Sequence[Any], ids: list[str]) -> tuple[tuple[str, ...], tuple[int, ...] | None, tuple[str, ...]]:
        if position_of is None:
            positions: list[Any] = [None] * len(ids) if first is None else [*range(first, first + len(ids))]
        else:
            positions = [position_of(element) for element in elements]
        if order_is_enough and _are_ascending(positions):
            return tuple(ids), None, ()
        checked = [checked_position(where, position, absent) for position in positions]
        if needs_positions and checked and not any(position is not None for position in checked):
            raise _without_position(rule, elements[0])
        teams = [None] * len(ids) if team_of is None else [team_of(element) for element in elements]
        try:
            return ranked([Item(*each) for each in zip(ids, checked, teams, strict=True)], is_fragment, limits)
        except MalformedEvent as error:
            advice = "correct the path, or add { value = 0 } as a last alternative if an absent position is 0"
            raise malformed(error.reason, f"{where}: {error.detail}", shown(checked), advice) from None

    return rank


def _pages(rule: MappingRule, access: Access, limits: EventLimits) -> Callable[[Any, tuple[int, ...]], tuple[int, ...]] | None:
    """Return a function that adds the items of earlier pages to the positions of a record, or None if the mapping has no pages."""
    page, absent = rule.page_start, rule.absent
    if page is None:
        return None
    number_of, where = reader_of(page.number, access, absent), f"page_start ({page.number})"
    size_of = None if page.size is None else reader_of(page.size, access, absent)
    first = 0 if page.size is None else page.first

    def shift(record: Any, positions: tuple[int, ...]) -> tuple[int, ...]:
        number = checked_position(where, number_of(record), absent)
        start = 0 if number is None else number - first
        if start > 0 and size_of is not None:
            size = checked_position(f"{where}, size ({page.size})", size_of(record), absent)
            if not size:
                missing(f"{where}, size ({page.size})")
            start *= size
        try:
            return moved(positions, start, limits)
        except MalformedEvent as error:
            raise MalformedEvent(error.reason, f"{where}: {error.detail}") from None

    return shift


def _without_position(rule: MappingRule, element: Any) -> MalformedEvent:
    """Return the error for a list without any position. Its order must not count without a word."""
    assert rule.item_position is not None
    path = rule.item_position.alternatives[0]
    near = nearest_path(element, path) if isinstance(path, Path) else None
    meant = f"did you mean {near}? If not, " if near else ""
    advice = f"{meant}correct the path, or add {{ order = true }} as a last alternative if the order of the array counts"
    return malformed("bad_position", f"item_position ({rule.item_position}) has no value in any item of the list", None, advice)
