"""CloudEvents in structured and in binary mode. By itself, it reads data that are native events. For other data:

    from streammetrics.readers import cloudevents

    def read(record):
        said, data = cloudevents.event(record)
        yield {"type": "feedback", "user_id": said["subject"], "ts": said["time"], "item_id": data["sku"], "action": "click"}

https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/kafka-protocol-binding.md
"""

import base64
from collections.abc import Iterator
from typing import Any

from streammetrics.readers import Record
from streammetrics.readers.connect import content

PREFIX = "ce_"


def read(record: Record) -> Iterator[Any]:
    _, data = event(record)
    yield data


def event(record: Record) -> tuple[dict[str, Any], Any]:
    """Return the attributes and the data of an event. A record that is no CloudEvent is data without attributes.

    In binary mode, attributes are headers of the record, and are texts.
    """
    if PREFIX + "specversion" in record.headers:
        headers = {name.removeprefix(PREFIX): value for name, value in record.headers.items() if name.startswith(PREFIX)}
        return {name: value.decode() for name, value in headers.items() if value is not None}, record.json()
    sent = record.json()
    if "specversion" not in sent:
        return {}, sent
    attributes = {name: value for name, value in sent.items() if name not in ("data", "data_base64")}
    if "data_base64" not in sent:
        return attributes, content(sent["data"])
    if "data" in sent:
        raise ValueError("a CloudEvent has data or data_base64, not both")
    return attributes, content(base64.b64decode(sent["data_base64"], validate=True).decode())
