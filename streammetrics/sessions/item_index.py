"""Which list of a session shows an item at a time, as far as what came at or before that time shows it.

Pure. Later copies of a list may not count for what came before them: they could take feedback from, or give it back to, an older
list that is final. So a list that came in several copies shows each item from some time on, and perhaps until some other; and copies
that come to hold too many items, and so are no list, keep what answers them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping
from typing import TypeAlias

from streammetrics.events.event_time import FOREVER
from streammetrics.sessions.fragments import Fragments, StoredImpression

ImpressionCopies: TypeAlias = tuple[StoredImpression | None, Fragments | None]
"""What the copies of one id make: their list, if they are one, and they themselves, if they came as fragments."""


class ItemIndex:
    """The lists of one session by item. `earliest`: the time of the first copy of any list (ms)."""

    __slots__ = ("_of_copies", "_of_lists", "earliest")

    def __init__(self, lists: Collection[StoredImpression], parts: Mapping[str, Fragments]) -> None:
        """`parts` are the ids that came in several copies: those of `lists`, and those that hold too many items to be lists."""
        self._of_lists: dict[str, list[tuple[int, str]]] = {}
        """By item, ascending: the time and the id of each list that came as one event."""
        self._of_copies: dict[str, list[tuple[int, int, int, str]]] = {}
        """By item: from when and until when a list of several copies shows it, the list's time then, and its id."""
        for facts in sorted(lists, key=lambda facts: (facts.ts, facts.impression_id)):
            if facts.impression_id not in parts:
                for item in set(facts.items):
                    self._of_lists.setdefault(item, []).append((facts.ts, facts.impression_id))
        for identity, copies in parts.items():
            self._add_copies(identity, copies)
        self.earliest = _earliest(lists, parts)

    def _add_copies(self, identity: str, copies: Fragments) -> None:
        """Fragments show what they hold from their time on, under the time of the first, until a whole copy says what the list is."""
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

    def add(self, facts: StoredImpression) -> None:
        """One more list that came as one event."""
        self.earliest = min(self.earliest, facts.ts)
        for item in set(facts.items):
            insort(self._of_lists.setdefault(item, []), (facts.ts, facts.impression_id))

    def replace(
        self,
        identity: str,
        before: ImpressionCopies,
        after: ImpressionCopies,
        lists: Collection[StoredImpression],
        parts: Mapping[str, Fragments],
    ) -> None:
        """The copies of one id make another list than before. `lists` and `parts` are all there are, as they are now.

        However much the others hold, no item of theirs is looked at: copies may come as often as events do.
        """
        facts, copies = before
        if copies is not None:
            for item in {item for copy in (copies.whole, *copies.fragments) if copy is not None for item in copy.items}:
                self._of_copies[item] = [shown for shown in self._of_copies.get(item, ()) if shown[-1] != identity]
        elif facts is not None:
            for item in set(facts.items):
                self._of_lists[item].remove((facts.ts, identity))
        facts, copies = after
        if copies is not None:
            self._add_copies(identity, copies)
        elif facts is not None:
            self.add(facts)
        self.earliest = _earliest(lists, parts)

    def latest(self, ts: int, item: str) -> str | None:
        """The id of the latest list that shows an item at a time (same time: the greatest id); None when none does."""
        lists = self._of_lists.get(item, ())
        place = bisect_left(lists, (ts + 1, ""))
        found = lists[place - 1] if place else (-1, "")
        for since, until, of_list, identity in self._of_copies.get(item, ()):
            if since <= ts < until and (of_list, identity) > found:
                found = of_list, identity
        return found[1] or None


def _earliest(lists: Collection[StoredImpression], parts: Mapping[str, Fragments]) -> int:
    """The time of the first copy of any list; what is no list has none."""
    return min([_begun(facts, parts.get(facts.impression_id)) for facts in lists], default=FOREVER)


def _begun(facts: StoredImpression, copies: Fragments | None) -> int:
    if copies is None:
        return facts.ts
    return min([copies.fragments[0].ts] if copies.whole is None else [copies.fragments[0].ts, copies.whole.ts])
