"""Proposes mappings for sample records, from the values and the names of their fields. A draft for people to check. Pure.

What lists show tells the items of reactions, and what reactions name tells the ids of lists. Names decide where values do not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from streammetrics.events.advice.sample_fields import (
    NAME,
    FieldValues,
    JsonRecord,
    are_ids,
    are_places,
    are_times,
    arrays_of,
    best_named,
    flat,
    inside,
    pieces_of,
    share_in,
    unit_of_all,
    words_of,
)
from streammetrics.events.advice.sample_kinds import (
    ITEMS,
    KINDS_SHOWN_MAX,
    RecordKind,
    array_of,
    is_reaction,
    item_name,
    key_text,
    kinds_of,
    selector_of,
    shown_by,
    toml_text,
    user_of,
)
from streammetrics.events.mappings.paths import parse_path, walker

PATHS_SHOWN_MAX: Final = 60
_MEANT: tuple[tuple[str, str], ...] = (("purchase", "purchase"), ("order", "purchase"), ("buy", "purchase"), ("click", "click"))
_MEANT += (("bought", "purchase"), ("select", "click"), ("tap", "click"), ("open", "click"), ("watch", "watch"))
_MEANT += (("play", "watch"), ("skip", "skip"))
"""A word in the name of an action, and the action that is probably meant."""
_TIMES = ("ts", "timestamp", "time", "event_time", "eventtime", "event_timestamp", "occurred_at", "created_at", "at", "date")
_TIME_WORDS = ("time", "ts", "at", "date", "when")
_LISTS: tuple[str, ...] = ("impressionid", "listid", "searchid", "requestid", "impression_id", "list_id", "search_id", "query_id")
_LISTS += ("queryid", "request_id", "ranking", "search", "message_id", "messageid", "event_id", "id")  # the last ones are own ids
_LIST_WORDS = ("impression", "list", "search", "query", "request", "ranking", "recommendation", "slate", "feed", "response", "trace")
_OWN_IDS = frozenset({"id", "event_id", "message_id", "messageid"})
"""Names of the id of a record. In a reaction they do not name its list."""
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


class _Known(NamedTuple):
    """What all groups share."""

    selector: str | None
    user: str | None
    reactions: set[str]
    shown: set[str]
    lists: set[str]
    graded: Collection[str]


def suggested_mappings(records: Iterable[JsonRecord], graded: Collection[str] = (), topic: str = "") -> Suggestion:
    """Return TOML text with mappings for these records. Fields that it cannot find are comments.

    `graded` are the actions that have a grade. Another action is renamed to one of them if its name says what it is. With a
    `topic`, the mappings apply to it alone, and the lists of its reactions may be in another topic.

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
    selector = selector_of(samples, fields)
    groups = kinds_of(samples, selector)
    reactions = {
        str(value)
        for group in groups
        if array_of(group) is None or is_reaction(group)
        for values in inside(group.fields, "").values()
        for value in values
    }
    known = _Known(selector, user_of(groups, fields, selector), reactions, *shown_by(groups, reactions), graded)
    lines = [f"# Proposed from {_counted(len(samples))}. Check every line, then try it: streammetrics decode SOURCE --config THIS_FILE", ""]
    ignored, is_whole, has_list = list[RecordKind](), True, bool(topic)
    of_topic = [f"topics = [{toml_text(topic)}]"] if topic else []
    for group in groups[:KINDS_SHOWN_MAX]:
        mapping = _mapping(group, known)
        if mapping is None:
            ignored.append(group)
        else:
            lines += [*mapping[:2], *of_topic, *mapping[2:], ""]
            is_whole = is_whole and not any(line.startswith("#") for line in mapping)
            has_list = has_list or 'kind = "impression"' in mapping
    if len(ignored) == len(groups):
        return Suggestion(_skeleton(fields), False)
    if ignored:
        lines += ["[[events.mappings]]", 'kind = "ignore"', *of_topic, *_when_any(selector, ignored), ""]
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


def _mapping(group: RecordKind, known: _Known) -> list[str] | None:
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
    lines += [_line("user_id", known.user), _line("ts", time)]
    if time is not None and (unit := unit_of_all(fields[time])) != "ms":
        lines.append(f'ts_unit = "{unit}"')
    lines += _list_id(plain, known, time, is_list)
    if array is not None and (is_list or single is None):
        lines += [_line("items", array), *_separator(group.members, array)]
        if f"{array}[]" not in fields:
            lines.append(_line("item_id", item_name(fields, array, known.reactions if is_list else known.shown)))
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
        yield f"item_separator = {toml_text(next(char for char in ',|;' if char in texts[0]))}"


def _time(plain: FieldValues) -> str | None:
    """Return the field of the time: the best name among times, or else the first time."""
    times = (path for path, values in plain.items() if are_times(values))
    return best_named(plain, _TIMES, _TIME_WORDS, are_times) or next(times, None)


def _single_item(plain: FieldValues, known: _Known) -> str | None:
    """Return the item of a reaction: a field whose values lists show, or else one with the name of an item."""
    shown = [(share_in(values, known.shown), path) for path, values in plain.items() if are_ids(values)]
    best = max(shown, default=(0.0, ""), key=lambda pair: pair[0])
    return best[1] if best[0] >= 0.5 else best_named(plain, ITEMS[:-1], (), are_ids)


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
    if not known.lists:  # they are in another topic
        best = best_named(free, _LISTS[: -len(_OWN_IDS) - 2], _LIST_WORDS, are_ids)
    if best is not None and (not known.lists or share_in(free[best], known.lists) > 0):
        yield _line("impression_id", best)


def _reaction(plain: FieldValues, known: _Known) -> Iterator[str]:
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


def _when_any(selector: str | None, groups: Sequence[RecordKind]) -> list[str]:
    texts = [group.name for group in groups if group.when]
    if selector is None or not texts:
        return []
    found = toml_text(texts[0]) if len(texts) == 1 else f"[{', '.join(map(toml_text, texts))}]"
    return [f"when = {{ {key_text(selector)} = {found} }}"]


def _line(key: str, path: str | None) -> str:
    return f'# {key} = "…"  (required, and no field has a name for it)' if path is None else f"{key} = {toml_text(path)}"
