"""OpenSearch User Behavior Insights 1.3: documents of `ubi_queries` and `ubi_events`, one by one or as `_bulk` text.

README.md says which documents are lists and feedback, and what the settings do. `ubi_rules` has the mappings of documents. What the page
leaves out:

* A value is one JSON document, or lines of documents (`_bulk` text; its action lines hold no event). If a line is a document by
  itself, the value is read line by line. Otherwise it is one document, perhaps written over several lines. Each document is
  checked separately, so a malformed line does not affect other lines.
* A document with `action_name` is an event of `ubi_events`. Otherwise, with any of `user_query`, `query_attributes`, `query_response_id`,
  `query_response_hit_ids`, it is a query of `ubi_queries`.
* A query without hits is no event because search back ends may write several documents for one query, and only one of them has
  the hits. The others ask for facets or suggestions. The first of them would otherwise become the (empty) list of that `query_id`.
* A feedback without an object (a search, a page view) is on NO_ITEM, which no list shows. It moves the watermark and matches nothing.
* Values and limits follow the rules of mappings. Null and "" count as absent. A field named in the settings is looked up in the document,
  then in its `event_attributes` or `query_attributes`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from streammetrics.errors import MalformedEvent
from streammetrics.events.batches import elements_of
from streammetrics.events.json_text import read_document
from streammetrics.events.malformed import malformed
from streammetrics.events.mappings.decoder import mapped_decoder
from streammetrics.events.mappings.watch import Shipped, watch_of
from streammetrics.events.model import EventLimits, Impression, PartsDecoder, RecordPart
from streammetrics.events.outcomes import IGNORED
from streammetrics.events.ubi_options import NO_ITEM, UbiSettings
from streammetrics.events.ubi_rules import SEARCH_HIT, ubi_rules, watched_rules

_PATH_ADVICE = "correct the path"
_ADVICE = "send it, or name another field in events.ubi_user, events.ubi_value or events.ubi_page_start"


def ubi_decoder(limits: EventLimits, settings: UbiSettings | None = None, *, watched: Collection[str] | None = None) -> PartsDecoder:
    """Return a decoder of UBI documents. It returns the events, and one MalformedEvent for each malformed document.

    With `watched`, it also gives notes of the paths that the settings name (see `mappings.watch`), but of these segments only.

    >>> decode = ubi_decoder(EventLimits())
    >>> decode(b'{"action_name":"click","client_id":"c","query_id":"q","timestamp":"2024-12-10T00:01:29Z",'
    ...        b'"event_attributes":{"object":{"object_id":"B07"}}}')
    (Feedback(user_id='c', ts=1733788889000, item_id='B07', action='click', value=None, impression_id='q'),)
    >>> decode(b'{"index":{"_index":"ubi_events"}}')
    ()
    """
    chosen = UbiSettings() if settings is None else settings
    rules = ubi_rules(chosen)
    watches = [None if watched is None else watch_of(rule, Shipped("ubi", watched)) for rule in watched_rules(chosen)]
    of_source = mapped_decoder(rules, limits, {}, watches)
    formats = {"ubi": lambda hit: of_source(bytes(read_document(hit or b"")["_source"]))}
    by_rules = mapped_decoder((*rules, SEARCH_HIT), limits, formats, [*watches, None])

    def read(document: bytes | None) -> Sequence[RecordPart]:
        found = by_rules(document)
        first = found[0]
        if type(first) is Impression and NO_ITEM in first.items:
            return (malformed("bad_id", f"item id {NO_ITEM} is reserved for feedback without an item", None, "send the item's id"),)
        if type(first) is MalformedEvent:
            return () if first.reason == IGNORED else (_of_ubi(first, document),)
        return found

    def decode(value: bytes | None) -> Sequence[RecordPart]:
        documents = _documents(value)
        if len(documents) == 1:
            return read(documents[0])
        return tuple(event for document in documents for event in read(document))

    return decode


def _of_ubi(error: MalformedEvent, document: bytes | None) -> MalformedEvent:
    """Return an error of the mappings with what to do about it in UBI."""
    if error.reason == "bad_type":
        rule = "a document must be a UBI query or a UBI event, which has an action_name"
        return malformed("bad_type", rule, document, "send documents of ubi_queries or ubi_events")
    rule, _, advice = error.detail.rpartition("; ")
    return MalformedEvent(error.reason, f"{rule}; {_ADVICE}") if _PATH_ADVICE in advice else error


def _documents(value: bytes | None) -> Sequence[bytes | None]:
    """Split a value into documents: its non-blank lines if one of them is a document, unless all lines form one document.

    An array of documents counts as a document here, and is then replaced by its elements. Sizes are checked later, per document. So an
    oversized document is rejected once, however it is written.
    """
    if value is None or (b"\n" not in value and value[:1] == b"{"):
        return (value,)
    return [document for each in _lines(value) for document in _elements(each)]


def _elements(value: bytes) -> Sequence[bytes]:
    """Return the elements of an array; the value itself if it is no array of documents."""
    return elements_of(value) or (value,)


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
