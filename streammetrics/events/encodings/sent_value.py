"""A record's value together with what else is needed to decode it. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

ToJson: TypeAlias = Callable[[bytes], bytes]
"""Returns the JSON text of an encoded record. Raises MalformedEvent for bytes that do not fit the schema."""
Headers: TypeAlias = Mapping[str, bytes | None]
"""A record's headers by name. Of several headers with one name, the last counts."""

NO_HEADERS: Headers = MappingProxyType({})


class SentValue(bytes):
    """The value of a record, which also knows the record's headers and how its schema is read.

    It is made only for records that need it. All others have plain bytes.

    >>> value = SentValue.of(b"\\x00\\x00\\x00\\x00\\x07x", {"ce_type": b"click"})
    >>> value == b"\\x00\\x00\\x00\\x00\\x07x", value.headers["ce_type"], value.to_json
    (True, b'click', None)
    """

    headers: Headers = NO_HEADERS
    to_json: ToJson | None = None

    @classmethod
    def of(cls, value: bytes, headers: Headers = NO_HEADERS, to_json: ToJson | None = None) -> SentValue:
        sent = cls(value)
        sent.headers, sent.to_json = headers, to_json
        return sent
