"""What events may do to labels and counters: names stay bounded in number, length and characters, counters never step back.

Nothing here knows a series; what is sent comes in as text, what is shown goes out as text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from streammetrics.reports.text import fit
from streammetrics.windows.panes import Group

OTHER = "_other"
"""The value that stands for all values beyond the limit."""
CHARS_MAX = 256
"""Most characters of a label value as shown; a segment is shown as `name=value`."""

_DIGEST_CHARS = 8
_DIGESTED = re.compile(rf"~[0-9a-f]{{{_DIGEST_CHARS}}}\Z")


def clean(value: str) -> str:
    """A label value fit to be shown: what had to be changed carries a digest of what was sent, so that two stay two.

    What looks as if it carried one gets another, lest it be taken for what was changed.

    >>> clean("<script>alert(1)</script>"), clean("a\\nb"), clean("_other")
    ('<script>alert(1)</script>', 'a\ufffdb~7e18f737', '_other~e7847e7f')
    """
    shown = fit(value)
    if shown == value and len(shown) <= CHARS_MAX and shown != OTHER and not _DIGESTED.search(shown):
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{shown[: CHARS_MAX - 1 - _DIGEST_CHARS]}~{digest}"


Sent = TypeVar("Sent", bound=str | tuple[str, str])
Counter = TypeVar("Counter", bound=Hashable)


class ShownGroup(NamedTuple):
    """The labels that a group is shown with."""

    experiment: str
    variant: str
    segments: str

    @property
    def is_folded(self) -> bool:
        return OTHER in self


class _Names(Generic[Sent]):
    """Which values of one label keep a name of their own: at most `values_max`, the rest become `_other`.

    `text` is what a value is called. Where two are called the same, the one that was there first is, and the other one is folded.
    """

    def __init__(self, values_max: int, text: Callable[[Sent], str]) -> None:
        self._values_max, self._text = values_max, text
        self._shown: dict[Sent, str] = {}

    def assign(self, live: Iterable[Sent], resting: Iterable[Sent] = ()) -> Mapping[Sent, str]:
        """Name every value, those of `live` before those of `resting`."""
        now, before = set(live), self._shown
        values = sorted({*now, *resting}, key=lambda value: (value not in now, value not in before, value))
        owners: dict[str, Sent] = {}
        for value in values[: self._values_max]:
            owners.setdefault(before.get(value) or clean(self._text(value)), value)
        self._shown = {value: shown for shown, value in owners.items()}
        return {**dict.fromkeys(values, OTHER), **self._shown}


class LabelNames:
    """Which sent values keep their own name: at most `values_max` a label, the rest become `_other`.

    A value keeps its place for as long as it is in the report, so that a new one cannot rename the others; but values with
    lists in a window come before those that only the cumulative totals still remember.
    """

    def __init__(self, values_max: int) -> None:
        self._experiments, self._variants = (_Names[str](values_max, str) for _ in range(2))
        self._segments = _Names[tuple[str, str]](values_max, "=".join)

    def assign(self, live: Collection[Group], resting: Collection[Group]) -> Mapping[Group, ShownGroup]:
        """Name the groups of a report: those of its windows, and those of its totals."""
        experiments = _assigned(self._experiments, *([each.experiment for each in groups] for groups in (live, resting)))
        live_kept, resting_kept = ([each for each in groups if experiments[each.experiment] != OTHER] for groups in (live, resting))
        variants = _assigned(self._variants, *([each.variant for each in groups] for groups in (live_kept, resting_kept)))
        segments = self._segments.assign((each.segment, each.value) for each in live if each.segment)

        def shown(group: Group) -> ShownGroup:
            experiment = experiments[group.experiment]
            variant = OTHER if experiment == OTHER else variants[group.variant]
            return ShownGroup(experiment, variant, segments[group.segment, group.value] if group.segment else "")

        return {group: shown(group) for group in (*live, *resting)}


def _assigned(names: _Names[str], live: Iterable[str], resting: Iterable[str]) -> Mapping[str, str]:
    """The same where an empty value stands for none, and takes no place."""
    return {"": "", **names.assign(filter(None, live), filter(None, resting))}


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
