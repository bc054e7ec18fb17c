"""Readers: Python functions from a record of any form to events.

    from streammetrics.readers import Record, ignore

    def read(record: Record):
        call = record.json()
        if call["type"] == "click":
            yield {"type": "feedback", "user_id": call["user"], "ts": call["at"], "item_id": call["sku"], "action": "click"}
        else:
            yield ignore(call["type"])

The modules of this folder are readers of well-known formats. Each is one file, and is meant to be copied. `times` reads the times that
warehouses write.
"""

from streammetrics.events.record import Later, Record, ignore

__all__ = ["Later", "Record", "ignore"]
