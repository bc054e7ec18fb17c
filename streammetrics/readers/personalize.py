"""Amazon Personalize: rows of an interactions data set, from CSV or JSON. One row is one interaction, with the list that was shown.

https://docs.aws.amazon.com/personalize/latest/dg/interactions-datasets.html

Needs `USER_ID`, `ITEM_ID`, `TIMESTAMP` in seconds, and `IMPRESSION` for lists. A list has no id of its own, so one is made of the
recommendation, or of the user and the time. Rows of one recommendation repeat its list; repetitions are counted as duplicates.
"""

from collections.abc import Iterator
from typing import Any

from streammetrics.readers import Record, first, times


def read(record: Record) -> Iterator[Any]:
    row = record.row()
    user, at, impression = row["USER_ID"], row["TIMESTAMP"], first(row, "IMPRESSION")
    shared = {"user_id": user, "ts": times.seconds(at)}
    if impression is not None:
        shared["impression_id"] = first(row, "RECOMMENDATION_ID") or f"{user}/{at}"
        yield {"type": "impression", "items": impression.split("|") if isinstance(impression, str) else impression, **shared}
    value = first(row, "EVENT_VALUE")
    reaction = {"type": "feedback", "item_id": row["ITEM_ID"], "action": first(row, "EVENT_TYPE") or "click"}
    yield {**reaction, "value": None if value is None else float(value), **shared}
