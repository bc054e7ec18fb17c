"""Readers: Python functions from a record of any form to events.

    from streammetrics.readers import Record, ignore

    def read(record: Record):
        call = record.json()
        if call["type"] == "click":
            yield {"type": "feedback", "user_id": call["user"], "ts": call["at"], "item_id": call["sku"], "action": "click"}
        else:
            yield ignore(call["type"])

The modules of this folder are readers of well-known formats. Each is one file, and is meant to be copied. `times` reads the times that
warehouses write. `registry` reads records behind a schema registry.
"""

from collections.abc import Mapping
from typing import Any

from streammetrics.events.record import Later, Record, ignore

__all__ = ["Later", "Record", "first", "ignore"]


def first(fields: Mapping[str, Any], *names: str) -> Any:
    """Return the first of these fields that has a value; None if all are absent, null or empty text.

    >>> first({"user": "", "session": 7}, "user", "session")
    7
    """
    for name in names:
        value = fields.get(name)
        if value is not None and value != "":
            return value
    return None
