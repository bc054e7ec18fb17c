"""A cache of parsed label sets, keyed by their JSON: many lists have the same few.

The cache saves work and memory and never changes a result. Equal cached label sets are one object, so comparing and hashing them is
fast.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias, cast

import msgspec
from msgspec import Meta

from streammetrics.events.fields import null_notes, read_experiments, read_segments, sorted_labels
from streammetrics.events.json_text import may_hold_control
from streammetrics.events.model import EventLimits, Labels

SETS_MAX: Final = 10_000
BYTES_MAX: Final = 2_097_152
"""Most label sets, and most bytes of their JSON, before the cache is cleared."""

LabelSet: TypeAlias = tuple[Labels, Labels, tuple[str, ...]]
"""Experiments and segments of one list, and the notes about its labels."""

ABSENT: Final = msgspec.Raw(b"null")
"""The JSON of absent labels."""

as_sent = b"".join
"""Return the cache key of a label set: the JSON of its experiments, then of its segments.

Two pairs never share a key, because JSON shows where the first value ends: at an object's closing brace, or at the end of `null`.
"""


class LabelCache:
    """Label sets by their JSON. `cached` is for callers that cannot afford a call to look one up.

    >>> cache = LabelCache()
    >>> cache.put(b'{"a":"x"}', ((("a", "x"),), (), ())) is cache.put(b'{ "a": "x" }', ((("a", "x"),), (), ()))
    True
    """

    __slots__ = ("_bytes", "_shared", "cached")

    def __init__(self) -> None:
        self.cached: dict[bytes, LabelSet] = {}
        self._shared: dict[LabelSet, LabelSet] = {}
        self._bytes = 0

    def put(self, key: bytes, label_set: LabelSet) -> LabelSet:
        """Keep a label set and return it: the object that equal ones share."""
        if len(self.cached) >= SETS_MAX or self._bytes + len(key) > BYTES_MAX:
            self.cached.clear()
            self._shared.clear()
            self._bytes = 0
        self._bytes += len(key)
        label_set = self.cached[key] = self._shared.setdefault(label_set, label_set)
        return label_set


class LabelSets:
    """Parses label sets under the given limits and caches them.

    `cached` maps `as_sent(experiments, segments)` to label sets, for callers that cannot afford a call of `of`.

    >>> sets = LabelSets(EventLimits())
    >>> sets.of(msgspec.Raw(b'{"ranker":"new"}'), ABSENT)
    ((('ranker', 'new'),), (), ())
    >>> sets.of(msgspec.Raw(b'{"ranker":"new","cart":null}'), ABSENT)
    ((('ranker', 'new'),), (), ('null_variant:cart',))
    >>> sets.of(msgspec.Raw(b'{"ranker":"new"}'), ABSENT) is sets.of(msgspec.Raw(b'{ "ranker": "new" }'), msgspec.Raw(b"{}"))
    True
    """

    __slots__ = ("_cache", "_experiments", "_limits", "_segments", "cached")

    def __init__(self, limits: EventLimits) -> None:
        label: Any = Annotated[str, Meta(min_length=1, max_length=limits.label_chars_max)]
        value: Any = Annotated[str, Meta(max_length=limits.label_chars_max)]
        experiments: Any = Annotated[dict[label, label | None], Meta(max_length=limits.experiments_max)] | None
        segments: Any = Annotated[dict[label, value | None], Meta(max_length=limits.segments_max)] | None
        self._limits = limits
        self._experiments = msgspec.json.Decoder(experiments).decode
        self._segments = msgspec.json.Decoder(segments).decode
        self._cache = LabelCache()
        self.cached = self._cache.cached

    def of(self, experiments: msgspec.Raw, segments: msgspec.Raw) -> LabelSet:
        """Return the label set of the JSON of experiments and segments. Raises what `read` raises."""
        return self.cached.get(as_sent((experiments, segments))) or self.read(experiments, segments)

    def read(self, experiments: msgspec.Raw, segments: msgspec.Raw) -> LabelSet:
        """Parse and cache a label set. Raises ValueError or msgspec.MsgspecError for text that is not valid JSON in UTF-8."""
        key = as_sent((experiments, segments))
        is_plain = not may_hold_control(key)
        try:
            variants, values = self._experiments(experiments), self._segments(segments)
            nulls = [name for name, variant in variants.items() if variant is None] if variants else ()
            label_set: LabelSet = _present(variants), _present(values), null_notes(nulls, self._limits)
        except msgspec.ValidationError:
            is_plain = False
        if not is_plain:
            usable, of_segments = read_experiments(experiments, self._limits), read_segments(segments, self._limits)
            label_set = usable.labels, of_segments.labels, usable.notes + of_segments.notes
        return self._cache.put(key, label_set)


def _present(labels: dict[str, str | None] | None) -> Labels:
    """Return labels without those that are null."""
    if labels and None in labels.values():
        labels = {name: value for name, value in labels.items() if value is not None}
    return sorted_labels(cast("dict[str, str] | None", labels))
