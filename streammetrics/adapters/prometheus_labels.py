"""What events may do to labels and counters: names stay bounded in number, length and characters, counters never step back.

Nothing here knows a series; what is sent comes in as text, what is shown goes out as text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from streammetrics.shown_text import fit
from streammetrics.windows import Group

OTHER = "_other"
"""The value that stands for all values beyond the limit."""
CHARS_MAX = 256
"""Most characters of a label value as shown; a segment is shown as `name=value`."""

_DIGEST_CHARS = 8


def clean(value: str) -> str:
    """A label value fit to be shown: what had to be changed carries a digest of what was sent, so that two stay two.

    >>> clean("<script>alert(1)</script>"), clean("a\\nb"), clean("_other")
    ('<script>alert(1)</script>', 'a\ufffdb~7e18f737', '_other~e7847e7f')
    """
    shown = fit(value)
    if shown == value and len(shown) <= CHARS_MAX and shown != OTHER:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{shown[: CHARS_MAX - 1 - _DIGEST_CHARS]}~{digest}"


def segments_text(group: Group) -> str:
    """The segments of a group as one label value; empty for all of them together."""
    return f"{group.segment}={group.value}" if group.segment else ""


Counter = TypeVar("Counter", bound=Hashable)


class ShownGroup(NamedTuple):
    """The labels that a group is shown with."""

    experiment: str
    variant: str
    segments: str

    @property
    def is_folded(self) -> bool:
        return OTHER in self


class LabelNames:
    """Which sent values keep their own name: at most `values_max` a label, the rest become `_other`.

    A value keeps its place for as long as it is in the report, so that a new one cannot rename the others; but values with
    lists in a window come before those that only the cumulative totals still remember.
    """

    def __init__(self, values_max: int) -> None:
        self._values_max = values_max
        self._shown: dict[str, dict[str, str]] = {"experiment": {}, "variant": {}, "segments": {}}

    def settle(self, live: Collection[Group], resting: Collection[Group]) -> Mapping[Group, ShownGroup]:
        """Name the groups of a report: those of its windows, and those of its totals."""
        experiments = self._settle("experiment", [each.experiment for each in live], [each.experiment for each in resting])
        live_kept, resting_kept = ([each for each in groups if experiments[each.experiment] != OTHER] for groups in (live, resting))
        variants = self._settle("variant", [each.variant for each in live_kept], [each.variant for each in resting_kept])
        segments = self._settle("segments", map(segments_text, live), ())

        def shown(group: Group) -> ShownGroup:
            experiment = experiments[group.experiment]
            variant = OTHER if experiment == OTHER else variants[group.variant]
            return ShownGroup(experiment, variant, segments[segments_text(group)] if group.segment else "")

        return {group: shown(group) for group in (*live, *resting)}

    def _settle(self, label: str, live: Iterable[str], resting: Iterable[str]) -> Mapping[str, str]:
        now, before = set(live), self._shown[label]
        values = sorted({*now, *resting} - {""}, key=lambda value: (value not in now, value not in before, value))
        self._shown[label] = {value: before.get(value) or clean(value) for value in values[: self._values_max]}
        return {"": "", **dict.fromkeys(values[self._values_max :], OTHER), **self._shown[label]}


class Counters(Generic[Counter]):
    """Counters that never step back: each grows by what its sources grow by.

    Sources may step back (a store that lost its last commits is caught up again), vanish, or move to another counter (a value
    that folds into `_other`); what was shown stays. A counter whose sources have all vanished is forgotten.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, int] = {}
        self._shown: dict[Counter, int] = {}

    def take(self, sources: Iterable[tuple[Hashable, Counter, int]]) -> Mapping[Counter, int]:
        """Take every source with its counter and value as they are now; returns the value to show of each counter.

        >>> counters = Counters[str]()
        >>> [dict(counters.take([("source", "counter", value)])) for value in (5, 3, 6)]
        [{'counter': 5}, {'counter': 5}, {'counter': 6}]
        """
        seen: dict[Hashable, int] = {}
        shown: dict[Counter, int] = {}
        for source, counter, value in sources:
            known = self._seen.get(source, 0)
            seen[source] = max(known, value)
            begun = self._shown.get(counter)
            if counter not in shown:
                shown[counter] = 0 if begun is None else begun
            shown[counter] += seen[source] - (0 if begun is None else known)
        self._seen, self._shown = seen, shown
        return shown
