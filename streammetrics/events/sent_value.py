"""The value of a record together with what else belongs to the record: key, headers and timestamp. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

Headers: TypeAlias = Mapping[str, bytes | None]
"""A record's headers by name. Of several headers with one name, the last counts."""

NO_HEADERS: Headers = MappingProxyType({})


class SentValue(bytes):
    """The value of a record, which also knows the key, the headers and the timestamp (epoch ms, -1 if unknown) of the record.

    It is made only for topics whose decoder needs them. The values of all others are plain bytes. A record without a value has the
    empty one.

    >>> value = SentValue.of(b"{}", {"ce_type": b"click"}, key=b"u7")
    >>> value == b"{}", value.headers["ce_type"], value.key, value.timestamp_ms
    (True, b'click', b'u7', -1)
    """

    headers: Headers = NO_HEADERS
    key: bytes | None = None
    timestamp_ms: int = -1

    @classmethod
    def of(
        cls,
        value: bytes,
        headers: Headers = NO_HEADERS,
        *,
        key: bytes | None = None,
        timestamp_ms: int = -1,
    ) -> SentValue:
        sent = cls(value)
        sent.headers, sent.key, sent.timestamp_ms = headers, key, timestamp_ms
        return sent
