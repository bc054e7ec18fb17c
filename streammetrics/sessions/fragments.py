"""Copies and fragments of one list: several events with one impression_id in one session, and the list that they form.

The result depends on the set of events, not on their order. A duplicate stays a duplicate whatever arrives later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from streammetrics.events.model import Impression, Labels
from streammetrics.sessions.rules import JoinRules

Duplicates: TypeAlias = Counter[int]
"""Number of duplicates by topic index."""


class StoredImpression(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """A list as it was shown, in its stored form. Only another copy or fragment can change it."""

    impression_id: str
    ts: int
    items: tuple[str, ...]
    experiments: Labels
    segments: Labels
    teams: tuple[str, ...]
    topic: int

    @classmethod
    def of(cls, impression: Impression, topic: int) -> StoredImpression:
        """Return the stored form of an impression."""
        labels = impression.experiments, impression.segments
        return cls(impression.impression_id, impression.ts, impression.items, *labels, impression.teams, topic)


class Fragment(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """One fragment of a list. Fragments are ordered by (ts, content), then by topic."""

    ts: int
    items: tuple[str, ...]
    positions: tuple[int, ...]
    experiments: Labels
    segments: Labels
    teams: tuple[str, ...]
    topic: int


class Fragments(NamedTuple):
    """All events of one impression_id that has at least one fragment.

    `whole` is the least whole copy that counts. `whole_seen`: some whole copy arrived, so all fragments are counted as duplicates.
    """

    whole: StoredImpression | None
    whole_seen: bool
    fragments: tuple[Fragment, ...]


def unite(one: Fragments, other: Fragments, duplicates: Duplicates) -> Fragments:
    """Merge the events of one id. The least whole copy stays; the others are duplicates."""
    wholes = [parts.whole for parts in (one, other) if parts.whole is not None]
    whole = min(wholes) if wholes else None
    if len(wholes) == 2:
        duplicates[max(wholes).topic] += 1
    seen = one.whole_seen or other.whole_seen
    for parts in (one, other):
        if seen and not parts.whole_seen:
            duplicates.update(fragment.topic for fragment in parts.fragments)
    return Fragments(whole, seen, tuple(sorted(one.fragments + other.fragments)))


def resolve(identity: str, parts: Fragments, duplicates: Duplicates, rules: JoinRules) -> tuple[Fragments, StoredImpression | None]:
    """Drop events that no longer count, and return the rest with the list that they form (None: too many items).

    Events more than `attribution_ms` after the first one do not count, because the list may already be final.
    """
    whole, seen, fragments = parts
    first = min([copy.ts for copy in (whole, *fragments) if copy is not None])
    counted_until = first + rules.attribution_ms
    if whole is not None and whole.ts > counted_until:
        duplicates[whole.topic] += 1
        whole = None
    placed: dict[str, int] = {}
    kept: list[Fragment] = []
    for fragment in fragments:
        new = {item: place for item, place in _places(fragment) if place < placed.get(item, place + 1)}
        if fragment.ts <= counted_until and (new or not kept):
            placed.update(new)
            kept.append(fragment)
        elif not seen:
            duplicates[fragment.topic] += 1
    parts = Fragments(whole, seen, tuple(kept))
    if whole is not None:
        return parts, whole
    items = _in_order(placed, rules.absolute_positions)
    if len(items) > rules.items_max:
        return parts, None
    teams = _teams(items, placed, kept) if any(fragment.teams for fragment in kept) else ()
    return parts, StoredImpression(identity, first, items, kept[0].experiments, kept[0].segments, teams, kept[0].topic)


def _in_order(placed: Mapping[str, int], absolute: bool) -> tuple[str, ...]:
    """Return items in the order of their positions, those at one position by id.

    With absolute positions an item is at its position, or at the place after the item before it if that is lower. Other places have an
    empty text.

    >>> _in_order({"b": 3, "a": 3, "c": 1}, True)
    ('', 'c', '', 'a', 'b')
    """
    order = sorted((place, item) for item, place in placed.items())
    if not absolute:
        return tuple([item for _, item in order])
    items: list[str] = []
    for place, item in order:
        items += [""] * (place - len(items))
        items.append(item)
    return tuple(items)


def _teams(items: Iterable[str], placed: Mapping[str, int], fragments: Sequence[Fragment]) -> tuple[str, ...]:
    """Return the team of each item, from the first fragment that gives the item its position. Empty if no item has a team."""
    found: dict[tuple[str, int], str] = {}
    for fragment in fragments:
        for item, place, team in zip(fragment.items, fragment.positions, fragment.teams or [""] * len(fragment.items), strict=True):
            found.setdefault((item, place), team)
    teams = tuple(found[item, placed[item]] if item else "" for item in items)
    return teams if any(teams) else ()


def _places(fragment: Fragment) -> Iterable[tuple[str, int]]:
    """Return each item of a fragment with its least position."""
    least: dict[str, int] = {}
    for item, place in zip(fragment.items, fragment.positions, strict=True):
        least.setdefault(item, place)
    return least.items()


class FragmentUnion:
    """The union of the fragments of one list, kept up to date fragment by fragment. `resolve` is the reference implementation.

    It only knows lists without a whole copy. `places` has the position of each item, and `_source` the fragment that gave it.
    `_keys` are the items in the order of the list. `items` counts items of all fragments, repeated ones included.
    """

    __slots__ = ("_keys", "_source", "_taken", "items", "places")

    def __init__(self, fragments: Iterable[Fragment]) -> None:
        self.places: dict[str, int] = {}
        self._source: dict[str, Fragment] = {}
        self.items = 0
        for fragment in fragments:
            self.items += len(fragment.items)
            for item, place in _places(fragment):
                if place < self.places.get(item, place + 1):
                    self.places[item] = place
                    self._source[item] = fragment
        self._keys = sorted((place, item) for item, place in self.places.items())
        self._taken = set(self.places.values())

    def covers(self, fragment: Fragment) -> bool:
        """Return whether a fragment adds nothing, because earlier fragments give all its items the same or a lower position."""
        return bool(fragment.items) and all(
            self.places.get(item, place + 1) <= place and self._source[item] <= fragment for item, place in _places(fragment)
        )

    def is_apart(self, fragment: Fragment) -> bool:
        """Return whether a fragment has items, and no other fragment has any of them."""
        return bool(fragment.items) and self.places.keys().isdisjoint(fragment.items)

    def is_free(self, fragment: Fragment) -> bool:
        """Return whether all items have a position of their own, and a fragment's items would have one, too."""
        return len(self._taken) == len(self.places) and self._taken.isdisjoint(place for _, place in _places(fragment))

    def add(self, fragment: Fragment) -> list[tuple[int, str]]:
        """Add a fragment that is apart. Returns the index and the id of each new item, in order; insert them one after the other."""
        self.items += len(fragment.items)
        added = []
        for item, place in _places(fragment):
            self.places[item] = place
            self._source[item] = fragment
            self._taken.add(place)
            index = bisect_left(self._keys, (place, item))
            self._keys.insert(index, (place, item))
            added.append((index, item))
        return added
