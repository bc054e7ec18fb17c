"""An index of a session's lists by item: which list showed an item at a given time.

At a given time, only events dated at or before it count. Later copies must not move older feedback between lists, because those lists
may be final. So a list of several copies shows an item from some time on, and perhaps until another. Fragments with too many items form
no list, but keep the feedback that finds them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping
from typing import TypeAlias

from streammetrics.events.event_time import FOREVER
from streammetrics.sessions.fragments import Fragment, Fragments, StoredImpression

ImpressionCopies: TypeAlias = tuple[StoredImpression | None, Fragments | None]
"""The list that the events of one id form, if any, and those events, if they include fragments."""


class ItemIndex:
    """The lists of one session by item. `earliest`: the time of the first event of any list (ms)."""

    __slots__ = ("_of_copies", "_of_lists", "earliest")

    def __init__(self, lists: Collection[StoredImpression], parts: Mapping[str, Fragments]) -> None:
        """`parts` has the ids with fragments: those of `lists`, and those with too many items to be lists."""
        self._of_lists: dict[str, list[tuple[int, str]]] = {}
        """By item, ascending: time and id of each list without fragments."""
        self._of_copies: dict[str, list[tuple[int, int, int, str]]] = {}
        """By item: first time, end time, time of the list, and id, for lists with fragments."""
        for stored in sorted(lists, key=lambda stored: (stored.ts, stored.impression_id)):
            if stored.impression_id not in parts:
                for item in set(stored.items):
                    self._of_lists.setdefault(item, []).append((stored.ts, stored.impression_id))
        for identity, copies in parts.items():
            self._add_copies(identity, copies)
        self.earliest = _earliest(lists, parts)

    def _add_copies(self, identity: str, copies: Fragments) -> None:
        """Add the events of one id. Fragments show their items from their own time until a whole copy replaces them."""
        begun, whole = copies.fragments[0].ts, copies.whole
        until = FOREVER if whole is None else whole.ts
        known: set[str] = set()
        for fragment in copies.fragments:
            if fragment.ts < until:
                for item in {*fragment.items} - known:
                    self._of_copies.setdefault(item, []).append((fragment.ts, until, begun, identity))
                known.update(fragment.items)
        if whole is not None:
            for item in {*whole.items}:
                self._of_copies.setdefault(item, []).append((whole.ts, FOREVER, whole.ts, identity))

    def add(self, stored: StoredImpression) -> None:
        """Add a list without fragments."""
        self.earliest = min(self.earliest, stored.ts)
        for item in set(stored.items):
            insort(self._of_lists.setdefault(item, []), (stored.ts, stored.impression_id))

    def add_fragment(self, identity: str, fragment: Fragment, begun: int) -> None:
        """Add a fragment with items that no other fragment of its list has. `begun`: the time of the list's first event (ms)."""
        for item in {*fragment.items}:
            self._of_copies.setdefault(item, []).append((fragment.ts, FOREVER, begun, identity))

    def replace(
        self,
        identity: str,
        before: ImpressionCopies,
        after: ImpressionCopies,
        lists: Collection[StoredImpression],
        parts: Mapping[str, Fragments],
    ) -> None:
        """Replace the list of one id. `lists` and `parts` are the session's present ones.

        Items of other lists are not visited, so the cost does not grow with the session. Copies may arrive as often as any event.
        """
        stored, copies = before
        if copies is not None:
            for item in {item for copy in (copies.whole, *copies.fragments) if copy is not None for item in copy.items}:
                self._of_copies[item] = [shown for shown in self._of_copies.get(item, ()) if shown[-1] != identity]
        elif stored is not None:
            for item in set(stored.items):
                self._of_lists[item].remove((stored.ts, identity))
        stored, copies = after
        if copies is not None:
            self._add_copies(identity, copies)
        elif stored is not None:
            self.add(stored)
        self.earliest = _earliest(lists, parts)

    def latest(self, ts: int, item: str) -> str | None:
        """Return the id of the latest list that shows an item at a time (same time: the greatest id), or None."""
        lists = self._of_lists.get(item, ())
        place = bisect_left(lists, (ts + 1, ""))
        found = lists[place - 1] if place else (-1, "")
        for since, until, of_list, identity in self._of_copies.get(item, ()):
            if since <= ts < until and (of_list, identity) > found:
                found = of_list, identity
        return found[1] or None


def _earliest(lists: Collection[StoredImpression], parts: Mapping[str, Fragments]) -> int:
    """Return the time of the first event of any list. Fragments that form no list are ignored."""
    return min([_begun(stored, parts.get(stored.impression_id)) for stored in lists], default=FOREVER)


def _begun(stored: StoredImpression, copies: Fragments | None) -> int:
    if copies is None:
        return stored.ts
    return min([copies.fragments[0].ts] if copies.whole is None else [copies.fragments[0].ts, copies.whole.ts])
