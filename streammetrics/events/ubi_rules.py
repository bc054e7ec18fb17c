"""The events of UBI as mappings, for the typed parser. `ubi` reads everything else, and defines the result."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from streammetrics.events.mappings.paths import Path
from streammetrics.events.mappings.rules import Condition, Constant, FieldSource, MappingRule
from streammetrics.events.model import EventLimits
from streammetrics.events.ubi_options import NO_ITEM, UbiSettings

_ATTRIBUTES: Final = "event_attributes"
_USED: Final = ("action_name", "query_id", "timestamp", _ATTRIBUTES, "object", "position", "rank")


def ubi_rules(settings: UbiSettings, limits: EventLimits) -> Sequence[MappingRule]:
    """Return the mappings. There are none for settings that `ubi` reads itself: pages, or a field that is used twice.

    >>> [rule.kind for rule in ubi_rules(UbiSettings(lists_from="hit_ids"), EventLimits())]
    ['ignore', 'feedback', 'feedback']
    """
    named = [
        settings.user_field,
        *settings.segments,
        *(name for name in (settings.experiment_from, settings.value_from) if name is not None),
    ]
    if (
        settings.page_start is not None
        or len({*named, *_USED}) < len(named) + len(_USED)
        or len(settings.exposure) > limits.label_chars_max
    ):
        return ()
    item, action = _path(_ATTRIBUTES, "object", "object_id"), _path("action_name")
    shown, other = Condition(action, (settings.exposure,)), Condition(action, (settings.exposure,), False)
    value, experiment = settings.value_from, settings.experiment_from
    event = partial(
        MappingRule,
        name="ubi",
        user_id=_either(settings.user_field),
        ts=FieldSource((_path("timestamp"),)),
        impression_id=FieldSource((_path("query_id"),)),
    )
    reaction = partial(event, kind="feedback", action=FieldSource((action,)), value=None if value is None else _either(value))
    return (
        event(
            kind="impression" if settings.lists_from == "impressions" else "ignore",
            when=(shown, Condition(item, None)),
            item_id=FieldSource((item,)),
            item_position=FieldSource((_path(_ATTRIBUTES, "position", "ordinal"), _path(_ATTRIBUTES, "rank"))),
            fragment=True,
            experiments=None if experiment is None else _either(experiment),
            segments={name: _either(name) for name in settings.segments},
        ),
        reaction(when=(shown, Condition(item, None, False)), item_id=FieldSource((Constant(NO_ITEM),))),
        reaction(when=(other, Condition(action, None)), item_id=FieldSource((item, Constant(NO_ITEM)))),
    )


def _path(*names: str) -> Path:
    return Path(".".join(names), names)


def _either(name: str) -> FieldSource:
    """Return the source of a field that may be an attribute, too."""
    return FieldSource((_path(name), _path(_ATTRIBUTES, name)))
