"""Names from events become label values that are limited in number, length and characters. Counters never decrease.

Knows no series: text in, text out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from streammetrics.windows.panes import Group
from streammetrics.words.names import fit

OTHER = "_other"
"""Replaces all values over the limit."""
CHARS_MAX = 256
"""Longest label value, in characters. A segment is `name=value`."""

_DIGEST_CHARS = 8
_DIGESTED = re.compile(rf"~[0-9a-f]{{{_DIGEST_CHARS}}}\Z")


def clean(value: str) -> str:
    """Return a label value that is safe to show. A changed value ends with a digest of the original, so that names stay distinct.

    A value that already looks like one with a digest gets a digest too, so it cannot imitate a changed value.

    >>> clean("<script>alert(1)</script>"), clean("a\\nb"), clean("_other")
    ('<script>alert(1)</script>', 'a\ufffdb~7e18f737', '_other~e7847e7f')
    """
    printed = fit(value)
    if printed == value and len(printed) <= CHARS_MAX and printed != OTHER and not _DIGESTED.search(printed):
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{printed[: CHARS_MAX - 1 - _DIGEST_CHARS]}~{digest}"


Value = TypeVar("Value", bound=str | tuple[str, str])
Counter = TypeVar("Counter", bound=Hashable)


class ShownGroup(NamedTuple):
    """The displayed labels of a group."""

    experiment: str
    variant: str
    segments: str

    @property
    def is_folded(self) -> bool:
        return OTHER in self


class _Names(Generic[Value]):
    """Assigns names to the values of one label: at most `values_max` keep their own, the rest become `_other`.

    `text` returns the text of a value. If two values have the same text, the first one keeps it and the other one is folded.
    """

    def __init__(self, values_max: int, text: Callable[[Value], str]) -> None:
        self._values_max, self._text = values_max, text
        self._names: dict[Value, str] = {}

    def assign(self, live: Iterable[Value], resting: Iterable[Value] = ()) -> Mapping[Value, str]:
        """Return the name of every value. Values of `live` have priority over those of `resting`."""
        now, before = set(live), self._names
        values = sorted({*now, *resting}, key=lambda value: (value not in now, value not in before, value))
        owners: dict[str, Value] = {}
        for value in values[: self._values_max]:
            owners.setdefault(before.get(value) or clean(self._text(value)), value)
        self._names = {value: printed for printed, value in owners.items()}
        return {**dict.fromkeys(values, OTHER), **self._names}


class LabelNames:
    """Assigns label values to groups: at most `values_max` per label keep their own name, the rest become `_other`.

    A value keeps its name while it is in the report, so new values cannot displace it. Values with lists in a window have priority
    over values that are only in the cumulative totals.
    """

    def __init__(self, values_max: int) -> None:
        self._experiments, self._variants = (_Names[str](values_max, str) for _ in range(2))
        self._segments = _Names[tuple[str, str]](values_max, "=".join)

    def assign(self, live: Collection[Group], resting: Collection[Group]) -> Mapping[Group, ShownGroup]:
        """Return the labels of the groups of a report. `live` groups are in windows, `resting` ones only in totals."""
        experiments = _assigned(self._experiments, *([group.experiment for group in groups] for groups in (live, resting)))
        live_kept, resting_kept = ([group for group in groups if experiments[group.experiment] != OTHER] for groups in (live, resting))
        variants = _assigned(self._variants, *([group.variant for group in groups] for groups in (live_kept, resting_kept)))
        segments = self._segments.assign((group.segment, group.value) for group in live if group.segment)

        def labels_of(group: Group) -> ShownGroup:
            experiment = experiments[group.experiment]
            variant = OTHER if experiment == OTHER else variants[group.variant]
            return ShownGroup(experiment, variant, segments[group.segment, group.value] if group.segment else "")

        return {group: labels_of(group) for group in (*live, *resting)}


def _assigned(names: _Names[str], live: Iterable[str], resting: Iterable[str]) -> Mapping[str, str]:
    """Assign names. The empty value means no name and does not count."""
    return {"": "", **names.assign(filter(None, live), filter(None, resting))}


class MonotonicCounters(Generic[Counter]):
    """Counters that never decrease. Each one grows by the growth of its sources.

    A source may decrease (after a store lost its last commits), vanish, or move to another counter (when a value is folded into
    `_other`). The displayed count stays. A counter without sources is dropped.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, int] = {}
        self._values: dict[Counter, int] = {}

    def update(self, sources: Iterable[tuple[Hashable, Counter, int]]) -> Mapping[Counter, int]:
        """Update all sources, given as (source, counter, value). Return the value of each counter.

        >>> counters = MonotonicCounters[str]()
        >>> [dict(counters.update([("source", "counter", value)])) for value in (5, 3, 6)]
        [{'counter': 5}, {'counter': 5}, {'counter': 6}]
        """
        seen: dict[Hashable, int] = {}
        increases: dict[Counter, int] = {}
        for source, counter, value in sources:
            count_before = self._seen.get(source, 0)
            seen[source] = max(count_before, value)
            before = self._values.get(counter)
            if counter not in increases:
                increases[counter] = 0 if before is None else before
            increases[counter] += seen[source] - (0 if before is None else count_before)
        self._seen, self._values = seen, increases
        return increases
