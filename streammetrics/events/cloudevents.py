"""The attributes of CloudEvents, added to the event as the object `ce`, so that mappings can use them: `ce.type`, `ce.subject`, `ce.time`.

In structured mode the attributes are beside `data`. In binary mode they are headers of the record that begin with `ce_`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from streammetrics.events.sent_value import Headers

PREFIX: Final = "ce_"
FIELD: Final = "ce"
_DATA: Final = ("data", "data_base64")
_encode = msgspec.json.Encoder().encode


def with_header_attributes(event: bytes, headers: Headers) -> bytes:
    """Return an event with the attributes from its record's headers. Headers that are not UTF-8 are left out.

    >>> with_header_attributes(b'{"sku":"a"}', {"ce_type": b"click", "ce_id": b"7", "content-type": b"application/json"})
    b'{"ce":{"type":"click","id":"7"},"sku":"a"}'
    """
    found = {}
    for name, value in headers.items():
        if name.startswith(PREFIX) and value is not None:
            try:
                found[name.removeprefix(PREFIX)] = value.decode()
            except UnicodeDecodeError:
                continue
    return _with(event, _encode(found)) if found else event


def with_attributes(event: bytes, fields: Mapping[str, msgspec.Raw]) -> bytes:
    """Return the event of a structured CloudEvent with the attributes beside it."""
    return _with(event, _encode({name: value for name, value in fields.items() if name not in _DATA}))


def _with(event: bytes, attributes: bytes) -> bytes:
    """Put attributes first into a JSON object: a field of the same name that the event has itself counts. Other values stay as they are."""
    rest = event.lstrip()
    if not rest.startswith(b"{"):
        return event
    inside = rest[1:].lstrip()
    return b'{"%s":%s%s%s' % (FIELD.encode(), attributes, b"" if inside.startswith(b"}") else b",", inside)
