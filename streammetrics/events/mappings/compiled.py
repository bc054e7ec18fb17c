"""Mappings -> functions. Each mapping is compiled once, for records of one kind of access (see `paths`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from streammetrics.events.fields import ts_of
from streammetrics.events.mappings.item_readers import ARRAYS, items_reader, page_shift, ranker
from streammetrics.events.mappings.labels import labels_reader
from streammetrics.events.mappings.paths import Access, Get, is_field
from streammetrics.events.mappings.rules import Condition, MappingRule
from streammetrics.events.mappings.values import (
    NUMBER,
    first_getter,
    first_time,
    label_reader,
    missing,
    optional_number,
    optional_text,
    text_kind,
    text_reader,
    time_reader,
    unrenamed,
)
from streammetrics.events.model import Event, EventLimits, Exposure, Feedback, Impression, PartsDecoder, RecordPart

Whole: TypeAlias = PartsDecoder
"""A decoder of a whole record in another format."""
Build: TypeAlias = Callable[[Any, bytes], Sequence[RecordPart]]
"""Returns the events of a parsed record. The bytes are the record as sent."""


class Compiled(NamedTuple):
    """A compiled mapping. `matches` is None if it applies to every record; `build` is None if it ignores the record."""

    name: str
    matches: Get | None
    build: Build | None


def compile_rule(
    rule: MappingRule, access: Access, limits: EventLimits, formats: Mapping[str, Whole], settled: Collection[Condition] = ()
) -> Compiled:
    """Compile one mapping. `formats` decodes records of the kinds native and ubi. `settled` are conditions that hold already."""
    others = [condition for condition in rule.when if condition not in settled]
    matches = _all_of([condition_reader(condition, access, rule.absent, limits.label_chars_max) for condition in others])
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


def condition_reader(condition: Condition, access: Access, absent: frozenset[str], labels_max: int) -> Get:
    """Return a function from a record to whether a condition holds."""
    values, wanted = condition.values, condition.holds_if_found
    if values is None:
        find = access.present(condition.path)

        def is_present(record: Any) -> bool:
            found = find(record)
            return (found is not None and not (type(found) is str and found in absent)) is wanted

        return is_present
    if not values:
        find_array = access.present(condition.path)

        def is_empty(record: Any) -> bool:
            found = find_array(record)
            if found is None or (type(found) is str and found in absent):
                return False
            return (type(found) in ARRAYS and not found) is wanted

        return is_empty
    if not is_of_text(condition):
        find_any = access.whole(condition.path)

        def is_one_of(record: Any) -> bool:
            found = find_any(record)
            return any(type(found) is type(value) and found == value for value in values) is wanted

        return is_one_of
    get, texts = access.get(condition.path, text_kind(labels_max)), frozenset(values)

    def is_one_of_texts(record: Any) -> bool:
        found = get(record)
        return (type(found) is str and found in texts) is wanted

    return is_one_of_texts


def is_of_text(condition: Condition) -> bool:
    """Return whether the text of one field decides about a condition."""
    return is_field(condition.path) and bool(condition.values) and all(type(value) is str for value in condition.values or ())


def _impression(rule: MappingRule, access: Access, limits: EventLimits) -> Build:
    assert rule.user_id is not None
    assert rule.ts is not None
    assert rule.impression_id is not None
    ids_max, absent = limits.id_chars_max, rule.absent
    user_of = text_reader("user_id", rule.user_id, access, ids_max, absent)
    list_of = text_reader("impression_id", rule.impression_id, access, ids_max, absent)
    time_of = time_reader("ts", rule.ts, access, absent, rule.ts_unit)
    kind = text_kind(ids_max)
    texts = [first_getter(source, access, kind) for source in (rule.impression_id, rule.user_id)]
    at_once = access.together([*texts, first_time(rule.ts, access, rule.ts_unit, absent)])
    items_of, inside = items_reader(rule, access, limits)
    rank, on_page = ranker(rule, inside, limits), page_shift(rule, access, limits)
    labels_of = labels_reader(rule, access, limits)
    special = absent - {""}

    def build(record: Any, value: bytes) -> Sequence[Event]:
        impression_id, user_id, ts = at_once(record)
        if type(ts) is str:
            ts = ts_of(ts)
        if type(impression_id) is not str or not impression_id or (special and impression_id in special):
            impression_id = list_of(record)
        if type(user_id) is not str or not user_id or (special and user_id in special):
            user_id = user_of(record)
        if impression_id is None or user_id is None:
            missing(f"impression_id ({rule.impression_id})" if impression_id is None else f"user_id ({rule.user_id})")
        if type(ts) is not int:
            ts = time_of(record)
        elements, ids = items_of(record)
        items, positions, teams = (tuple(ids), None, ()) if rank is None else rank(elements, ids)
        if on_page is not None and positions:
            positions = on_page(record, positions)
        experiments, segments, notes = labels_of(record, value)
        return (Impression(impression_id, user_id, ts, items, experiments, segments, positions, teams, notes),)

    return build


def _feedback(rule: MappingRule, access: Access, limits: EventLimits) -> Build:
    assert rule.user_id is not None
    assert rule.ts is not None
    ids_max, labels_max, absent = limits.id_chars_max, limits.label_chars_max, rule.absent
    user_of = text_reader("user_id", rule.user_id, access, ids_max, absent)
    time_of = time_reader("ts", rule.ts, access, absent, rule.ts_unit)
    list_of = optional_text("impression_id", rule.impression_id, access, ids_max, absent)
    action_of = optional_text("action", rule.action, access, labels_max, absent, "bad_label")
    value_of = optional_number("value", rule.value, access, absent)
    item_source = rule.item_id if rule.items is None else None
    texts = [first_getter(source, access, text_kind(ids_max)) for source in (rule.user_id, rule.impression_id, item_source)]
    texts.append(first_getter(unrenamed(rule.action, labels_max, absent), access, text_kind(labels_max)))
    at_once = access.together([*texts, first_time(rule.ts, access, rule.ts_unit, absent), first_getter(rule.value, access, NUMBER)])
    renamed = {} if rule.action is None else rule.action.rename
    events_of = _reactions(rule, access, limits)
    has_list, has_value = rule.impression_id is not None, rule.value is not None
    special = absent - {""}
    optional = [source for source in (rule.impression_id, rule.value) if source is not None]
    is_common = not special and not renamed and all(len(source.alternatives) == 1 for source in optional)

    def build(record: Any, value: bytes) -> Sequence[Event]:
        user_id, impression_id, item, action, ts, amount = at_once(record)
        if type(ts) is str:
            ts = ts_of(ts)
        if (
            is_common
            and type(user_id) is type(item) is type(action) is str
            and user_id
            and item
            and action
            and type(ts) is int
            and (impression_id is None or type(impression_id) is str)
            and (amount is None or type(amount) is float)
        ):
            return (Feedback(user_id, ts, item, action, amount, impression_id or None),)
        if type(user_id) is not str or not user_id or (special and user_id in special):
            user_id = user_of(record)
            if user_id is None:
                missing(f"user_id ({rule.user_id})")
        if type(ts) is not int:
            ts = time_of(record)
        if has_list and (type(impression_id) is not str or not impression_id or (special and impression_id in special)):
            impression_id = list_of(record)
        if type(action) is not str or not action or (special and action in special):
            action = action_of(record)
        elif renamed:
            action = renamed.get(action, action)
        if has_value and type(amount) is not float:
            amount = value_of(record)
        if type(item) is str and item and action is not None and not special:
            return (Feedback(user_id, ts, item, action, amount, impression_id),)
        return events_of(record, user_id, ts, action, amount, impression_id)

    return build


def _reactions(rule: MappingRule, access: Access, limits: EventLimits) -> Callable[..., Sequence[Event]]:
    """Return a function from a record and what its reactions share to one feedback for each item."""
    absent = rule.absent
    items_of, inside = items_reader(rule, access, limits)
    own_action = optional_text("item_action", rule.item_action, inside, limits.label_chars_max, absent, "bad_label")
    own_value = optional_number("item_value", rule.item_value, inside, absent)
    has_own = rule.item_action is not None or rule.item_value is not None
    action_name = f"action ({rule.item_action or rule.action})"

    def events_of(record: Any, user_id: str, ts: int, action: str | None, amount: float | None, list_id: str | None) -> Sequence[Event]:
        elements, ids = items_of(record)
        if not has_own and action is not None:
            return [Feedback(user_id, ts, item_id, action, amount, list_id) for item_id in ids]
        events = []
        for element, item_id in zip(elements, ids, strict=True):
            named = own_action(element) or action
            if named is None:
                missing(action_name)
            own = own_value(element)
            events.append(Feedback(user_id, ts, item_id, named, amount if own is None else own, list_id))
        return events

    return events_of


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
