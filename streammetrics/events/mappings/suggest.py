"""Proposes mappings for sample records, from the names and the forms of their fields. A draft for people to check. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

JsonRecord: TypeAlias = Mapping[str, Any]
FieldValues: TypeAlias = Mapping[str, list[Any]]
"""The values of each path in the samples. `[]` marks the elements of an array."""

DEPTH_MAX: Final = 4
NOTHING_FOUND: Final = "# No mapping can be proposed: no field of these records has the name of an item, or holds a list of items."
KINDS_MIN: Final = 4
KINDS_SHOWN_MAX: Final = 20
_REACTIONS = ("click", "select", "order", "purchase", "cart", "interaction", "feedback", "watch")
_MEANT = (("purchase", "purchase"), ("order", "purchase"), ("click", "click"), ("select", "click"), ("watch", "watch"), ("skip", "skip"))
"""A word in the name of an action, and the action that is probably meant."""
_SELECTORS = ("event", "event_name", "eventname", "event_type", "eventtype", "action", "action_name", "type", "kind", "name")
_USERS: tuple[str, ...] = (
    "user_id",
    "userid",
    "user",
    "uid",
    "customer_id",
    "visitor_id",
    "visitor",
    "anonymous_id",
    "anonymousid",
    "user_pseudo_id",
)
_USERS += ("client_id", "clientid", "usertoken", "device_id", "session_id", "sessionid", "session")
_TIMES = ("ts", "timestamp", "time", "event_time", "eventtime", "event_timestamp", "occurred_at", "created_at", "at", "date")
_LISTS: tuple[str, ...] = (
    "impression_id",
    "list_id",
    "search_id",
    "query_id",
    "queryid",
    "request_id",
    "ranking",
    "search",
    "message_id",
    "messageid",
)
_LISTS = ("impressionid", "listid", "searchid", "requestid", *_LISTS)
_LISTS += ("event_id", "id")
_ITEMS = ("item_id", "itemid", "product_id", "productid", "object_id", "objectid", "sku", "asin", "item", "product", "document_id", "id")
_POSITIONS = ("position", "rank", "ordinal", "index", "item_list_index", "place", "pos")
_ACTIONS = ("action", "action_name", "interaction_type", "interaction")
_VALUES = ("value", "dwell_time", "seconds", "duration", "price", "amount")
_NAME = re.compile(r"[A-Za-z0-9_-]+")


def suggested_mappings(records: Iterable[JsonRecord], graded: Collection[str] = ()) -> str:
    """Return TOML text with mappings for these records. Fields that it cannot find are comments.

    `graded` are the actions that have a grade. Another action is renamed to one of them if its name says what it is.

    >>> print(suggested_mappings([{"kind": "view", "uid": "u", "t": 1, "time": 1772359200, "search": "q", "skus": ["a", "b"]}]))
    # Proposed from 1 record. Check every line, then try it: streammetrics decode SOURCE --config THIS_FILE
    <BLANKLINE>
    [[events.mappings]]
    kind = "impression"
    user_id = "uid"
    ts = "time"
    ts_unit = "s"
    impression_id = "search"
    items = "skus"
    <BLANKLINE>
    """
    samples = list(records)
    selector = _selector(samples)
    groups: dict[Any, list[JsonRecord]] = {}
    for record in samples:
        value = None if selector is None else record.get(selector)
        groups.setdefault(value if isinstance(value, str) else None, []).append(record)
    count = f"{len(samples)} record{'' if len(samples) == 1 else 's'}"
    lines = [f"# Proposed from {count}. Check every line, then try it: streammetrics decode SOURCE --config THIS_FILE", ""]
    ignored = []
    user = _user(samples)
    for value, members in list(groups.items())[:KINDS_SHOWN_MAX]:
        text = _mapping(members, selector, value, user, graded)
        if text is None:
            ignored.append(value)
        else:
            lines += [*text, ""]
    if len(ignored) == len(groups):
        return f"{NOTHING_FOUND}\n"
    if ignored:
        lines += ["[[events.mappings]]", 'kind = "ignore"', *_when(selector, ignored), ""]
    return "\n".join(lines)


def _selector(samples: Sequence[JsonRecord]) -> str | None:
    """Return the field that tells kinds of records apart: a text with few values, which several records share."""
    best: tuple[float, str] | None = None
    for name in dict.fromkeys(name for record in samples for name in record):
        values = [record.get(name) for record in samples]
        texts = {value for value in values if isinstance(value, str)}
        if name.lower() not in _SELECTORS or not 1 < len(texts) <= max(KINDS_MIN, min(KINDS_SHOWN_MAX, len(samples) // 2)):
            continue
        score = len(texts) - _SELECTORS.index(name.lower()) / 100
        if best is None or score > best[0]:
            best = score, name
    return None if best is None else best[1]


def _user(samples: Sequence[JsonRecord]) -> str | None:
    """Return the field of the user that most records have."""
    fields = _flat(samples)
    found = [(-len(fields[path]), place, path) for place, name in enumerate(_USERS) if (path := _named(fields, (name,), "")) is not None]
    return min(found)[2] if found else None


def _mapping(
    members: Sequence[JsonRecord], selector: str | None, value: Any, user: str | None, graded: Collection[str]
) -> list[str] | None:
    """Return the lines of a mapping for one kind of records; None if they are neither lists nor feedback."""
    fields = _flat(members)
    array = _array(fields)
    item = _named(fields, _ITEMS, array)
    single = _named(fields, _ITEMS[:-1], "")
    if array is None and single is None:
        return None
    name = value.lower() if isinstance(value, str) else ""
    lengths = [len(found) for found in fields.get(array or "", ()) if isinstance(found, list)]
    many = sum(lengths) > len(lengths)
    is_list = array is not None and (many or single is None) and not any(word in name for word in _REACTIONS)
    time = _named(fields, _TIMES, "")
    lines = ["[[events.mappings]]", f'kind = "{"impression" if is_list else "feedback"}"', *_when(selector, [value])]
    lines += [_line("user_id", user), _line("ts", time)]
    if time is not None and (unit := _unit(fields[time])) != "ms":
        lines.append(f'ts_unit = "{unit}"')
    found = _named(fields, _LISTS, "")
    if is_list or (found is not None and found.rpartition(".")[2].lower() not in ("id", "event_id", "message_id", "messageid")):
        composed = None if found or not (user and time) else f"{{{user}}}/{{{time}}}"
        lines.append(_line("impression_id", found or composed))
    if array is not None and (is_list or single is None):
        lines.append(_line("items", array))
        if f"{array}[]" not in fields:
            lines.append(_line("item_id", item))
        if is_list and (position := _named(fields, _POSITIONS, array)) is not None:
            lines.append(_line("item_position", position))
    else:
        lines.append(_line("item_id", single))
    if not is_list:
        action = _named(fields, _ACTIONS, "") or selector
        lines.append(_action(action, fields[action], graded) if action in fields else 'action = { value = "click" }')
        if (amount := _named(fields, _VALUES, "")) is not None:
            lines.append(_line("value", amount))
    return lines


def _action(path: str, values: Sequence[Any], graded: Collection[str]) -> str:
    """Return the line of the action, with new names for those that have no grade but say what they are."""
    names = dict.fromkeys(value for value in values if isinstance(value, str) and value not in graded)
    meant = {name: action for name in names if (action := next((to for word, to in _MEANT if word in name.lower()), "")) in graded}
    if not meant:
        return _line("action", path)
    renamed = ", ".join(f"{name if _NAME.fullmatch(name) else _text(name)} = {_text(action)}" for name, action in meant.items())
    return f"action = {{ path = {_text(path)}, rename = {{ {renamed} }} }}"


def _flat(records: Iterable[JsonRecord]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for record in records:
        for path, value in _paths(record, "", 0):
            found.setdefault(path, []).append(value)
    return found


def _paths(record: JsonRecord, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        path = prefix + (name if _NAME.fullmatch(name) else f'"{name}"')
        if isinstance(value, dict) and depth < DEPTH_MAX:
            yield from _paths(value, f"{path}.", depth + 1)
        elif isinstance(value, list):
            yield path, value
            for element in value[:5]:
                if isinstance(element, dict) and depth < DEPTH_MAX:
                    yield from _paths(element, f"{path}[].", depth + 1)
                elif isinstance(element, str | int):
                    yield f"{path}[]", element
        elif value is not None:
            yield path, value


def _array(fields: FieldValues) -> str | None:
    """Return the array that most likely holds items: of objects with an item's id, or else of texts."""
    arrays = [path for path, values in fields.items() if "[]" not in path and any(isinstance(value, list) for value in values)]
    with_id = [path for path in arrays if _named(fields, _ITEMS, path) is not None]
    texts = [path for path in arrays if f"{path}[]" in fields]
    ranked = sorted([*with_id, *texts], key=lambda path: -sum(len(value) for value in fields[path] if isinstance(value, list)))
    return ranked[0] if ranked else None


