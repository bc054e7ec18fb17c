"""The exposures of one user: which variant of each experiment the user had at a given time.

A list has the variant of the latest exposure at or before it, if that is at most the validity older. Of several exposures at one time, the
least variant (by code point) counts. So the answer depends on the set of exposures, not on their order. Times are event times in epoch
milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TypeAlias

from streammetrics.events.event_time import FOREVER
from streammetrics.events.model import Labels

KnownExposure: TypeAlias = tuple[int, str, int]
"""Time, variant, and the index of the topic."""
StoredExposures: TypeAlias = list[tuple[str, list[KnownExposure]]]
"""The exposures of each experiment, in order."""

FinalExposure: TypeAlias = tuple[int, str, str]
"""Time, experiment, variant."""


class UserExposures:
    """The exposures of a user that may still give a list its variant, by experiment.

    >>> exposures = UserExposures()
    >>> exposures.add("ranker", "new", ts=50, topic=0), exposures.add("ranker", "old", ts=20, topic=0)
    (None, None)
    >>> [exposures.variants_at(ts, validity_ms=30) for ts in (19, 20, 50, 80, 81)]
    [(), (('ranker', 'old'),), (('ranker', 'new'),), (('ranker', 'new'),), ()]
    """

    __slots__ = ("_of",)

    def __init__(self, stored: Iterable[tuple[str, list[KnownExposure]]] = ()) -> None:
        self._of: dict[str, list[KnownExposure]] = dict(stored)

    def stored(self) -> StoredExposures:
        return list(self._of.items())

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def __bool__(self) -> bool:
        """Whether there are any. No experiment is kept without one."""
        return bool(self._of)

    @property
    def newest(self) -> int:
        """The time of the newest exposure. There must be one."""
        return max(of_experiment[-1][0] for of_experiment in self._of.values())

    def add(self, experiment: str, variant: str, ts: int, topic: int) -> int | None:
        """Add an exposure. Returns None, or the topic of a duplicate: of equal exposures, that of the topic listed first counts."""
        of_experiment = self._of.setdefault(experiment, [])
        at = bisect_left(of_experiment, (ts, variant, 0))
        if at < len(of_experiment) and of_experiment[at][:2] == (ts, variant):
            first = of_experiment[at][2]
            of_experiment[at] = ts, variant, min(first, topic)
            return max(first, topic)
        of_experiment.insert(at, (ts, variant, topic))
        return None

    def between(self, first: int, end: int) -> list[tuple[int, str, str]]:
        """Return the exposures with first <= time < end, in order: time, experiment, variant."""
        return sorted(
            (ts, experiment, variant)
            for experiment, of_experiment in self._of.items()
            for ts, variant, _ in of_experiment[bisect_left(of_experiment, (first, "", 0)) : bisect_left(of_experiment, (end, "", 0))]
        )

    def first_from(self, ts: int) -> int:
        """Return the time of the first exposure at or after a time; FOREVER if there is none."""
        places = ((of_experiment, bisect_left(of_experiment, (ts, "", 0))) for of_experiment in self._of.values())
        return min((of_experiment[at][0] for of_experiment, at in places if at < len(of_experiment)), default=FOREVER)

    def variants_at(self, ts: int, validity_ms: int) -> Labels:
        """Return the variant of each experiment at a time, by experiment."""
        exposures = []
        for experiment, of_experiment in self._of.items():
            after = bisect_left(of_experiment, (ts + 1, "", 0))
            if after and (latest := of_experiment[after - 1][0]) >= ts - validity_ms:
                exposures.append((experiment, of_experiment[bisect_left(of_experiment, (latest, "", 0))][1]))
        return tuple(exposures) if len(exposures) < 2 else tuple(sorted(exposures))

    def forget(self, bound: int, validity_ms: int) -> None:
        """Drop the exposures that no list from `bound` on can need. No exposure before that time may be added any more."""
        for experiment, of_experiment in list(self._of.items()):
            at = bisect_left(of_experiment, (bound, "", 0))
            kept = of_experiment[at:]
            if at and (latest := of_experiment[at - 1][0]) + validity_ms >= bound:
                kept.insert(0, of_experiment[bisect_left(of_experiment, (latest, "", 0))])
            if kept:
                self._of[experiment] = kept
            else:
                del self._of[experiment]
