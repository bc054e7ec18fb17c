"""What a reader gets and what it says besides events: the record, the value as sent, `ignore` and `Later`. Values only.

A reader is a function of the user's, from one record to events of the native schema. `reader` has the decoder that calls it.

A file's name begins with the name of its topic. Topics may have dots.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, final

import msgspec

from streammetrics.errors import SourceError
from streammetrics.events.json_text import parsed

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


_set = msgspec.structs.force_setattr

NO_REASON: Final = "no reason given"


@final
class Record(msgspec.Struct, frozen=True):
    """One record of a topic or a file.

    `value` is what was sent: empty for a tombstone, and the JSON of its columns for a row of CSV or Parquet. `timestamp_ms` is that of the
    record (epoch ms), or -1 if it has none, as in files. `topic` is the path of a file in a replay.

    >>> Record(b'{"sku":"b"}', key=b"u7").json()["sku"]
    'b'
    """

    value: bytes
    key: bytes | None = None
    timestamp_ms: int = -1
    headers: Headers = NO_HEADERS
    topic: str = ""
    content: Any = msgspec.UNSET
    """What `json` returns, once it is known."""

    def json(self) -> Any:
        """Return the value as JSON. It is parsed once.

        Of duplicate keys the last wins. Whole numbers are exact. Raises MalformedEvent for anything that is not JSON in UTF-8, for NaN, and
        for more than 256 levels; the record is then refused for that reason.
        """
        content = self.content
        if content is msgspec.UNSET:
            content = parsed(self.value)
            _set(self, "content", content)
        return content

    def row(self) -> dict[str, Any]:
        """Return the columns of a row of CSV or Parquet. Raises ValueError if the record is no row.

        Cells of CSV are texts, and empty ones are absent. Columns of Parquet have their types; times are ISO-8601 text.
        """
        row = self.json()
        if type(row) is not dict:
            raise ValueError(f"this record is no row of named columns but a JSON {'array' if type(row) is list else 'value'}")
        return row

    def of(self, content: Any) -> Record:
        """Return the record with other JSON in it, such as what an envelope holds, for another reader.

        >>> Record(b'{"payload":{"sku":"b"}}', b"u7").of({"sku": "b"}).json()
        {'sku': 'b'}
        """
        return msgspec.structs.replace(self, content=content)


class IgnoredRecord(NamedTuple):
    """A record, or a part of one, that is left out on purpose."""

    reason: str


def ignore(reason: str = NO_REASON) -> IgnoredRecord:
    """Return what a reader yields for a record that it leaves out. Records are counted by reason, 20 reasons at most.

    >>> ignore("page view")
    IgnoredRecord(reason='page view')
    """
    return IgnoredRecord(str(reason) or NO_REASON)


class Later(SourceError):
    """A record cannot be read now, because something that its reader needs is away. Raised by a reader: the input waits, nothing is lost.

    >>> raise Later("the schema registry does not answer")
    Traceback (most recent call last):
    ...
    streammetrics.events.record.Later: the schema registry does not answer
    """


def topic_of(name: str, topics: Collection[str]) -> str | None:
    """Return the longest of some topics that a topic or a file has; None if it has none.

    >>> [topic_of(name, ["web", "web.searches"]) for name in ("web.searches", "logs/web.searches.2026-week46.parquet", "web.csv", "shop")]
    ['web.searches', 'web.searches', 'web', None]
    """
    file = name.rpartition("/")[2]
    return max((topic for topic in topics if topic in (name, file) or file.startswith(f"{topic}.")), key=len, default=None)
