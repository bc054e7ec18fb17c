"""Lists whose items come one by one, in a record each, and reactions that lie inside the record of a list. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from streammetrics.events.advice.sample_fields import (
    are_distinct,
    are_ids,
    are_places,
    arrays_of,
    best_named,
    inside,
    place_of,
    share_in,
)
from streammetrics.events.advice.sample_kinds import ITEMS, RecordKind, array_of, is_reaction, item_name, says_shown
from streammetrics.events.mappings.paths import parse_path, walker

POSITIONS: Final = ("position", "rank", "ordinal", "index", "item_list_index", "place", "pos")
POSITION_WORDS: Final = ("position", "rank", "slot", "place", "ordinal", "index", "idx", "pos")
_YES: Final = (True, 1, "1", "true")
_NO: Final = (False, 0, "0", "false")


class ItemRows(NamedTuple):
    """The fields of records that show one item each: the id of the list, the item, and its position."""

    list_id: str
    item: str
    position: str


def rows_of(kind: RecordKind, user: str | None) -> ItemRows | None:
    """Return the fields of records that each show one item of a list; None if these records are of another form.

    Several of them share a list, in which each has another item and another position.
    """
    if array_of(kind) is not None or is_reaction(kind) or (kind.name and not says_shown(kind)):
        return None
    plain = inside(kind.fields, "")
    position = best_named(plain, POSITIONS, POSITION_WORDS, are_places)
    ids = {path: values for path, values in plain.items() if path != user and are_ids(values) and not are_places(values)}
    ids = {path: values for path, values in ids.items() if len(values) == len(kind.members)}
    named = best_named(ids, ITEMS[:-1], (), are_ids)
    items = [path for path in ids if not are_distinct(ids[path])] if named is None else [named]
    if position is None:
        return None
    pairs = [ItemRows(path, item, position) for item in items for path in ids if path != item]
    found = [rows for rows in pairs if _groups(kind.members, rows, user, without_gaps=named is None)]
    return max(found, key=lambda rows: len(set(map(str, ids[rows.list_id]))), default=None)


def _groups(members: Sequence[Mapping[str, Any]], rows: ItemRows, user: str | None, *, without_gaps: bool) -> bool:
    """Return whether records form lists by these fields: each of one user, with no item and no position twice.

    Without gaps, the positions of each list are also 0, 1, 2 … or 1, 2, 3 …
    """
    list_of, item_of, position_of = (walker(parse_path(path).steps) for path in rows)
    user_of = walker(parse_path(user).steps) if user is not None else lambda record: None
    lists: dict[str, list[tuple[str, int, str]]] = {}
    for record in members:
        row = str(item_of(record)), place_of(position_of(record)) or 0, str(user_of(record))
        lists.setdefault(str(list_of(record)), []).append(row)
    for found in lists.values():
        items, places, users = zip(*found, strict=True)
        has_gaps = min(places) > 1 or max(places) - min(places) >= len(places)
        if len(set(users)) > 1 or not (are_distinct(items) and are_distinct(places)) or (without_gaps and has_gaps):
            return False
    return len(members) > len(lists)


def flags_of(kind: RecordKind) -> Iterator[tuple[str, Any]]:
    """Yield the fields that say yes or no, and the value of yes."""
    for path, values in inside(kind.fields, "").items():
        yes = [value for value in values if value in _YES]
        if yes and all(value in _YES or value in _NO for value in values):
            yield path, yes[0]


def arrays_within(kind: RecordKind) -> Iterator[tuple[str, str | None]]:
    """Yield the arrays of a list's record that hold some of its items, and the field of the item in them (None: they hold ids)."""
    array = array_of(kind)
    for path in kind.fields:
        if array is None or path == array or "[]" in path or not arrays_of(kind.fields[path]):
            continue
        name = None if f"{path}[]" in kind.fields else item_name(kind.fields, path, set())
        found, shown = (
            _ids(kind, path, name),
            set(map(str, _ids(kind, array, None) or _ids(kind, array, item_name(kind.fields, array, set())))),
        )
        if found and share_in(found, set(map(str, shown))) == 1:
            yield path, name


def _ids(kind: RecordKind, array: str, name: str | None) -> Sequence[Any]:
    return kind.fields.get(f"{array}[]" if name is None else f"{array}[].{name}", [])
