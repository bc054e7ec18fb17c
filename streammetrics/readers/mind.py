"""MIND, the Microsoft News Dataset: lines of behaviors.tsv. A line is one list with its clicks.

https://github.com/msnews/msnews.github.io/blob/master/assets/doc/introduction.md

A line has five columns: impression id, user, time (UTC), history, and the items with 1 for a click and 0 for none. Lines of the test set
have no clicks. MIND publishes the items of a list in random order, so its NDCG says nothing about the order that people saw.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from streammetrics.readers import Record


def read(record: Record) -> Iterator[Any]:
    cells = record.value.decode().rstrip("\r\n").split("\t")
    if len(cells) != 5:
        raise ValueError(f"{len(cells)} columns separated by tabs; behaviors.tsv has 5")
    identity, user, time, _, impressions = cells
    moment = datetime.strptime(time, "%m/%d/%Y %I:%M:%S %p").replace(tzinfo=UTC)
    shared = {"impression_id": identity, "user_id": user, "ts": moment}
    items, clicked = [], []
    for word in impressions.split():
        item, _, label = word.rpartition("-") if "-" in word else (word, "", "0")
        if label not in ("0", "1"):
            raise ValueError(f"an item is N123-1 (clicked), N123-0 or N123, not {word}")
        items.append(item)
        clicked += [item] * int(label)
    yield {"type": "impression", "items": items, **shared}
    for item in clicked:
        yield {"type": "feedback", "item_id": item, "action": "click", **shared}
