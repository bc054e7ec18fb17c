"""The decoder of topics with a reader: it calls the reader, and checks each event that it yields by the rules of the native schema.

Events in their usual form are checked as they are. All others become JSON, and the native decoder reads them: so both have the same rules
and messages. A record for which its reader raises is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import GeneratorType
from typing import Any, Final, TypeAlias

from streammetrics.errors import MalformedEvent
from streammetrics.events.batches import numbered
from streammetrics.events.model import Decoder, Event, EventLimits
from streammetrics.events.outcomes import IGNORED, excerpt, malformed, without_traceback
from streammetrics.events.reader_events import event_converter
from streammetrics.events.record import NO_HEADERS, NO_REASON, IgnoredRecord, Later, Record, SentValue

Reader: TypeAlias = Callable[[Record], Iterable[Any]]
"""A reader: it yields events of the native schema as dicts, and what `ignore` returns."""
EVENTS_MAX: Final = 100_000
"""Events of one record. A reader that never ends would fill the memory."""

ERROR_CHARS_MAX: Final = 200
"""Characters of an error of a reader that are shown."""

_NOTHING: Final = (MalformedEvent(IGNORED, NO_REASON),)


def reader_decoder(read: Reader, native: Decoder, limits: EventLimits, topic: str = "", file: str = "") -> Decoder:
    """Return a decoder that reads the records of a topic with `read`. `native` decodes the native schema under the same limits.

    `file` is the path of the reader's file: its lines are named in errors. The decoder raises nothing but `Later`.

    >>> from streammetrics.events import native_decoder
    >>> def clicks(record):
    ...     user, item = record.value.decode().split()
    ...     yield {"type": "feedback", "user_id": user, "ts": 5, "item_id": item, "action": "click"}
    >>> decode = reader_decoder(clicks, native_decoder(EventLimits()), EventLimits())
    >>> decode(b"u7 b")
    [Feedback(user_id='u7', ts=5, item_id='b', action='click', value=None, impression_id=None)]
    >>> decode(b"u7")[0].detail
    'ValueError: not enough values to unpack (expected 2, got 1); got u7; correct the reader, or let it yield ignore(…)'
    """
    convert, bytes_max = event_converter(limits, native), limits.event_bytes_max

    def decode(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        if value is not None and len(value) > bytes_max:
            return native(value)
        if type(value) is SentValue:
            record = Record(value, value.key, value.timestamp_ms, value.headers, topic)
        else:
            record = Record(value or b"", None, -1, NO_HEADERS, topic)
        parts: list[Event | MalformedEvent] = []
        try:
            result = read(record)
            for event in result if type(result) is GeneratorType else _events(result):
                parts.append(convert(event) if type(event) is dict else _no_dict(event))
                if len(parts) > EVENTS_MAX:
                    return (MalformedEvent("reader", f"the reader yields more than {EVENTS_MAX:,} events for one record; does it end?"),)
        except Later:
            raise
        except MalformedEvent as error:  # of `Record.json`
            return (without_traceback(error),)
        except (Exception, SystemExit) as error:
            return (_raised(error, file, record.value),)
        if len(parts) == 1:
            return parts
        return [part for number, event in enumerate(parts, 1) for part in numbered((event,), number, len(parts))] or _NOTHING

    return decode


def _events(result: Any) -> Iterable[Any]:
    """Return what a reader returns. None is nothing. Raises TypeError for a single event."""
    if result is None:
        return ()
    if isinstance(result, dict | str | bytes | IgnoredRecord):
        raise TypeError(f"the reader returns {type(result).__name__}, not events; yield the event, or return a list of events")
    events: Iterable[Any] = result
    return events


def _no_dict(event: Any) -> MalformedEvent:
    if type(event) is IgnoredRecord:
        return MalformedEvent(IGNORED, event.reason)
    return MalformedEvent("reader", f'the reader yields {excerpt(repr(event))}, no event; yield a dict such as {{"type": "feedback", …}}')


def _raised(error: BaseException, file: str, value: bytes) -> MalformedEvent:
    """Return the refusal of a record for which the reader raised: the error, the last line of the reader's file, and the record."""
    line, step = 0, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == file:
            line = step.tb_lineno
        step = step.tb_next
    where = f", {file.rpartition('/')[2]}:{line}" if line else ""
    what = excerpt(f"{type(error).__name__}: {error}", ERROR_CHARS_MAX)
    return malformed("reader", f"{what}{where}", value, "correct the reader, or let it yield ignore(…)")
