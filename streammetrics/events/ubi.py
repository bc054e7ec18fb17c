"""OpenSearch User Behavior Insights 1.3: documents of `ubi_queries` and `ubi_events`, one by one or as `_bulk` text.

A value is one JSON document, or lines of them (`_bulk` text: action lines hold no event). It is taken line by line where a
line is a document by itself, else as one document that may be written over several lines. Each document is judged on its
own: what one line breaks costs no other line its event. A document says by its fields what it is:

* with an `action_name` (or `event_attributes`): an event of `ubi_events`;
* else with any of `user_query`, `query_attributes`, `query_response_id`, `query_response_hit_ids`: a query of `ubi_queries`.

What becomes of it:

| document | `lists_from = "impressions"` | `lists_from = "hit_ids"` |
|---|---|---|
| event `impression` with an object | a fragment of one item: `query_id`, `object_id`, `position.ordinal` | no event |
| query with `query_response_hit_ids` | no event | a whole list of them |
| query with none, or an empty array | no event | no event |
| any other event | feedback | feedback |

(A search back end may write several documents for what a user sees as one query, and only one of them with hits: the others ask for
facets or suggestions. As a list without items the first of them would be the list of that `query_id`. Real traffic does so.)

A feedback takes `action_name` as its action, `query_id` as its list (null or empty: none given) and
`event_attributes.object.object_id` as its item. Without an object (a search, a page view) the item is NO_ITEM, which no
list shows: such an event moves time on, and is matched by nothing. Ordinals sort and do not place, so that 0-based and
1-based trackers may be mixed. An `object_id` or hit id may be an integer, as the specification has it, and is then read as
its decimal text. Times, ids, labels and limits obey the rules of the native schema; null and "" are absent.

Fields named by the settings are looked for in the document, then in its `event_attributes` or `query_attributes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.fields import Fields
from streammetrics.events.json_text import read_document
from streammetrics.events.malformed import kept, malformed
from streammetrics.events.model import Event, EventLimits, Feedback, Impression, Labels
from streammetrics.events.ubi_fast import DOUBTS, quick_decoder
from streammetrics.events.ubi_options import NO_ITEM, UbiSettings

_whole = msgspec.json.Decoder(int).decode
_ACTION_LINES = frozenset({"index", "create", "update", "delete"})
_QUERY_FIELDS = frozenset({"user_query", "query_attributes", "query_response_id", "query_response_hit_ids"})


def ubi_decoder(limits: EventLimits, settings: UbiSettings | None = None) -> Callable[[bytes | None], Sequence[Event | MalformedEvent]]:
    """A decoder of UBI documents: the events that the bytes hold, and a MalformedEvent for each document that breaks a rule.

    >>> decode = ubi_decoder(EventLimits())
    >>> decode(b'{"action_name":"click","client_id":"c","query_id":"q","timestamp":"2024-12-10T00:01:29Z",'
    ...        b'"event_attributes":{"object":{"object_id":"B07"}}}')
    (Feedback(user_id='c', ts=1733788889000, item_id='B07', action='click', value=None, impression_id='q'),)
    >>> decode(b'{"index":{"_index":"ubi_events"}}')
    ()
    """
    chosen = UbiSettings() if settings is None else settings
    take = quick_decoder(limits, chosen)

    def judged(document: bytes | None) -> Event | MalformedEvent | None:
        if document is not None and take is not None:
            try:
                return take(document)
            except DOUBTS:
                pass
        try:
            return read_event(fields.check_value(document, limits), limits, chosen)
        except MalformedEvent as error:
            return kept(error)

    def decode(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        return tuple(found for document in _documents(value) if (found := judged(document)) is not None)

    return decode


def _documents(value: bytes | None) -> Sequence[bytes | None]:
    """The documents of a value: its lines that are not blank if one of them is a document, unless they make one together.

    How long a document may be is asked when it is judged: a long one is refused once, however it is written.
    """
    if value is None or b"\n" not in value:
        return (value,)
    lines = [line for line in value.split(b"\n") if line.strip()]
    if lines and (_is_document(lines[0]) or (not _is_document(value) and any(map(_is_document, lines)))):
        return lines
    return (value,)


def _is_document(value: bytes) -> bool:
    try:
        read_document(value)
    except MalformedEvent:
        return False
    return True


def read_event(document: bytes, limits: EventLimits, settings: UbiSettings) -> Event | None:
    """The event of one document, None where it holds none, or MalformedEvent with the first rule broken."""
    raws = read_document(document)
    top = Fields(raws, limits)
    if len(raws) == 1 and not _ACTION_LINES.isdisjoint(raws):
        return None
    if top.get("action_name") is not None or top.get("event_attributes") is not None:
        return _Reader(top, top.object("event_attributes"), settings).event()
    if not _QUERY_FIELDS.isdisjoint(raws):
        return _Reader(top, top.object("query_attributes"), settings).query()
    raise malformed("bad_type", "a document must be a UBI query or a UBI event", document, "send documents of ubi_queries and ubi_events")


class _Reader:
    """One document, read under the settings."""

    def __init__(self, top: Fields, attributes: Fields, settings: UbiSettings) -> None:
        self.top, self.attributes, self.settings, self.limits = top, attributes, settings, top.limits

    def query(self) -> Event | None:
        if self.settings.lists_from != "hit_ids" or self.top.get("query_response_hit_ids") is None:
            return None
        hits = self.top.array("query_response_hit_ids")
        if not hits:
            return None
        fields.check_count(len(hits), self.limits)
        items = tuple(self._shown(f"query_response_hit_ids[{index}]", raw) for index, raw in enumerate(hits))
        return self._impression(items, None)

    def event(self) -> Event | None:
        action = self.top.label("action_name")
        shown = self.attributes.object("object")
        item = _given(shown, "object_id")
        if action != "impression" or item is None:
            return self._feedback(action, NO_ITEM if item is None else read_item(*item, self.limits))
        if self.settings.lists_from != "impressions":
            return None
        position = self.attributes.object("position").position("ordinal")
        if position is None:
            raise malformed("bad_position", "an impression must have a position.ordinal", None, "send the item's place in the list")
        return self._impression((self._shown(*item),), (position,))

    def _impression(self, items: tuple[str, ...], positions: tuple[int, ...] | None) -> Impression:
        return Impression(
            impression_id=self._identity("query_id", _given(self.top, "query_id")),
            user_id=self._user(),
            ts=self.top.time("timestamp"),
            items=items,
            experiments=self._experiments(),
            segments=self._segments(),
            positions=positions,
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
            impression_id=None if query is None else fields.read_id(*query, self.limits),
        )

    def _user(self) -> str:
        name = self.settings.user_field
        return self._identity(name, self._found(name))

    def _identity(self, name: str, found: tuple[str, msgspec.Raw] | None) -> str:
        if found is None:
            raise malformed("missing_field", f"{name} is required and must not be null or empty", None, f"send {name}")
        return fields.read_id(*found, self.limits)

    def _experiments(self) -> Labels:
        name = self.settings.experiment_from
        found = None if name is None else self._found(name)
        if name is None or found is None:
            return ()
        if bytes(found[1]).startswith(b"{"):
            return fields.read_experiments(*found, self.limits)
        return ((fields.check_label("experiment_from", name, self.limits), fields.read_label(*found, self.limits)),)

    def _segments(self) -> Labels:
        found = {name: self._found(name) for name in self.settings.segments}
        return fields.sorted_labels({name: fields.read_label(*raw, self.limits) for name, raw in found.items() if raw is not None})

    def _shown(self, name: str, raw: msgspec.Raw) -> str:
        item = read_item(name, raw, self.limits)
        if item == NO_ITEM:
            raise malformed("bad_id", f"no list may show an item {NO_ITEM}, which stands for no item", raw, "send the item's id")
        return item

    def _found(self, name: str) -> tuple[str, msgspec.Raw] | None:
        """A field of the document, or else of its attributes, with its full name."""
        return _given(self.top, name) or _given(self.attributes, name)


def read_item(name: str, raw: msgspec.Raw, limits: EventLimits) -> str:
    """The id of an item: a string, or an integer, which stands for its decimal text."""
    try:
        return fields.read_id(name, msgspec.Raw(msgspec.json.encode(str(_whole(raw)))), limits)
    except msgspec.ValidationError:
        return fields.read_id(name, raw, limits)


def _given(document: Fields, name: str) -> tuple[str, msgspec.Raw] | None:
    """A field that is there and neither null nor the empty string, with its full name."""
    raw = document.get(name)
    return None if raw is None or fields.is_text(raw, b'""') else (document.within + name, raw)
