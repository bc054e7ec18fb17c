"""Proposes mappings for sample records, from the values and the names of their fields. A draft for people to check. Pure.

What lists show tells the items of reactions, and what reactions name tells the ids of lists. Names decide where values do not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from streammetrics.events.mappings.paths import parse_path, walker
from streammetrics.events.mappings.sample_fields import (
    NAME,
    FieldValues,
    JsonRecord,
    are_ids,
    are_places,
    are_ranks,
    are_times,
    arrays_of,
    best_named,
    distinct_in,
    flat,
    inside,
    pieces_of,
    share_in,
    unit_of_all,
    words_of,
)

KINDS_MIN: Final = 4
KINDS_SHOWN_MAX: Final = 20
PATHS_SHOWN_MAX: Final = 60
_REACTIONS = ("click", "select", "order", "purchase", "cart", "interaction", "feedback", "watch", "tap", "open", "buy", "play")
_MEANT: tuple[tuple[str, str], ...] = (("purchase", "purchase"), ("order", "purchase"), ("buy", "purchase"), ("click", "click"))
_MEANT += (("bought", "purchase"), ("select", "click"), ("tap", "click"), ("open", "click"), ("watch", "watch"))
_MEANT += (("play", "watch"), ("skip", "skip"))
"""A word in the name of an action, and the action that is probably meant."""
_SELECTORS = ("event", "event_name", "eventname", "event_type", "eventtype", "action", "action_name", "type", "kind", "name")
_USERS: tuple[str, ...] = ("user_id", "userid", "user", "uid", "customer_id", "visitor_id", "visitor", "anonymous_id", "anonymousid")
_USERS += ("user_pseudo_id", "client_id", "clientid", "usertoken", "device_id", "session_id", "sessionid", "session")
_USER_WORDS: tuple[str, ...] = ("user", "visitor", "customer", "member", "shopper", "reader", "viewer", "buyer", "person", "profile")
_USER_WORDS += ("account", "subscriber", "guest", "client", "cookie", "device", "uid", "session", "who")
_TIMES = ("ts", "timestamp", "time", "event_time", "eventtime", "event_timestamp", "occurred_at", "created_at", "at", "date")
_TIME_WORDS = ("time", "ts", "at", "date", "when")
_LISTS: tuple[str, ...] = ("impressionid", "listid", "searchid", "requestid", "impression_id", "list_id", "search_id", "query_id")
_LISTS += ("queryid", "request_id", "ranking", "search", "message_id", "messageid", "event_id", "id")  # the last ones are own ids
_LIST_WORDS = ("impression", "list", "search", "query", "request", "ranking", "recommendation", "slate", "feed", "response", "trace")
_OWN_IDS = frozenset({"id", "event_id", "message_id", "messageid"})
"""Names of the id of a record. In a reaction they do not name its list."""
_ITEMS = ("item_id", "itemid", "product_id", "productid", "object_id", "objectid", "sku", "asin", "item", "product", "document_id", "id")
_ITEM_WORDS = ("item", "product", "sku", "article", "document", "doc", "listing", "offer", "content", "asset", "track", "video", "movie")
_POSITIONS = ("position", "rank", "ordinal", "index", "item_list_index", "place", "pos")
_POSITION_WORDS = ("position", "rank", "slot", "place", "ordinal", "index", "idx", "pos")
_ACTIONS = ("action", "action_name", "interaction_type", "interaction")
_VALUES = ("value", "dwell_time", "seconds", "duration", "price", "amount")
_EXPERIMENTS = frozenset({"experiment", "experiments", "abtest", "abtests", "ab", "variants"})
_VARIANTS = ("variant", "arm", "bucket", "treatment")
_VARIANTS_MAX = 5


class Suggestion(NamedTuple):
    """TOML text with mappings. `is_whole` is False for a skeleton, or if a required field was not found."""

    text: str
    is_whole: bool


class _Group(NamedTuple):
    """Records of one kind: their condition as TOML, the name of the kind, and their fields."""

    when: str
    name: str
    members: Sequence[JsonRecord]
    fields: FieldValues


class _Known(NamedTuple):
    """What all groups share."""

    selector: str | None
    user: str | None
    reactions: set[str]
    shown: set[str]
    lists: set[str]
    graded: Collection[str]


def suggested_mappings(records: Iterable[JsonRecord], graded: Collection[str] = ()) -> Suggestion:
    """Return TOML text with mappings for these records. Fields that it cannot find are comments.

    `graded` are the actions that have a grade. Another action is renamed to one of them if its name says what it is.

    >>> print(suggested_mappings([{"kind": "view", "uid": "u", "t": 1, "time": 1772359200, "search": "q", "skus": ["a", "b"]}]).text)
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
    fields = flat(samples)
    selector = _selector(samples, fields)
    groups = _groups(samples, selector)
    reactions = {
        str(value) for group in groups if _array(group) is None for values in inside(group.fields, "").values() for value in values
    }
    known = _Known(selector, _user(groups, fields, selector), reactions, *_shown(groups, reactions), graded)
    lines = [f"# Proposed from {_counted(len(samples))}. Check every line, then try it: streammetrics decode SOURCE --config THIS_FILE", ""]
    ignored, is_whole, has_list = list[_Group](), True, False
    for group in groups[:KINDS_SHOWN_MAX]:
        mapping = _mapping(group, known)
        if mapping is None:
            ignored.append(group)
        else:
            lines += [*mapping, ""]
            is_whole = is_whole and not any(line.startswith("#") for line in mapping)
            has_list = has_list or 'kind = "impression"' in mapping
    if len(ignored) == len(groups):
        return Suggestion(_skeleton(fields), False)
    if ignored:
        lines += ["[[events.mappings]]", 'kind = "ignore"', *_when_any(selector, ignored), ""]
    return Suggestion("\n".join(lines), is_whole and has_list)


