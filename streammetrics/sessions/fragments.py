"""Copies and fragments of one list: several events with one impression_id in one session, and the one list that they make.

Pure. Which list it is follows from the copies alone, whatever the order in which they came; so does which of them are duplicates,
and a duplicate stays one whatever comes later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from streammetrics.events.model import Impression, Labels

Duplicates: TypeAlias = Counter[int]
"""How many copies turned out to be duplicates, by topic index."""


class StoredImpression(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """What one shown list is, whatever is answered to it: the part of a list that only another copy can change."""

    impression_id: str
    ts: int
    items: tuple[str, ...]
    experiments: Labels
    segments: Labels
    teams: tuple[str, ...]
    topic: int

    @classmethod
    def of(cls, impression: Impression, topic: int) -> StoredImpression:
        labels = impression.experiments, impression.segments
        return cls(impression.impression_id, impression.ts, impression.items, *labels, impression.teams, topic)


class Fragment(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """A part of a list, in the order that counts: (ts, content), then the topic so that every copy has its place."""

    ts: int
    items: tuple[str, ...]
    positions: tuple[int, ...]
    experiments: Labels
    segments: Labels
    teams: tuple[str, ...]
    topic: int


class Fragments(NamedTuple):
    """The copies of an impression_id that came at least once as a fragment.

    `whole` is the least whole copy that takes part; `whole_seen` tells that there ever was one, which makes every
    fragment a duplicate for the counters.
    """

    whole: StoredImpression | None
    whole_seen: bool
    fragments: tuple[Fragment, ...]


def united(one: Fragments, other: Fragments, duplicates: Duplicates) -> Fragments:
    """All copies of one id: the least whole copy stays, every other one is a duplicate."""
    wholes = [parts.whole for parts in (one, other) if parts.whole is not None]
    whole = min(wholes) if wholes else None
    if len(wholes) == 2:
        duplicates[max(wholes).topic] += 1
    seen = one.whole_seen or other.whole_seen
    for parts in (one, other):
        if seen and not parts.whole_seen:
            duplicates.update(fragment.topic for fragment in parts.fragments)
    return Fragments(whole, seen, tuple(sorted(one.fragments + other.fragments)))


def resolved(
    identity: str, parts: Fragments, duplicates: Duplicates, attribution_ms: int, items_max: int
) -> tuple[Fragments, StoredImpression | None]:
    """Drop what can matter no more, and say which list the rest makes (None: more items than a list may hold).

    ImpressionCopies more than `attribution_ms` after the first one come when the list may already be final, so they take no part.
    """
    whole, seen, fragments = parts
    first = min([copy.ts for copy in (whole, *fragments) if copy is not None])
    counted_until = first + attribution_ms
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
    if len(placed) > items_max:
        return parts, None
    items = tuple(item for _, item in sorted((place, item) for item, place in placed.items()))
    teams = _teams(items, placed, kept) if any(fragment.teams for fragment in kept) else ()
    return parts, StoredImpression(identity, first, items, kept[0].experiments, kept[0].segments, teams, kept[0].topic)


def _teams(items: Iterable[str], placed: Mapping[str, int], fragments: Sequence[Fragment]) -> tuple[str, ...]:
    """The team of each item, as the first fragment says that gives the item its place; empty where no item has one."""
    found: dict[tuple[str, int], str] = {}
    for fragment in fragments:
        for item, place, team in zip(fragment.items, fragment.positions, fragment.teams or [""] * len(fragment.items), strict=True):
            found.setdefault((item, place), team)
    teams = tuple(found[item, placed[item]] for item in items)
    return teams if any(teams) else ()


def _places(fragment: Fragment) -> Iterable[tuple[str, int]]:
    """Each item of a fragment with its least position there."""
    least: dict[str, int] = {}
    for item, place in zip(fragment.items, fragment.positions, strict=True):
        least.setdefault(item, place)
    return least.items()
