"""OpenSearch User Behavior Insights (UBI) 1.3: documents of `ubi_events` and `ubi_queries`, also in `_bulk` text and arrays.

https://github.com/o19s/ubi

By default, the item-level `impression` events form the lists. Other choices are two lines in a file of your own:

    from streammetrics.readers import ubi

    read = ubi.reader(user="session_id", experiment="ranker", lists_from="hit_ids")

Needs `timestamp`, the user, `query_id` of lists, and `event_attributes` with `object.object_id` and `position.ordinal` (or `rank`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from streammetrics.errors import MalformedEvent
from streammetrics.readers import Record, first, ignore

NO_ITEM = "-"
"""The item of a reaction without one, such as a search: it moves the time on. No list may show it."""
HITS = ("query_response_hit_ids", "query_response_object_ids")
"""The hits of a query, and their name before version 1.3."""
QUERY = ("user_query", "query_attributes", "query_response_id", *HITS)
BULK = ("index", "create", "update", "delete")


def reader(
    *,
    user: str = "client_id",
    segments: Sequence[str] = ("application",),
    experiment: str = "",
    value: str = "",
    exposure: str = "impression",
    lists_from: str = "impressions",
    empty_lists: bool = False,
    page_start: str = "",
) -> Callable[[Record], Iterator[Any]]:
    """Return a reader. `user`, `segments`, `experiment`, `value` and `page_start` are fields of a document or of its attributes.

    `experiment` holds a variant of the experiment of that name, or an object experiment -> variant. `value` holds a number, such as
    `dwell_time`. `exposure` is the action that shows an item. `lists_from="hit_ids"`: the hits of a query are its list. `empty_lists`: a
    query without hits is an empty list. `page_start` holds the number of items on earlier pages, which are parts of the same list.
    """
    if lists_from not in ("impressions", "hit_ids"):
        raise ValueError(f'lists_from is {lists_from!r}; write "impressions" or "hit_ids"')
    by_hits = lists_from == "hit_ids"

    def read(record: Record) -> Iterator[Any]:
        for document in documents(record):
            if first(document, "action_name") is not None:
                yield event(document, document.get("event_attributes") or {})
            elif any(name in document for name in QUERY):
                yield query(document, document.get("query_attributes") or {})
            elif any(name in document for name in BULK):
                yield ignore("action of _bulk text")
            else:
                raise ValueError("a document has an action_name, or the fields of a query")

    def event(document: dict[str, Any], said: dict[str, Any]) -> Any:
        action, item = document["action_name"], first(said.get("object") or {}, "object_id")
        if action != exposure or item is None:
            reaction = {"type": "feedback", "item_id": NO_ITEM if item is None else item, "action": action}
            return {**reaction, "value": either(document, said, value), **shared(document, said)}
        if by_hits:
            return ignore("impression of an item")
        ordinal = first(said.get("position") or {}, "ordinal")
        return listed([item], [first(said, "rank") if ordinal is None else ordinal], document, said)

    def query(document: dict[str, Any], said: dict[str, Any]) -> Any:
        hits = first(document, *HITS)
        if hits is None or not (empty_lists if hits == [] else by_hits):
            return ignore("query")
        is_part = page_start or not by_hits  # other pages, or impressions of items, may be parts of the same list
        return listed(hits, range(len(hits)) if is_part else None, document, said)

    def listed(ids: list[Any], places: Sequence[Any] | None, document: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
        if NO_ITEM in ids:
            raise ValueError(f"the item id {NO_ITEM} is reserved for reactions without an item")
        items = ids
        if places is not None:
            start = int(either(document, said, page_start) or 0)
            items = [{"id": item, "position": place + start if start else place} for item, place in zip(ids, places, strict=True)]
        variant = either(document, said, experiment)
        experiments = variant if variant is None or isinstance(variant, dict) else {experiment: variant}
        labels = {"experiments": experiments, "segments": {name: either(document, said, name) for name in segments}}
        return {"type": "impression", "items": items, "fragment": places is not None, **labels, **shared(document, said)}

    def shared(document: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
        list_id = first(document, "query_id")
        return {"user_id": either(document, said, user), "ts": first(document, "timestamp"), "impression_id": list_id}

    return read


def either(document: dict[str, Any], said: dict[str, Any], name: str) -> Any:
    """Return a field of a document, or else of its attributes."""
    value = first(document, name)
    return first(said, name) if value is None else value


def documents(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the documents of a record. Lines are documents if they are no document together."""
    try:
        content = record.json()
    except MalformedEvent:
        lines = [line for line in record.value.split(b"\n") if line.strip()]
        if len(lines) < 2:
            raise
        content = [document for line in lines for document in documents(Record(line))]
    for document in content if isinstance(content, list) else [content]:
        is_hit = "_source" in document and "action_name" not in document
        yield document["_source"] if is_hit else document


read = reader()
