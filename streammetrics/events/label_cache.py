"""The labels of lists, read once for each way in which they are written: many lists carry the same few.

What is held only ever saves work. Labels are the same whether they were held or not, but equal ones that are held are one
object: whoever compares or hashes them later is quick about it, and a million lists keep no more than the few.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from streammetrics.events.fields import sorted_labels
from streammetrics.events.json_text import has_control, may_hold_control
from streammetrics.events.model import EventLimits, Labels

SETS_MAX: Final = 10_000
BYTES_MAX: Final = 2_097_152
"""How many label sets are held, and how many bytes of JSON they were written in, before all of them are let go of."""

LabelSet: TypeAlias = tuple[Labels, Labels]
"""The experiments and the segments of one list."""

ABSENT: Final = msgspec.Raw(b"null")
"""What stands for labels that are not there."""

as_sent = b"".join
"""The key of a label set: the JSON of its experiments, then of its segments, each of them one whole value.

Where the first value ends is told by the JSON itself: an object at its own closing brace, `null` at its last letter. So no
two pairs of values that labels may be written in have one key.
"""


class LabelSets:
    """The label sets of lists under some limits.

    `held` has them by what `as_sent` makes of their JSON, for callers to whom `of` would cost too much.

    >>> sets = LabelSets(EventLimits())
    >>> sets.of(msgspec.Raw(b'{"ranker":"new"}'), ABSENT)
    ((('ranker', 'new'),), ())
    >>> sets.of(msgspec.Raw(b'{"ranker":"new"}'), ABSENT) is sets.of(msgspec.Raw(b'{ "ranker": "new" }'), msgspec.Raw(b"{}"))
    True
    """

    __slots__ = ("_bytes", "_experiments", "_segments", "_shared", "held")

    def __init__(self, limits: EventLimits) -> None:
        label: Any = Annotated[str, Meta(min_length=1, max_length=limits.label_chars_max)]
        value: Any = Annotated[str, Meta(max_length=limits.label_chars_max)]
        experiments: Any = Annotated[dict[label, label], Meta(max_length=limits.experiments_max)] | None
        segments: Any = Annotated[dict[label, value], Meta(max_length=limits.segments_max)] | None
        self._experiments = msgspec.json.Decoder(experiments).decode
        self._segments = msgspec.json.Decoder(segments).decode
        self.held: dict[bytes, LabelSet] = {}
        self._shared: dict[LabelSet, LabelSet] = {}
        self._bytes = 0

    def of(self, experiments: msgspec.Raw, segments: msgspec.Raw) -> LabelSet:
        """The labels of a list by the JSON of its experiments and segments; raises what `read` raises."""
        return self.held.get(as_sent((experiments, segments))) or self.read(experiments, segments)

    def read(self, experiments: msgspec.Raw, segments: msgspec.Raw) -> LabelSet:
        """Read a label set and hold it. Raises ValueError or msgspec.ValidationError for what is not surely labels."""
        key = as_sent((experiments, segments))
        found = sorted_labels(self._experiments(experiments)), sorted_labels(self._segments(segments))
        if may_hold_control(key) and has_control("".join(text for labels in found for pair in labels for text in pair)):
            raise ValueError("a control character")
        if len(self.held) >= SETS_MAX or self._bytes + len(key) > BYTES_MAX:
            self.held.clear()
            self._shared.clear()
            self._bytes = 0
        self._bytes += len(key)
        found = self.held[key] = self._shared.setdefault(found, found)
        return found
