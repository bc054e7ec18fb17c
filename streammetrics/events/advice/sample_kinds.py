"""The kinds of records among samples: lists, reactions and others, with what tells them apart, their items and their user. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from streammetrics.events.advice.sample_fields import (
    NAME,
    FieldValues,
    JsonRecord,
    are_distinct,
    are_ids,
    are_places,
    are_ranks,
    are_times,
    arrays_of,
    best_named,
    distinct_in,
    flat,
    inside,
)
from streammetrics.events.mappings.paths import parse_path, walker

KINDS_SHOWN_MAX: Final = 20
KINDS_MIN: Final = 4
_DIGIT: Final = re.compile(r"[0-9]")
_VERSION: Final = re.compile(r"v?[0-9]+(\.[0-9]+)+")

_REACTIONS: tuple[str, ...] = ("click", "select", "order", "purchase", "cart", "interaction", "feedback", "watch", "tap", "open", "buy")
_REACTIONS += ("play", "checkout", "booking", "booked", "reserv", "bought", "sale", "sold", "transaction", "payment", "invoice")
_REACTIONS += ("download", "progress")
"""Words in the names of kinds that say that a user did something."""
_SHOWN: Final = ("impress", "shown", "expos", "display", "served", "render", "visible", "viewable", "seen")

_SELECTORS = ("event", "event_name", "eventname", "event_type", "eventtype", "action", "action_name", "type", "kind", "name")
_USERS: tuple[str, ...] = ("user_id", "userid", "user", "uid", "customer_id", "visitor_id", "visitor", "anonymous_id", "anonymousid")
_USERS += ("user_pseudo_id", "client_id", "clientid", "usertoken", "device_id", "session_id", "sessionid", "session")
USER_WORDS: tuple[str, ...] = ("user", "visitor", "customer", "member", "shopper", "reader", "viewer", "buyer", "person", "profile")
USER_WORDS += ("account", "subscriber", "guest", "client", "cookie", "device", "uid", "session", "who")

ITEMS = ("item_id", "itemid", "product_id", "productid", "object_id", "objectid", "sku", "asin", "item", "product", "document_id", "id")


class RecordKind(NamedTuple):
    """Records of one kind: their condition as TOML, the name of the kind, their fields, and what reactions among all samples name."""

    when: str
    name: str
    members: Sequence[JsonRecord]
    fields: FieldValues
    reactions: frozenset[str] = frozenset()


def selector_of(samples: Sequence[JsonRecord], fields: FieldValues) -> str | None:
    """Return the path that tells kinds of records apart: a text with few values, by its name or because it tells lists apart."""
    few = max(KINDS_MIN, min(KINDS_SHOWN_MAX, len(samples) // 2))
    texts = {path: values for path, values in inside(fields, "").items() if all(isinstance(value, str) for value in values)}
    fitting = {path: set(values) for path, values in texts.items() if 1 < len(set(values)) <= few}
    named = [(len(values) - _SELECTORS.index(path.lower()) / 100, path) for path, values in fitting.items() if path.lower() in _SELECTORS]
    if named:
        return min(named)[1]
    with_array = [record for record in samples if array_of(kind_of("", "", [record])) is not None]
    others = [record for record in samples if record not in with_array]
    for path, values in fitting.items():
        get = walker(parse_path(path).steps)
        of_lists, of_others = set(map(get, with_array)), set(map(get, others))
        tells_apart = of_lists and of_others and of_lists.isdisjoint(of_others) and None not in of_lists | of_others
        if tells_apart and len(values) < len(texts[path]) and not are_times(list(values)):
            return path
    return None


def kind_of(when: str, name: str, members: Sequence[JsonRecord]) -> RecordKind:
    return RecordKind(when, name, members, flat(members))


def kinds_of(samples: Sequence[JsonRecord], selector: str | None) -> list[RecordKind]:
    """Return the kinds of records: by the selector, or else by whether they have an array of items."""
    groups = _kinds_of(samples, selector)
    reacting = [group for group in groups if array_of(group) is None or is_reaction(group)]
    named = frozenset(str(value) for group in reacting for values in inside(group.fields, "").values() for value in values)
    return [group._replace(reactions=named) for group in groups]


def _kinds_of(samples: Sequence[JsonRecord], selector: str | None) -> list[RecordKind]:
    if selector is not None:
        get = walker(parse_path(selector).steps)
        members: dict[Any, list[JsonRecord]] = {}
        for record in samples:
            value = get(record)
            members.setdefault(value if isinstance(value, str) else None, []).append(record)
        return [
            kind_of("" if value is None else f"{key_text(selector)} = {toml_text(value)}", value or "", own)
            for value, own in members.items()
        ]
    array = array_of(kind_of("", "", samples))
    if array is None:
        return [kind_of("", "", samples)]
    get = walker(parse_path(array).steps)
    having, others = [record for record in samples if get(record) is not None], [record for record in samples if get(record) is None]
    if not others:
        return [kind_of("", "", samples)]
    present = f"{key_text(array)} = {{ present = {{}} }}"
    return [kind_of(present.replace("{}", "true", 1), "", having), kind_of(present.replace("{}", "false", 1), "", others)]


def array_of(group: RecordKind) -> str | None:
    """Return the array that most likely holds items: with what reactions name, or else the longest.

    Its elements are objects with a distinct id each, or texts.
    """
    fields = group.fields
    arrays = [path for path, values in fields.items() if "[]" not in path and any(isinstance(value, list) for value in values)]
    items = {path: _item_paths(fields, path) for path in arrays}

    def rank(path: str) -> tuple[int, int]:
        shared = {str(value) for name in items[path] for value in fields.get(name, ())} & group.reactions
        return len(shared), sum(map(len, arrays_of(fields[path])))

    return max((path for path in arrays if items[path] and not _holds_lists(group, path, items[path])), key=rank, default=None)


def _holds_lists(group: RecordKind, array: str, items: Sequence[str]) -> bool:
    """Return whether reactions name what arrays inside the elements hold, such as the shelves of a page, and not the elements."""

    def is_named(path: str) -> bool:
        return any(str(value) in group.reactions for value in group.fields.get(path, ()))

    inner = [path for path in group.fields if path.startswith(f"{array}[].") and "[]" in path[len(array) + 2 :]]
    return any(map(is_named, inner)) and not any(map(is_named, items))


def _item_paths(fields: FieldValues, array: str) -> list[str]:
    """Return the paths at which the elements of an array may have ids of items."""
    return [f"{array}[]"] if f"{array}[]" in fields else [f"{array}[].{name}" for name in _item_names(fields, array)]


def _item_names(fields: FieldValues, array: str) -> list[str]:
    """Return the paths inside the elements of an array that may be the id of an item."""
    plain, arrays = inside(fields, array), arrays_of(fields[array])
    named = best_named(plain, ITEMS, (), are_ids)
    distinct = [path for path, values in plain.items() if _is_item(arrays, path.strip('"'), values)]
    return list(dict.fromkeys([*([named] if named else []), *distinct]))


def _is_item(arrays: Sequence[Sequence[Any]], name: str, values: Sequence[Any]) -> bool:
    return distinct_in(arrays, name) and not (are_places(values) and are_ranks(arrays, name))


def item_name(fields: FieldValues, array: str, reactions: Collection[str]) -> str | None:
    """Return the id of an item inside an array: what reactions name, or else the best name, or else the first id."""
    plain = inside(fields, array)
    candidates = _item_names(fields, array)
    shared = [path for path in candidates if any(str(value) in reactions for value in plain[path])]
    return next(iter([*shared, *candidates]), None)


def is_reaction(kind: RecordKind) -> bool:
    """Return whether the name of a kind says that a user did something."""
    return any(word in kind.name.lower() for word in _REACTIONS) and not says_shown(kind)


def says_shown(kind: RecordKind) -> bool:
    """Return whether the name of a kind says that users were shown something."""
    return any(word in kind.name.lower() for word in _SHOWN)


def shown_by(groups: Sequence[RecordKind], reactions: Collection[str]) -> tuple[set[str], set[str]]:
    """Return the items that lists show, and all ids of these records that only they have once."""
    items, ids = set[str](), set[str]()
    for group in groups:
        array = array_of(group)
        if array is None or is_reaction(group):
            continue
        name = None if f"{array}[]" in group.fields else item_name(group.fields, array, reactions)
        values = group.fields.get(f"{array}[]" if name is None else f"{array}[].{name}", [])
        items |= set(map(str, values))
        for own in inside(group.fields, "").values():
            if are_ids(own) and are_distinct(own):
                ids |= set(map(str, own))
    return items, ids


def user_of(groups: Sequence[RecordKind], fields: FieldValues, selector: str | None) -> str | None:
    """Return the field of the user: by its name, or the id with most values that all kinds of records have and that several lists share."""
    plain = {path: values for path, values in inside(fields, "").items() if path != selector}
    names = [
        (-len(values), _USERS.index(last), path) for path, values in plain.items() if (last := _last(path)) in _USERS and are_ids(values)
    ]
    if names:
        return min(names)[2]
    if (worded := best_named(plain, (), USER_WORDS, are_ids)) is not None:
        return worded
    lists = [group for group in groups if array_of(group) is not None and not is_reaction(group)]
    found = [path for path, values in plain.items() if _repeats(values) and all(path in group.fields for group in groups)]
    own = [path for path in found if any(are_distinct(group.fields[path]) for group in lists if len(group.members) > 1)]
    others = [path for path in found if path not in own] or (own if len(own) == 1 else [])
    return max(others, key=lambda path: (isinstance(plain[path][0], str), len(set(plain[path]))), default=None)


def _repeats(values: Sequence[Any]) -> bool:
    """Return whether values may be those of users: ids with a digit that repeat, and neither versions nor small numbers."""
    texts = list(map(str, values))
    is_id = are_ids(values) and not are_places(values) and all(_DIGIT.search(text) and not _VERSION.fullmatch(text) for text in texts)
    return is_id and 1 < len(set(texts)) < len(texts)


def _last(path: str) -> str:
    return path.rpartition(".")[2].strip('"').lower()


def key_text(path: str) -> str:
    return path if NAME.fullmatch(path) else toml_text(path)


def toml_text(text: str) -> str:
    """Return a TOML string. Characters beyond ASCII stay as they are: TOML has no escape by surrogates. DEL needs one."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