def _counted(records: int) -> str:
    return f"{records:,} record{'' if records == 1 else 's'}"


def _skeleton(fields: FieldValues) -> str:
    """Return the paths that exist, with an example of each, and mappings to fill in, all as comments."""
    shown = [f"#   {path}  such as {_example(values[0])}" for path, values in list(fields.items())[:PATHS_SHOWN_MAX]]
    return "\n".join(
        [
            "# No mapping can be proposed: no field of these records holds a list of items, or an item of one.",
            "# Fill in these mappings with the paths below, and leave out what does not apply.",
            "#",
            "# [[events.mappings]]",
            '# kind = "impression"          # what users were shown',
            '# when = { PATH = "a text" }   # which records these are',
            '# user_id = "PATH"',
            '# ts = "PATH"',
            '# impression_id = "PATH"',
            '# items = "PATH"',
            "#",
            "# [[events.mappings]]",
            '# kind = "feedback"            # what users did with one item',
            '# user_id = "PATH"',
            '# ts = "PATH"',
            '# item_id = "PATH"',
            '# action = { value = "click" }',
            "#",
            "# Paths of these records:",
            *shown,
            "",
        ]
    )


def _example(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else text[:60] + "..."


def _selector(samples: Sequence[JsonRecord], fields: FieldValues) -> str | None:
    """Return the path that tells kinds of records apart: a text with few values, by its name or because it tells lists apart."""
    few = max(KINDS_MIN, min(KINDS_SHOWN_MAX, len(samples) // 2))
    texts = {path: values for path, values in inside(fields, "").items() if all(isinstance(value, str) for value in values)}
    fitting = {path: set(values) for path, values in texts.items() if 1 < len(set(values)) <= few}
    named = [(len(values) - _SELECTORS.index(path.lower()) / 100, path) for path, values in fitting.items() if path.lower() in _SELECTORS]
    if named:
        return min(named)[1]
    with_array = [record for record in samples if _array(_group_of("", "", [record])) is not None]
    others = [record for record in samples if record not in with_array]
    for path, values in fitting.items():
        get = walker(parse_path(path).steps)
        of_lists, of_others = set(map(get, with_array)), set(map(get, others))
        tells_apart = of_lists and of_others and of_lists.isdisjoint(of_others) and None not in of_lists | of_others
        if tells_apart and len(values) < len(texts[path]) and not are_times(list(values)):
            return path
    return None


def _group_of(when: str, name: str, members: Sequence[JsonRecord]) -> _Group:
    return _Group(when, name, members, flat(members))


def _groups(samples: Sequence[JsonRecord], selector: str | None) -> list[_Group]:
    """Return the kinds of records: by the selector, or else by whether they have an array of items."""
    if selector is not None:
        get = walker(parse_path(selector).steps)
        members: dict[Any, list[JsonRecord]] = {}
        for record in samples:
            value = get(record)
            members.setdefault(value if isinstance(value, str) else None, []).append(record)
        return [
            _group_of("" if value is None else f"{_key(selector)} = {_text(value)}", value or "", own) for value, own in members.items()
        ]
    array = _array(_group_of("", "", samples))
    if array is None:
        return [_group_of("", "", samples)]
    get = walker(parse_path(array).steps)
    having, others = [record for record in samples if get(record) is not None], [record for record in samples if get(record) is None]
    if not others:
        return [_group_of("", "", samples)]
    present = f"{_key(array)} = {{ present = {{}} }}"
    return [_group_of(present.replace("{}", "true", 1), "", having), _group_of(present.replace("{}", "false", 1), "", others)]


def _array(group: _Group) -> str | None:
    """Return the array that most likely holds items: of objects with a distinct id each, or else of texts."""
    fields = group.fields
    arrays = [path for path, values in fields.items() if "[]" not in path and any(isinstance(value, list) for value in values)]
    ranked = [path for path in arrays if f"{path}[]" in fields or _item_names(fields, path)]
    return max(ranked, key=lambda path: sum(map(len, arrays_of(fields[path]))), default=None)


def _item_names(fields: FieldValues, array: str) -> list[str]:
    """Return the paths inside the elements of an array that may be the id of an item."""
    plain, arrays = inside(fields, array), arrays_of(fields[array])
    named = best_named(plain, _ITEMS, (), are_ids)
    distinct = [name for path, values in plain.items() if _is_item(arrays, name := path.strip('"'), values)]
    return list(dict.fromkeys([*([named] if named else []), *distinct]))


def _is_item(arrays: Sequence[Sequence[Any]], name: str, values: Sequence[Any]) -> bool:
    return distinct_in(arrays, name) and not (are_places(values) and are_ranks(arrays, name))


def _item_name(fields: FieldValues, array: str, reactions: set[str]) -> str | None:
    """Return the id of an item inside an array: what reactions name, or else the best name, or else the first id."""
    plain = inside(fields, array)
    candidates = _item_names(fields, array)
    shared = [path for path in candidates if any(str(value) in reactions for value in plain[path])]
    return next(iter([*shared, *candidates]), None)


def _shown(groups: Sequence[_Group], reactions: set[str]) -> tuple[set[str], set[str]]:
    """Return the items that lists show, and all ids of these records that only they have once."""
    items, ids = set[str](), set[str]()
    for group in groups:
        array = _array(group)
        if array is None:
            continue
        name = None if f"{array}[]" in group.fields else _item_name(group.fields, array, reactions)
        values = group.fields.get(f"{array}[]" if name is None else f"{array}[].{name}", [])
        items |= set(map(str, values))
        for own in inside(group.fields, "").values():
            if are_ids(own) and len(set(map(str, own))) == len(own):
                ids |= set(map(str, own))
    return items, ids


def _user(groups: Sequence[_Group], fields: FieldValues, selector: str | None) -> str | None:
    """Return the field of the user: by its name, or a text that all kinds of records have and that repeats."""
    plain = {path: values for path, values in inside(fields, "").items() if path != selector}
    names = [
        (-len(values), _USERS.index(last), path) for path, values in plain.items() if (last := _last(path)) in _USERS and are_ids(values)
    ]
    if names:
        return min(names)[2]
    if (worded := best_named(plain, (), _USER_WORDS, are_ids)) is not None:
        return worded
    for path, values in plain.items():
        distinct = set(map(str, values))
        everywhere = all(path in group.fields for group in groups)
        if are_ids(values) and everywhere and 1 < len(distinct) < len(values) and all(isinstance(value, str) for value in values):
            return path
    return None


def _last(path: str) -> str:
    return path.rpartition(".")[2].strip('"').lower()


def _mapping(group: _Group, known: _Known) -> list[str] | None:
    """Return the lines of a mapping for one kind of records; None if they are neither lists nor feedback."""
    fields, plain, array = group.fields, inside(group.fields, ""), _array(group)
    single = _single_item(plain, known)
    if array is None and single is None:
        return None
    lengths = [len(found) for found in arrays_of(fields.get(array or "", []))]
    many = sum(lengths) > len(lengths)
    is_list = array is not None and (many or single is None) and not any(word in group.name.lower() for word in _REACTIONS)
    time = _time(plain)
    lines = ["[[events.mappings]]", f'kind = "{"impression" if is_list else "feedback"}"']
    lines += [f"when = {{ {group.when} }}"] if group.when else []
    lines += [_line("user_id", known.user), _line("ts", time)]
    if time is not None and (unit := unit_of_all(fields[time])) != "ms":
        lines.append(f'ts_unit = "{unit}"')
    lines += _list_id(plain, known, time, is_list)
    if array is not None and (is_list or single is None):
        lines += [_line("items", array), *_separator(group.members, array)]
        if f"{array}[]" not in fields:
            lines.append(_line("item_id", _item_name(fields, array, known.reactions if is_list else known.shown)))
        position = best_named(inside(fields, array), _POSITIONS, _POSITION_WORDS, are_places) if is_list else None
        lines += [] if position is None else [_line("item_position", position)]
    else:
        lines.append(_line("item_id", single))
    return [*lines, *(_experiments(plain) if is_list else _reaction(plain, known))]


def _separator(members: Sequence[JsonRecord], array: str) -> Iterator[str]:
    """Yield the line of the separator, if the items are joined in one text."""
    get = walker(parse_path(array).steps)
    texts = [found for record in members if isinstance(found := get(record), str) and pieces_of(found)]
    if texts:
        yield f"item_separator = {_text(next(char for char in ',|;' if char in texts[0]))}"


def _time(plain: FieldValues) -> str | None:
    """Return the field of the time: the best name among times, or else the first time."""
    times = (path for path, values in plain.items() if are_times(values))
    return best_named(plain, _TIMES, _TIME_WORDS, are_times) or next(times, None)


def _single_item(plain: FieldValues, known: _Known) -> str | None:
    """Return the item of a reaction: a field whose values lists show, or else one with the name of an item."""
    shown = [(share_in(values, known.shown), path) for path, values in plain.items() if are_ids(values)]
    best = max(shown, default=(0.0, ""), key=lambda pair: pair[0])
    return best[1] if best[0] >= 0.5 else best_named(plain, _ITEMS[:-1], (), are_ids)


def _list_id(plain: FieldValues, known: _Known, time: str | None, is_list: bool) -> Iterator[str]:
    """Yield the line of the list id. In a reaction: a field whose values are ids of lists. A list without one has a composed one."""
    taken = (known.user, known.selector, time)
    free = {path: values for path, values in plain.items() if path not in taken and are_ids(values)}
    if is_list:
        own = {path: values for path, values in free.items() if len(set(map(str, values))) == len(values)}
        shared = (path for path, values in own.items() if share_in(values, known.reactions) > 0)
        found = (
            best_named(own, _LISTS[: -len(_OWN_IDS)], _LIST_WORDS, are_ids) or next(shared, None) or best_named(own, _LISTS, (), are_ids)
        )
        composed = None if found or not (known.user and time) else f"{{{known.user}}}/{{{time}}}"
        yield _line("impression_id", found or composed)
        return
    best = max(free, key=lambda path: share_in(free[path], known.lists), default=None)
    if best is not None and share_in(free[best], known.lists) > 0:
        yield _line("impression_id", best)


def _reaction(plain: FieldValues, known: _Known) -> Iterator[str]:
    action = best_named(plain, _ACTIONS, (), lambda values: all(isinstance(value, str) for value in values)) or known.selector
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
        yield f"experiments = {{ experiment = {_text(variant)} }}"


def _action(path: str, values: Sequence[Any], graded: Collection[str]) -> str:
    """Return the line of the action, with new names for those that have no grade but say what they are."""
    names = dict.fromkeys(value for value in values if isinstance(value, str) and value not in graded)
    meant = {name: action for name in names if (action := next((to for word, to in _MEANT if word in name.lower()), "")) in graded}
    if not meant:
        return _line("action", path)
    renamed = ", ".join(f"{name if NAME.fullmatch(name) else _text(name)} = {_text(action)}" for name, action in meant.items())
    return f"action = {{ path = {_text(path)}, rename = {{ {renamed} }} }}"


def _when_any(selector: str | None, groups: Sequence[_Group]) -> list[str]:
    texts = [group.name for group in groups if group.when]
    if selector is None or not texts:
        return []
    found = _text(texts[0]) if len(texts) == 1 else f"[{', '.join(map(_text, texts))}]"
    return [f"when = {{ {_key(selector)} = {found} }}"]


def _key(path: str) -> str:
    return path if NAME.fullmatch(path) else _text(path)


def _line(key: str, path: str | None) -> str:
    return f'# {key} = "…"  (required, and no field has a name for it)' if path is None else f"{key} = {_text(path)}"


def _text(text: str) -> str:
    """Return a TOML string. Characters beyond ASCII stay as they are: TOML has no escape by surrogates. DEL needs one."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
