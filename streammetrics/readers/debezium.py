"""Debezium: changes of rows, with or without schemas. By itself, it reads rows that are native events. For other rows:

    from streammetrics.readers import debezium, ignore

    def read(record):
        row = debezium.row(record)
        if row is None:
            yield ignore("deletion")
        else:
            yield {"type": "feedback", "user_id": row["visitor"], "ts": row["at"], "item_id": row["sku"], "action": "click"}

https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-change-events-value
"""

from collections.abc import Iterator
from typing import Any

from streammetrics.readers import Record, ignore
from streammetrics.readers.connect import content

UNAVAILABLE = "__debezium_unavailable_value"
"""Sent for a large column that did not change, and that the log of the database does not have."""


def read(record: Record) -> Iterator[Any]:
    event = row(record)
    yield ignore("deletion") if event is None else event


def row(record: Record) -> dict[str, Any] | None:
    """Return the row after a change, without columns that are unavailable. None for a deletion and for the tombstone after it."""
    if not record.value:
        return None
    change = record.json()
    if "op" not in change and change.get("payload") is not None:
        change = content(change["payload"])
    if "op" not in change and "after" not in change:
        raise ValueError("no change of Debezium: it has neither op nor after")
    after = content(change.get("after"))
    return None if after is None else {name: value for name, value in after.items() if value != UNAVAILABLE}
