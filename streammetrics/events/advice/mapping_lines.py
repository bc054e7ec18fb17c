"""The lines of the mappings for one kind of sample records: a list, a list that comes item by item, or reactions. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from streammetrics.events.advice.sample_fields import (
    NAME,
    FieldValues,
    JsonRecord,
    are_distinct,
    are_ids,
    are_places,
    are_times,
    arrays_of,
    best_named,
    inside,
    pieces_of,
    share_in,
    unit_of_all,
    words_of,
)
from streammetrics.events.advice.sample_kinds import (
    ITEMS,
    USER_WORDS,
    RecordKind,
    array_of,
    is_reaction,
    item_name,
    key_text,
    says_shown,
    toml_text,
)
from streammetrics.events.advice.sample_rows import POSITION_WORDS, POSITIONS, ItemRows, arrays_within, flags_of, rows_of
from streammetrics.events.mappings.paths import parse_path, walker

_MEANT: tuple[tuple[str, str], ...] = (("purchase", "purchase"), ("order", "purchase"), ("buy", "purchase"), ("click", "click"))
_MEANT += (("bought", "purchase"), ("select", "click"), ("tap", "click"), ("open", "click"), ("watch", "watch"))
_MEANT += (("play", "watch"), ("skip", "skip"), ("clk", "click"))
"""A word in the name of an action, and the action that is probably meant."""
_TIMES = ("ts", "timestamp", "time", "event_time", "eventtime", "event_timestamp", "occurred_at", "created_at", "at", "date")
_TIME_WORDS = ("time", "ts", "at", "date", "when")
_LISTS: tuple[str, ...] = ("impressionid", "listid", "searchid", "requestid", "impression_id", "list_id", "search_id", "query_id")
_LISTS += ("queryid", "request_id", "ranking", "search", "message_id", "messageid", "event_id", "uuid", "id")  # the last ones are own ids
_LIST_WORDS = ("impression", "list", "search", "query", "request", "ranking", "recommendation", "slate", "feed", "response", "trace")
_OWN_IDS = frozenset({"id", "uuid", "event_id", "message_id", "messageid"})
"""Names of the id of a record. In a reaction they do not name its list."""
_ACTIONS = ("action", "action_name", "interaction_type", "interaction")
_VALUES = ("value", "dwell_time", "seconds", "duration", "price", "amount")
_EXPERIMENTS = frozenset({"experiment", "experiments", "abtest", "abtests", "ab", "variants"})
_VARIANTS = ("variant", "arm", "bucket", "treatment")
_VARIANTS_MAX = 5


class Known(NamedTuple):
    """What all groups share."""

    selector: str | None
    user: str | None
    reactions: frozenset[str]
    shown: set[str]
    lists: set[str]
    graded: Collection[str]
    own: Collection[str]
    """The paths of ids that each record has for itself, whatever its kind."""
    has_lists: bool


def mappings_of(group: RecordKind, known: Known) -> list[list[str]]:
    """Return the lines of the mappings for one kind of records. There are none if they are neither lists nor feedback."""
    if rows := rows_of(group, known.user):
        return _row_mappings(group, rows, known)
    mapping = None if array_of(group) is None and says_shown(group) else _mapping(group, known)
    if mapping is None:
        return []
    if 'kind = "impression"' not in mapping:
        return [mapping]
    shared = [line for line in mapping if line.startswith(("when", "user_id", "ts", "impression_id"))]
    return [mapping, *(_inner_mapping(shared, path, name, action) for path, name in arrays_within(group) if (action := _meant(path)))]


def _inner_mapping(shared: Sequence[str], path: str, name: str | None, action: str) -> list[str]:
    """Return the lines of the mapping for the reactions that an array in the record of a list has."""
    items = [_line("items", path), *([] if name is None else [_line("item_id", name)])]
    return ["[[events.mappings]]", 'kind = "feedback"', *_present(shared, path), *items, f"action = {{ value = {toml_text(action)} }}"]


def _present(shared: Sequence[str], path: str) -> Iterator[str]:
    """Yield the fields of a list that its reactions have, too, with the condition that there are any."""
    conditions = [line[len("when = { ") : -len(" }")] for line in shared if line.startswith("when")]
    yield f"when = {{ {', '.join([*conditions, f'{key_text(path)} = {{ present = true }}'])} }}"
    yield from (line for line in shared if not line.startswith("when"))


def _row_mappings(group: RecordKind, rows: ItemRows, known: Known) -> list[list[str]]:
    """Return the lines of the mappings for records that each show one item. A field that says yes or no may be a reaction to it."""
    time = _time(inside(group.fields, ""))
    shared = [
        _line("user_id", known.user),
        *_time_lines(group.fields, time),
        _line("impression_id", rows.list_id),
        _line("item_id", rows.item),
    ]
    when = [f"when = {{ {group.when} }}"] if group.when else []
    experiments = _experiments(inside(group.fields, ""))
    shown = [*when, *shared, _line("item_position", rows.position), "fragment = true", *experiments]
    found = [["[[events.mappings]]", 'kind = "impression"', *shown]]
    for path, yes in flags_of(group):
        if action := _meant(path):
            conditions = [*([group.when] if group.when else []), f"{key_text(path)} = {json.dumps(yes)}"]
            reaction = [f"when = {{ {', '.join(conditions)} }}", *shared, f"action = {{ value = {toml_text(action)} }}"]
            found.append(["[[events.mappings]]", 'kind = "feedback"', *reaction])
    return found


def _time_lines(fields: FieldValues, time: str | None) -> Iterator[str]:
    yield _line("ts", time)
    if time is not None and (unit := unit_of_all(fields[time])) != "ms":
        yield f'ts_unit = "{unit}"'


def _mapping(group: RecordKind, known: Known) -> list[str] | None:
    """Return the lines of a mapping for one kind of records; None if they are neither lists nor feedback."""
    fields, plain, array = group.fields, inside(group.fields, ""), array_of(group)
    single = _single_item(plain, known)
    if array is None and single is None:
        return None
    lengths = [len(found) for found in arrays_of(fields.get(array or "", []))]
    many = sum(lengths) > len(lengths)
    is_list = array is not None and (many or single is None) and not is_reaction(group)
    time = _time(plain)
    lines = ["[[events.mappings]]", f'kind = "{"impression" if is_list else "feedback"}"']
    lines += [f"when = {{ {group.when} }}"] if group.when else []
    lines += [_line("user_id", known.user), *_time_lines(fields, time)]
    lines += _list_id(plain, known, time, is_list)
    if array is not None and (is_list or single is None):
        lines += [_line("items", array), *_separator(group.members, array)]
        if f"{array}[]" not in fields:
            lines.append(_line("item_id", item_name(fields, array, known.reactions if is_list else known.shown)))
        position = best_named(inside(fields, array), POSITIONS, POSITION_WORDS, are_places) if is_list else None
        lines += [] if position is None else [_line("item_position", position)]
    else:
        lines.append(_line("item_id", single))
    return [*lines, *(_experiments(plain) if is_list else _reaction(plain, known))]


def _separator(members: Sequence[JsonRecord], array: str) -> Iterator[str]:
    """Yield the line of the separator, if the items are joined in one text."""
    get = walker(parse_path(array).steps)
    texts = [found for record in members if isinstance(found := get(record), str) and pieces_of(found)]
    if texts:
        yield f"item_separator = {toml_text(next(char for char in ',|;' if char in texts[0]))}"


def _time(plain: FieldValues) -> str | None:
    """Return the field of the time: the best name among times, or else the first time."""
    times = (path for path, values in plain.items() if are_times(values))
    return best_named(plain, _TIMES, _TIME_WORDS, are_times) or next(times, None)


def _single_item(plain: FieldValues, known: Known) -> str | None:
    """Return the item of a reaction: a field whose values lists show, or else one with the name of an item."""
    shown = [(share_in(values, known.shown), path) for path, values in plain.items() if are_ids(values)]
    best = max(shown, default=(0.0, ""), key=lambda pair: pair[0])
    return best[1] if best[0] >= 0.5 else best_named(plain, ITEMS[:-1], (), are_ids)


def _list_id(plain: FieldValues, known: Known, time: str | None, is_list: bool) -> Iterator[str]:
    """Yield the line of the list id. In a reaction: a field whose values are ids of lists. A list without one has a composed one."""
    taken = (known.user, known.selector, time)
    free = {path: values for path, values in plain.items() if path not in taken and are_ids(values)}
    if is_list:
        yield _line("impression_id", _own_list_id(free, known) or _composed(plain, known.user, time))
        return
    best = max(free, key=lambda path: share_in(free[path], known.lists), default=None)
    if not known.has_lists and not known.lists:  # they are in another topic
        best = best_named(free, _LISTS[: -len(_OWN_IDS) - 2], _LIST_WORDS, are_ids)
    if best is not None and (not (known.has_lists or known.lists) or share_in(free[best], known.lists) > 0):
        yield _line("impression_id", best)


def _own_list_id(free: FieldValues, known: Known) -> str | None:
    """Return the id of lists: one that reactions name if there is any, and one that all records have for themselves only if no other is."""
    distinct = {path: values for path, values in free.items() if are_distinct(values) and not _is_of_user(path)}
    shared = {path: values for path, values in distinct.items() if share_in(values, known.reactions) > 0}
    others = {path: values for path, values in distinct.items() if path not in known.own}
    for paths in (shared, others, distinct):
        found = best_named(paths, _LISTS[: -len(_OWN_IDS)], _LIST_WORDS, are_ids)
        if found is not None or (paths is shared and paths):
            return found or next(iter(paths))
    return best_named(others, _LISTS, (), are_ids) or best_named(distinct, _LISTS, (), are_ids)


def _is_of_user(path: str) -> bool:
    """Return whether a field is named like a user or a session, and not like a list."""
    words = words_of(path)
    return not words.isdisjoint(USER_WORDS) and words.isdisjoint(_LIST_WORDS)


def _composed(plain: FieldValues, user: str | None, time: str | None) -> str | None:
    """Return an id of user and time for lists without one. A number with a fraction has no one text."""
    is_possible = user and time and not any(isinstance(value, float) for value in plain[time])
    return f"{{{user}}}/{{{time}}}" if is_possible else None


def _reaction(plain: FieldValues, known: Known) -> Iterator[str]:
    texts = {path: values for path, values in plain.items() if all(isinstance(value, str) for value in values)}
    said = {path: sum(value in known.graded or _meant(value) in known.graded for value in values) for path, values in texts.items()}
    by_values = max(said, key=lambda path: (said[path], path == known.selector), default="")
    action = best_named(texts, _ACTIONS, (), lambda values: True) or known.selector or (by_values if said.get(by_values) else None)
    values = [] if action is None else plain.get(action, [])
    yield _action(action, values, known.graded) if action is not None and values else 'action = { value = "click" }'
    numbers = best_named(plain, _VALUES, (), lambda values: all(not isinstance(value, bool | dict) for value in values))
    if numbers is not None:
        yield _line("value", numbers)


def _experiments(plain: FieldValues) -> Iterator[str]:
    """Yield the line of the experiments: an object of that name, or a field with the name of a variant."""
    for path, values in plain.items():
        parent = path.rpartition(".")[0]
        if parent and not _EXPERIMENTS.isdisjoint(words_of(parent)) and all(isinstance(value, str) for value in values):
            yield _line("experiments", parent)
            return
    few = {path: values for path, values in plain.items() if len(set(map(str, values))) <= _VARIANTS_MAX}
    if (variant := best_named(few, (), _VARIANTS, are_ids)) is not None:
        yield f"experiments = {{ experiment = {toml_text(variant)} }}"


def _action(path: str, values: Sequence[Any], graded: Collection[str]) -> str:
    """Return the line of the action, with new names for those that have no grade but say what they are."""
    names = dict.fromkeys(value for value in values if isinstance(value, str) and value not in graded)
    meant = {name: action for name in names if (action := _meant(name)) in graded}
    if not meant:
        return _line("action", path)
    renamed = ", ".join(f"{name if NAME.fullmatch(name) else toml_text(name)} = {toml_text(action)}" for name, action in meant.items())
    return f"action = {{ path = {toml_text(path)}, rename = {{ {renamed} }} }}"


def _meant(name: str) -> str:
    """Return the action that a name probably means; empty if it says nothing."""
    return next((action for word, action in _MEANT if word in name.lower()), "")


def _line(key: str, path: str | None) -> str:
    return f'# {key} = "…"  (required, and no field has a name for it)' if path is None else f"{key} = {toml_text(path)}"
