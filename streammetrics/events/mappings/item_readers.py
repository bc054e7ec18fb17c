"""The items of a mapped list: their ids, and their order by positions and pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.items import Item, are_ascending, moved, ranked
from streammetrics.events.malformed import malformed
from streammetrics.events.mappings.nearest import nearest_path
from streammetrics.events.mappings.paths import Access, Path, PlainAccess, is_field
from streammetrics.events.mappings.plain import json_in_text
from streammetrics.events.mappings.rules import FieldSource, MappingRule
from streammetrics.events.mappings.values import (
    POSITION,
    checked_position,
    checked_text,
    first_getter,
    first_of,
    missing,
    reader_of,
    shown,
    text_kind,
    text_reader,
)
from streammetrics.events.model import EventLimits

ItemsOf: TypeAlias = Callable[[Any], tuple[Sequence[Any], Sequence[str]]]
"""Returns the elements of a list in a record, and their ids."""
ARRAYS: Final = (list, tuple)
"""What the parsers make of an array."""
ORDERS_MAX: Final = 1_000
"""Most positions of whole lists that are remembered to be in order."""
_TEXT: Final = {str}


def _array_paths(source: FieldSource) -> list[Path]:
    """Return the paths at which an array may be."""
    return [path for path in source.alternatives if isinstance(path, Path)]


def items_reader(rule: MappingRule, access: Access, limits: EventLimits) -> tuple[ItemsOf, Access]:
    """Return a function to the items of a record, and the access to one item: an element of the array, or the record itself."""
    if rule.items is None:
        return _one_item(rule, access, limits), access
    paths, absent = _array_paths(rule.items), rule.absent
    inside: Access = PlainAccess()
    if rule.item_id is None:
        gets = [access.texts(path, limits.id_chars_max, rule.item_separator is not None) for path in paths]
    elif len(paths) == 1:
        get, inside = access.objects(paths[0])
        gets = [get]
    else:
        gets = [access.whole(path) for path in paths]
    first, ids_of = gets[0] if len(gets) == 1 else first_of(gets, absent), _ids(rule, inside, limits)
    is_quick, join = access.is_checked and absent == {""}, "".join  # the parser takes no empty texts
    name, may_be_absent = str(rule.items), len(paths) < len(rule.items.alternatives)

    def several(record: Any) -> tuple[Sequence[Any], Sequence[str]]:
        elements = first(record)
        if is_quick and type(elements) is tuple:
            try:
                join(elements)
            except TypeError:  # some of them are numbers
                pass
            else:
                return elements, elements
        if type(elements) is str and rule.item_separator is None and type(inside_text := json_in_text(elements)) is list:
            elements = inside_text
        if type(elements) not in ARRAYS:
            elements = [] if elements is None and may_be_absent else _split(name, elements, rule.item_separator, absent)
        if len(elements) > limits.items_max:
            fields.check_count(len(elements), limits)
        return elements, ids_of(elements)

    return several, inside


def _one_item(rule: MappingRule, access: Access, limits: EventLimits) -> ItemsOf:
    assert rule.item_id is not None
    one_of, name = text_reader("item_id", rule.item_id, access, limits.id_chars_max, rule.absent), f"item_id ({rule.item_id})"

    def single(record: Any) -> tuple[Sequence[Any], Sequence[str]]:
        item = one_of(record)
        if item is None:
            missing(name)
        return (record,), (item,)

    return single


def _ids(rule: MappingRule, inside: Access, limits: EventLimits) -> Callable[[Sequence[Any]], Sequence[str]]:
    """Return a function from the elements of an array to their ids."""
    kind, absent, ids_max = text_kind(limits.id_chars_max), rule.absent, limits.id_chars_max
    id_of = None if rule.item_id is None else reader_of(rule.item_id, inside, absent, kind)
    first = first_getter(rule.item_id, inside, kind)
    is_usual = absent == {""}
    where = f"items ({rule.items}[{{}}]{'' if rule.item_id is None else f'.{rule.item_id}'})"

    def read(elements: Sequence[Any]) -> Sequence[str]:
        if first is not None:
            ids = list(map(first, elements))
            if _are_texts(ids) and ("" not in ids if is_usual else absent.isdisjoint(ids)):  # hashes take as long as all other checks
                return ids
        found = elements if id_of is None else list(map(id_of, elements))
        texts = [str(each) if type(each) is int else each for each in found]
        if texts and not (set(map(type, texts)) == _TEXT and _are_usable(texts, ids_max, absent)):
            return [_item(where.format(at), each, ids_max, absent) for at, each in enumerate(found)]
        return texts

    return read


def _are_texts(ids: Sequence[Any]) -> bool:
    try:
        "".join(ids)
    except TypeError:
        return False
    return True


def _are_usable(ids: Sequence[str], chars_max: int, absent: frozenset[str]) -> bool:
    return "".join(ids).isprintable() and max(map(len, ids)) <= chars_max and absent.isdisjoint(ids)


def _split(path: str, found: object, separator: str | None, absent: frozenset[str]) -> list[str]:
    if found is None or (type(found) is str and found in absent):
        advice = "send it, correct the path, or add { value = [] } as a last alternative if an absent array is an empty list"
        raise malformed("missing_field", f"items ({path}) is required and must not be null or empty", None, advice)
    if type(found) is str and separator is not None:
        return [piece for piece in map(str.strip, found.split(separator)) if piece]
    advice = "correct the path in the mapping, or set item_separator for ids in one text"
    raise malformed("bad_value", f"items ({path}) must be an array", shown(found), advice)


def _item(where: str, found: object, chars_max: int, absent: frozenset[str]) -> str:
    text = checked_text(where, found, chars_max, absent)
    if text is None:
        missing(where)
    return text


def ranker(rule: MappingRule, inside: Access, limits: EventLimits) -> Callable[[Sequence[Any], Sequence[str]], Any] | None:
    """Return a function that puts items in the order of their positions, or None if the mapping has neither positions nor teams."""
    if rule.item_position is None and rule.item_team is None and rule.page_start is None:
        return None
    absent, is_fragment = rule.absent, rule.fragment
    position_of = None if rule.item_position is None else reader_of(rule.item_position, inside, absent, POSITION)
    team_of = (
        None if rule.item_team is None else text_reader("item_team", rule.item_team, inside, limits.label_chars_max, absent, "bad_label")
    )
    where = f"item_position ({rule.item_position})"
    needs_positions = position_of is not None and not rule.order_counts
    first = None if rule.page_start is None else limits.first_place or 0  # pages need no positions
    order_is_enough = team_of is None and not is_fragment and limits.first_place is None
    is_single = rule.items is None and is_fragment and team_of is None and limits.first_place is None and inside.is_checked
    remembers = inside.is_checked and rule.item_position is not None and all(map(_is_hashable, rule.item_position.alternatives))
    ascending: set[tuple[Any, ...]] = set()

    def rank(elements: Sequence[Any], ids: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...] | None, tuple[str, ...]]:
        if is_single and position_of is not None and type(position := position_of(elements[0])) is int:
            return tuple(ids), (position,), ()
        if position_of is None:
            positions = (None,) * len(ids) if first is None else (*range(first, first + len(ids)),)
        else:
            positions = tuple(map(position_of, elements))
        if remembers and positions in ascending:
            return tuple(ids), None, ()
        checked = [checked_position(where, position, absent) for position in positions]
        if order_is_enough and are_ascending(checked):
            if remembers and len(ascending) < ORDERS_MAX:
                ascending.add(positions)
            return tuple(ids), None, ()
        if needs_positions and checked and not any(position is not None for position in checked):
            raise _without_position(rule, elements[0])
        teams = [None] * len(ids) if team_of is None else [team_of(element) for element in elements]
        try:
            return ranked([Item(*each) for each in zip(ids, checked, teams, strict=True)], is_fragment, limits)
        except MalformedEvent as error:
            advice = "correct the path, or add { value = 0 } as a last alternative if an absent position is 0"
            raise malformed(error.reason, f"{where}: {error.detail}", shown(checked), advice) from None

    return rank


def page_shift(rule: MappingRule, access: Access, limits: EventLimits) -> Callable[[Any, tuple[int, ...]], tuple[int, ...]] | None:
    """Return a function that adds the items of earlier pages to the positions of a record, or None if the mapping has no pages."""
    page, absent = rule.page_start, rule.absent
    if page is None:
        return None
    number_of, where = reader_of(page.number, access, absent, POSITION), f"page_start ({page.number})"
    size_of = None if page.size is None else reader_of(page.size, access, absent, POSITION)
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


def _is_hashable(alternative: object) -> bool:
    """Return whether the typed parser makes single values only of what an alternative finds."""
    return not isinstance(alternative, Path) or is_field(alternative)


def _without_position(rule: MappingRule, element: Any) -> MalformedEvent:
    """Return the error for a list without any position. Its order must not count without a word."""
    assert rule.item_position is not None
    path = rule.item_position.alternatives[0]
    near = nearest_path(element, path) if isinstance(path, Path) else None
    meant = f"did you mean {near}? If not, " if near else ""
    advice = f"{meant}correct the path, or add {{ order = true }} as a last alternative if the order of the array counts"
    return malformed("bad_position", f"item_position ({rule.item_position}) has no value in any item of the list", None, advice)
