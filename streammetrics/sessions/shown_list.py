"""One list of an open session with the grades of its items. Which feedback belongs to it is decided in `session`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from streammetrics.sessions.engagement import NEW_LIST, Engagement
from streammetrics.sessions.fragments import StoredImpression

GradedPositions: TypeAlias = tuple[float, ...]
"""The 0-based positions with grades above 0, each followed by its grade: (2, 1, 0, 3.0). In the order of their first grade."""

NO_HITS: Final[GradedPositions] = ()


def hits_of(hits: GradedPositions) -> Iterator[tuple[float, float]]:
    """Return pairs of position and grade.

    >>> list(hits_of((2, 1, 0, 3.0)))
    [(2, 1), (0, 3.0)]
    """
    return zip(hits[::2], hits[1::2], strict=True)


def placed(items: tuple[str, ...], new: Iterable[tuple[int, str]]) -> tuple[str, ...]:
    """Return items with new ones at empty places (from 0). An empty text holds an empty place.

    >>> placed(("a", "", "c"), [(1, "b"), (4, "e")])
    ('a', 'b', 'c', '', 'e')
    """
    found = list(items)
    for place, item in new:
        found += [""] * (place + 1 - len(found))
        found[place] = item
    return tuple(found)


class Unchanged:
    """The type of UNCHANGED."""


UNCHANGED: Final = Unchanged()
"""Marks a list that has not changed since it was last tallied."""


class ShownList(msgspec.Struct, gc=False, eq=False):
    """One list of an open session with the grades of its items. `ts` and `items` are those of its impression.

    `hits` is replaced, never modified. It is None once the list no longer exists. `tallied` has the hits that the tallies contain
    while the list waits for its next tally: None if no tally contains the list, UNCHANGED if they are `hits`. `engagement` is replaced,
    too; `tallied_engagement` is the one that the tallies contain while the list waits. Neither changes without engagement rules.
    """

    impression: StoredImpression
    ts: int
    items: tuple[str, ...]
    hits: GradedPositions | None
    tallied: GradedPositions | Unchanged | None
    engagement: Engagement = NEW_LIST
    tallied_engagement: Engagement = NEW_LIST

    @classmethod
    def new(cls, impression: StoredImpression) -> ShownList:
        """Return a list that no tally contains yet."""
        return cls(impression, impression.ts, impression.items, NO_HITS, None)

    @classmethod
    def restored(cls, impression: StoredImpression) -> ShownList:
        """Return a stored list, which the tallies contain. Its hits follow when its session is joined."""
        return cls(impression, impression.ts, impression.items, NO_HITS, UNCHANGED)


ChangedLists: TypeAlias = list[ShownList]
"""Lists that changed since the last tally, each once."""


def mark_changed(shown: ShownList, changed: ChangedLists) -> None:
    """Remember the tallied hits and engagement of a list before it changes."""
    if shown.tallied is UNCHANGED:
        shown.tallied = shown.hits
        shown.tallied_engagement = shown.engagement
        changed.append(shown)


def raise_grade(shown: ShownList, position: int, grade: float, changed: ChangedLists) -> None:
    """Give an item a grade if it is greater than its present one."""
    hits = shown.hits
    assert hits is not None
    positions = hits[::2]
    if position in positions:
        at = 2 * positions.index(position) + 1
        if grade <= hits[at]:
            return
        graded = (*hits[:at], grade, *hits[at + 1 :])
    else:
        graded = (*hits, position, grade)
    if shown.tallied is UNCHANGED:  # `mark_changed`, inlined: this runs for most feedback
        shown.tallied = hits
        shown.tallied_engagement = shown.engagement
        changed.append(shown)
    shown.hits = graded


def engage(shown: ShownList, engagement: Engagement, changed: ChangedLists) -> None:
    """Replace the engagement of a list if it differs."""
    if engagement != shown.engagement:
        mark_changed(shown, changed)
        shown.engagement = engagement
