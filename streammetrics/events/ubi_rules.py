"""OpenSearch User Behavior Insights as mappings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from msgspec import structs

from streammetrics.events.mappings.paths import Path
from streammetrics.events.mappings.rules import Condition, Constant, FieldSource, Kind, MappingRule, PageStart
from streammetrics.events.ubi_options import NO_ITEM, UbiSettings

_EVENT: Final = "event_attributes"
_QUERY: Final = "query_attributes"
_NAMES: Final = {
    (_EVENT, "impression"): "impressions",
    (_EVENT, "ignore"): "impressions",
    (_EVENT, "feedback"): "reactions",
    (_QUERY, "impression"): "queries",
}
_HITS: Final = ("query_response_hit_ids", "query_response_object_ids")
"""The field with the hits of a query. The second name was used before version 1.3."""
_WITHOUT_EVENT: Final = ("index", "user_query", _QUERY, "query_response_id", *_HITS, "create", "update", "delete")
"""The fields of queries, and of the action lines of `_bulk` text."""


def ubi_rules(settings: UbiSettings) -> tuple[MappingRule, ...]:
    """Return the mappings: those of events, of queries, and of documents that hold no event.

    >>> [rule.kind for rule in ubi_rules(UbiSettings(lists_from="hit_ids"))][:4]
    ['ignore', 'feedback', 'feedback', 'impression']
    """
    return (*_of_events(settings), *_of_queries(settings), *[_without_action(name, "ignore") for name in _WITHOUT_EVENT])


def watched_rules(settings: UbiSettings) -> tuple[MappingRule, ...]:
    """Return the same mappings for the watch of their optional paths: those that settings name. A reaction may lack its query."""
    return tuple(structs.replace(rule, impression_id=None) for rule in ubi_rules(settings))


def _of_events(settings: UbiSettings) -> Iterator[MappingRule]:
    item, action = _path(_EVENT, "object", "object_id"), _path("action_name")
    shown, other = Condition(action, (settings.exposure,)), Condition(action, (settings.exposure,), False)
    yield _rule(
        settings,
        _EVENT,
        kind="impression" if settings.lists_from == "impressions" else "ignore",
        when=(shown, Condition(item, None)),
        item_id=FieldSource((item,)),
        item_position=FieldSource((_path(_EVENT, "position", "ordinal"), _path(_EVENT, "rank"))),
        fragment=True,
    )
    value = None if settings.value_from is None else _either(settings.value_from, _EVENT)
    reaction = partial(_rule, settings, _EVENT, kind="feedback", action=FieldSource((action,)), value=value)
    yield reaction(when=(shown, Condition(item, None, False)), item_id=FieldSource((Constant(NO_ITEM),)))
    yield reaction(when=(other, Condition(action, None)), item_id=FieldSource((item, Constant(NO_ITEM))))


def _of_queries(settings: UbiSettings) -> Iterator[MappingRule]:
    """Yield the mappings of queries with hits, and of those without."""
    former: tuple[Condition, ...] = (Condition(_path("action_name"), None, False),)
    is_paged, by_hits = settings.page_start is not None, settings.lists_from == "hit_ids"
    for name in _HITS:
        hits = _path(name)
        listed = partial(_rule, settings, _QUERY, kind="impression", items=FieldSource((hits,)))
        if by_hits:
            yield listed(when=(*former, Condition(hits, (), False)), fragment=is_paged)
        if settings.empty_lists:  # a part, if impression events of the query or other pages may still form its list
            is_part = is_paged or not by_hits
            yield listed(when=(*former, Condition(hits, ())), fragment=is_part, item_position=FieldSource((hits,)) if is_part else None)
        former += (Condition(hits, None, False),)


def _rule(settings: UbiSettings, attributes: str, **fields: Any) -> MappingRule:
    """Return a mapping of documents with these attributes."""
    is_list, experiment, page_start = fields["kind"] == "impression", settings.experiment_from, settings.page_start
    return MappingRule(
        name=_NAMES[attributes, fields["kind"]],
        user_id=_either(settings.user_field, attributes),
        ts=FieldSource((_path("timestamp"),)),
        impression_id=FieldSource((_path("query_id"),)),
        experiments=_either(experiment, attributes) if is_list and experiment is not None else None,
        segments={name: _either(name, attributes) for name in settings.segments} if is_list else None,
        page_start=PageStart(_either(page_start, attributes)) if is_list and page_start is not None else None,
        **fields,
    )


def _either(name: str, attributes: str) -> FieldSource:
    """Return the source of a field that may be an attribute, too."""
    return FieldSource((_path(name), _path(attributes, name)))


def _path(*names: str) -> Path:
    return Path(".".join(names), names)


def _without_action(name: str, kind: Kind) -> MappingRule:
    """Return a mapping of documents that have this field and no action."""
    return MappingRule(kind=kind, name=name, when=(Condition(_path("action_name"), None, False), Condition(_path(name), None)))


SEARCH_HIT: Final = _without_action("_source", "ubi")
"""The mapping of a search hit, which holds its document."""