def _named(fields: FieldValues, names: Sequence[str], array: str | None) -> str | None:
    """Return the path with the best name: of a record, or (with `array`) inside its elements."""
    if array is None:
        return None
    start = f"{array}[]." if array else ""
    inside = {path[len(start) :]: values for path, values in fields.items() if path.startswith(start)}
    plain = {
        path: path.rpartition(".")[2].lower() for path, values in inside.items() if "[]" not in path and not isinstance(values[0], list)
    }
    for name in names:
        matching = [path for path, last in plain.items() if last == name]
        if matching:
            return min(matching, key=lambda path: path.count("."))
    return None


def _unit(values: Sequence[Any]) -> str:
    """Guess the unit of times by their size."""
    counted: Counter[str] = Counter()
    for value in values:
        text = str(value)
        digits = len(text.partition(".")[0]) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else 0
        if digits:
            counted["s" if digits <= 11 else "ms" if digits <= 14 else "us" if digits <= 17 else "ns"] += 1
        elif not re.search(r"(Z|[+-]\d\d:?\d\d)$", text):
            counted["utc"] += 1
    return counted.most_common(1)[0][0] if counted else "ms"


def _when(selector: str | None, values: Sequence[Any]) -> list[str]:
    texts = [value for value in values if isinstance(value, str)]
    if selector is None or not texts:
        return []
    key = selector if _NAME.fullmatch(selector) else _text(selector)
    found = _text(texts[0]) if len(texts) == 1 else f"[{', '.join(map(_text, texts))}]"
    return [f"when = {{ {key} = {found} }}"]


def _line(key: str, path: str | None) -> str:
    return f'# {key} = "…"  (required, and no field has a name for it)' if path is None else f"{key} = {_text(path)}"


def _text(text: str) -> str:
    """Return a TOML string. Characters beyond ASCII stay as they are: TOML has no escape by surrogates. DEL needs one."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
