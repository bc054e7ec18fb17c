"""OpenSearch User Behavior Insights 1.3: documents of `ubi_queries` and `ubi_events`, one by one or as `_bulk` text.

A value is one JSON document, or lines of documents (`_bulk` text; its action lines hold no event). If a line is a document by
itself, the value is read line by line. Otherwise it is one document, perhaps written over several lines. Each document is
checked separately, so a malformed line does not affect other lines. An array of documents holds them as its elements; the official
client sends such arrays. A search hit holds its document as `_source`. The fields of a document decide what it is:

* with `action_name` or `event_attributes`: an event of `ubi_events`;
* otherwise, with any of `user_query`, `query_attributes`, `query_response_id`, `query_response_hit_ids`: a query of `ubi_queries`.

The place of an item is its `position.ordinal`, or else its `rank`, as earlier versions of UBI have it.

The result:

| document | `lists_from = "impressions"` | `lists_from = "hit_ids"` |
|---|---|---|
| event `impression` (see `exposure`) with an object | a fragment of one item: `query_id`, `object_id`, its place | no event |
| query with `query_response_hit_ids` (before 1.3: `query_response_object_ids`) | no event | a whole list of them, or a page of it |
| query with none, or an empty array | no event | no event |
| any other event | feedback | feedback |

A query without hits is no event because search back ends may write several documents for one query, and only one of them has
the hits. The others ask for facets or suggestions. The first of them would otherwise become the (empty) list of that `query_id`.

A feedback takes its action from `action_name`, its list from `query_id` (null or empty: none) and its item from
`event_attributes.object.object_id`. Without an object (a search, a page view) the item is NO_ITEM, which no list shows. Such
an event moves the watermark and matches nothing. Ordinals give the order only, so 0-based and 1-based trackers may be mixed,
unless `events.positions` makes them places.
With `page_start`, one `query_id` may have several pages. Each is a part of its list, after so many items of earlier pages.
An id may be an integer; it is read as its decimal text. Times, ids, labels
and limits follow the rules of the native schema. Null and "" count as absent.

A field named in the settings is looked up in the document, then in its `event_attributes` or `query_attributes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias, cast

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.advice.recognize import explained
from streammetrics.events.fields import Fields, UsableLabels
from streammetrics.events.items import moved, place_of
from streammetrics.events.json_text import read_document
from streammetrics.events.label_cache import LabelSet
from streammetrics.events.malformed import malformed, without_traceback
from streammetrics.events.mappings.decoder import typed_decoder
from streammetrics.events.mappings.explainer import IGNORED_RECORD
from streammetrics.events.model import Event, EventLimits, Feedback, Impression
from streammetrics.events.ubi_options import NO_ITEM, UbiSettings
from streammetrics.events.ubi_rules import ubi_rules

_Read: TypeAlias = Callable[[bytes | None], Sequence[Event | MalformedEvent]]

_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_ACTION_LINES = frozenset({"index", "create", "update", "delete"})
_HIT_FIELDS = frozenset({"_index", "_id"})
_HITS = ("query_response_hit_ids", "query_response_object_ids")
"""The field with the hits of a query. The second name was used before version 1.3."""
_QUERY_FIELDS = frozenset({"user_query", "query_attributes", "query_response_id", *_HITS})


def ubi_decoder(limits: EventLimits, settings: UbiSettings | None = None) -> Callable[[bytes | None], Sequence[Event | MalformedEvent]]:
    """Return a decoder of UBI documents. It returns the events, and one MalformedEvent for each malformed document.

    >>> decode = ubi_decoder(EventLimits())
    >>> decode(b'{"action_name":"click","client_id":"c","query_id":"q","timestamp":"2024-12-10T00:01:29Z",'
    ...        b'"event_attributes":{"object":{"object_id":"B07"}}}')
    (Feedback(user_id='c', ts=1733788889000, item_id='B07', action='click', value=None, impression_id='q'),)
    >>> decode(b'{"index":{"_index":"ubi_events"}}')
    ()
    """
    chosen = UbiSettings() if settings is None else settings

    def explain(document: bytes | None, may_be_hit: bool = True) -> Sequence[Event | MalformedEvent]:
        try:
            checked = fields.check_value(document, limits)
            source = _source_of(checked) if may_be_hit else None
            event = None if source is not None else read_event(checked, limits, chosen)
        except MalformedEvent as error:
            return (explained(without_traceback(error), document, "ubi"),)
        return read_source(source) if source is not None else () if event is None else (event,)

    read, read_source = _typed(chosen, limits, explain), _typed(chosen, limits, partial(explain, may_be_hit=False))

    def decode(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        documents = _documents(value)
        if len(documents) == 1:
            return read(documents[0])
        return tuple(event for document in documents for event in read(document))

    return decode


def _typed(settings: UbiSettings, limits: EventLimits, explain: _Read) -> _Read:
    """Return a decoder of one document by the typed parser of mappings, with `explain` for what it leaves out."""

    def labels_of(document: bytes) -> LabelSet:
        top = Fields(read_document(document), limits)
        reader = _Reader(top, top.object("event_attributes"), settings)
        experiments, segments = reader.experiments(), reader.segments()
        return experiments.labels, segments.labels, experiments.notes + segments.notes

    rules = ubi_rules(settings, limits)
    if not rules:
        return explain
    typed = cast(_Read, typed_decoder(rules, limits, {}, [None] * len(rules), explain, labels_of))

    def read(document: bytes | None) -> Sequence[Event | MalformedEvent]:
        found = typed(document)
        if found is IGNORED_RECORD:  # an impression, where lists come from queries
            return ()
        shows_nothing = len(found) == 1 and type(found[0]) is Impression and NO_ITEM in found[0].items
        return explain(document) if shows_nothing else found

    return read


def _documents(value: bytes | None) -> Sequence[bytes | None]:
    """Split a value into documents: its non-blank lines if one of them is a document, unless all lines form one document.

    An array of documents counts as a document here, and is then replaced by its elements. Sizes are checked later, per document. So an
    oversized document is rejected once, however it is written.
    """
    if value is None or (b"\n" not in value and value[:1] == b"{"):
        return (value,)
    return [document for each in _lines(value) for document in _elements(each)]


def _elements(value: bytes) -> Sequence[bytes]:
    """Return the elements of an array; the value itself if it is no array, or an empty one."""
    if value.lstrip()[:1] != b"[":
        return (value,)
    try:
        value.decode()
        return [bytes(element) for element in _array(value)] or (value,)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return (value,)


def _lines(value: bytes) -> Sequence[bytes]:
    if b"\n" not in value:
        return (value,)
    lines = [line for line in value.split(b"\n") if line.strip()]
    if lines and (_is_document(lines[0]) or (not _is_document(value) and any(map(_is_document, lines)))):
        return lines
    return (value,)


def _is_document(value: bytes) -> bool:
    if value.lstrip()[:1] == b"[":
        return _elements(value) != (value,)
    try:
        read_document(value)
    except MalformedEvent:
        return False
    return True


def _source_of(document: bytes) -> bytes | None:
    """Return the document of a search hit; None if it is no hit."""
    if b'"_source"' not in document:
        return None
    raws = read_document(document)
    source = raws.get("_source")
    return None if source is None or _HIT_FIELDS.isdisjoint(raws) else bytes(source)


def read_event(document: bytes, limits: EventLimits, settings: UbiSettings) -> Event | None:
    """The reference decoder: return the event of one document, or None if it holds no event. Raises MalformedEvent for the first broken
    rule.
    """
    raws = read_document(document)
    top = Fields(raws, limits)
    if len(raws) == 1 and not _ACTION_LINES.isdisjoint(raws):
        return None
    if top.get("action_name") is not None or top.get("event_attributes") is not None:
        return _Reader(top, top.object("event_attributes"), settings).event()
    if not _QUERY_FIELDS.isdisjoint(raws):
        return _Reader(top, top.object("query_attributes"), settings).query()
    raise malformed("bad_type", "a document must be a UBI query or a UBI event", document, "send documents of ubi_queries or ubi_events")


class _Reader:
    """Reads one document according to the settings."""

    def __init__(self, top: Fields, attributes: Fields, settings: UbiSettings) -> None:
        self.top, self.attributes, self.settings, self.limits = top, attributes, settings, top.limits

    def query(self) -> Event | None:
        name = next((name for name in _HITS if self.top.get(name) is not None), None)
        by_hits = self.settings.lists_from == "hit_ids"
        if name is None or not (by_hits or self.settings.empty_lists):
            return None
        hits = self.top.array(name)
        if not hits and self.settings.empty_lists:
            return self._impression(
                (), None if by_hits and self.settings.page_start is None else ()
            )  # a fragment, so that impression events of the query still form its list
        if not hits or not by_hits:
            return None
        fields.check_count(len(hits), self.limits)
        items = tuple(self._shown(f"{name}[{index}]", raw) for index, raw in enumerate(hits))
        return self._impression(items, self._on_page(tuple(range(len(items)))))

    def event(self) -> Event | None:
        action = self.top.label("action_name")
        shown = self.attributes.object("object")
        item = _given(shown, "object_id")
        if action != self.settings.exposure or item is None:
            return self._feedback(action, NO_ITEM if item is None else fields.read_numeric_id(*item, self.limits))
        if self.settings.lists_from != "impressions":
            return None
        position = self.attributes.object("position").position("ordinal")
        if position is None:
            position = self.attributes.position("rank")
        if position is None:
            rule = "an impression must have a position.ordinal or a rank"
            raise malformed("bad_position", rule, None, "send the item's position in the list")
        place = (place_of(position, self.limits),)
        return self._impression((self._shown(*item),), self._on_page(place) or place)

    def _on_page(self, places: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the places of items after those of earlier pages; None without pages."""
        if self.settings.page_start is None:
            return None
        found = self._found(self.settings.page_start)
        return moved(places, 0 if found is None else fields.read_position(*found), self.limits)

    def _impression(self, items: tuple[str, ...], positions: tuple[int, ...] | None) -> Impression:
        experiments, segments = self.experiments(), self.segments()
        return Impression(
            impression_id=self._identity("query_id", _given(self.top, "query_id")),
            user_id=self._user(),
            ts=self.top.time("timestamp"),
            items=items,
            experiments=experiments.labels,
            segments=segments.labels,
            positions=positions,
            label_notes=experiments.notes + segments.notes,
        )

    def _feedback(self, action: str, item_id: str) -> Feedback:
        value = None if self.settings.value_from is None else self._found(self.settings.value_from)
        query = _given(self.top, "query_id")
        return Feedback(
            user_id=self._user(),
            ts=self.top.time("timestamp"),
            item_id=item_id,
            action=action,
            value=None if value is None else fields.read_number(*value),
            impression_id=None if query is None else fields.read_numeric_id(*query, self.limits),
        )

    def _user(self) -> str:
        name = self.settings.user_field
        found = self._found(name)
        if found is None:
            lacking = name if self.top.get("timestamp") is not None else f"{name} and timestamp"
            rule = f"{lacking} {'is' if lacking == name else 'are'} required and must not be null or empty"
            raise malformed("missing_field", rule, None, f"send {lacking}, or name another field for the user in events.ubi_user")
        return fields.read_numeric_id(*found, self.limits)

    def _identity(self, name: str, found: tuple[str, msgspec.Raw] | None) -> str:
        if found is None:
            raise malformed("missing_field", f"{name} is required and must not be null or empty", None, f"send {name}")
        return fields.read_numeric_id(*found, self.limits)

    def experiments(self) -> UsableLabels:
        name = self.settings.experiment_from
        found = None if name is None else self._found(name)
        if name is None or found is None:
            return UsableLabels(())
        if bytes(found[1]).startswith(b"{"):
            return fields.read_experiments(found[1], self.limits)
        return fields.usable_experiments({name: found[1]}, self.limits)

    def segments(self) -> UsableLabels:
        found = {name: self._found(name) for name in self.settings.segments}
        return fields.usable_segments({name: raw[1] for name, raw in found.items() if raw is not None}, self.limits)

    def _shown(self, name: str, raw: msgspec.Raw) -> str:
        item = fields.read_numeric_id(name, raw, self.limits)
        if item == NO_ITEM:
            raise malformed("bad_id", f"item id {NO_ITEM} is reserved for feedback without an item", raw, "send the item's id")
        return item

    def _found(self, name: str) -> tuple[str, msgspec.Raw] | None:
        """Return a field of the document or of its attributes, with its full name."""
        return _given(self.top, name) or _given(self.attributes, name)


def _given(document: Fields, name: str) -> tuple[str, msgspec.Raw] | None:
    """Return a field with its full name, or None if it is absent, null or empty."""
    raw = document.get(name)
    return None if raw is None or fields.is_text(raw, b'""') else (document.within + name, raw)
