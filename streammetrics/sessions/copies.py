"""Copies and fragments of one list: several events with one impression_id in one session, and the list that they form. Pure.

The result depends on the set of events, not on their order. A duplicate stays a duplicate whatever arrives later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.state import LogList


class ListForm(NamedTuple):
    """What the events of one id form. `base` gives the list its time, labels and topic.

    `counting` are the events that form the list. `reused` are whole copies that show something else, one of each. All other events are
    duplicates. `has_conflict`: two items claim one place. `fragments`, and `whole` if a whole copy counts, gave the list its items over
    time, in order.
    """

    base: LogList
    items: tuple[str, ...]
    teams: tuple[str, ...]
    whole: LogList | None
    fragments: Sequence[LogList]
    counting: Sequence[LogList]
    reused: Sequence[LogList] = ()
    has_conflict: bool = False


def form(copies: Sequence[LogList], rules: JoinRules) -> ListForm:
    """Form the list of all events of one id.

    Events more than `attribution_ms` after the first one do not count, because the list may already be final.
    """
    until = min([copy.ts for copy in copies]) + rules.attribution_ms
    in_order = sorted([copy for copy in copies if copy.ts <= until], key=_ts_and_content)
    whole = next((copy for copy in in_order if copy.positions is None), None)
    place_of: dict[str, int] = {}
    fragments: list[LogList] = []
    for copy in in_order:
        if copy.positions is not None:
            new = {item: place for item, place in _places(copy) if place < place_of.get(item, place + 1)}
            if new or not fragments:
                place_of.update(new)
                fragments.append(copy)
    if whole is not None:
        return ListForm(whole, whole.items, whole.teams, whole, fragments, (whole,), _other_copies(copies, whole))
    items = _in_order(place_of, rules.absolute_positions)
    teams = _teams(items, place_of, fragments) if any(fragment.teams for fragment in fragments) else ()
    any_whole = any(copy.positions is None for copy in copies)  # it came too late to count: all are duplicates
    has_conflict = len(set(place_of.values())) < len(place_of)
    return ListForm(fragments[0], items, teams, None, fragments, () if any_whole else fragments, (), has_conflict)


def _other_copies(copies: Sequence[LogList], whole: LogList) -> Sequence[LogList]:
    """Return the least whole copy of each sequence of items that the list does not show."""
    if all(copy.items == whole.items or copy.positions is not None for copy in copies):
        return ()
    least: dict[tuple[str, ...], LogList] = {}
    for copy in sorted(copies, key=_ts_and_content):
        if copy.positions is None and copy.items != whole.items:
            least.setdefault(copy.items, copy)
    return tuple(least.values())


def _ts_and_content(copy: LogList) -> tuple[object, ...]:
    return copy.ts, copy.items, copy.positions or (), copy.experiments, copy.segments, copy.teams, copy.topic


def _places(fragment: LogList) -> Iterable[tuple[str, int]]:
    """Return each item of a fragment with its least position."""
    if len(fragment.items) == 1:
        return zip(fragment.items, fragment.positions or (), strict=True)
    least: dict[str, int] = {}
    for item, place in zip(fragment.items, fragment.positions or (), strict=True):
        least.setdefault(item, place)
    return least.items()


def _in_order(place_of: Mapping[str, int], absolute: bool) -> tuple[str, ...]:
    """Return items in the order of their positions, those at one position by id.

    With absolute positions an item is at its position, or at the place after the item before it if that is lower. Other places have an
    empty text.

    >>> _in_order({"b": 3, "a": 3, "c": 1}, True)
    ('', 'c', '', 'a', 'b')
    """
    order = sorted((place, item) for item, place in place_of.items())
    if not absolute:
        return tuple([item for _, item in order])
    items: list[str] = []
    for place, item in order:
        items += [""] * (place - len(items))
        items.append(item)
    return tuple(items)


def _teams(items: Iterable[str], place_of: Mapping[str, int], fragments: Sequence[LogList]) -> tuple[str, ...]:
    """Return the team of each item, from the first fragment that gives the item its position. Empty if no item has a team."""
    team_of: dict[tuple[str, int], str] = {}
    for fragment in fragments:
        for item, place, team in zip(fragment.items, fragment.positions or (), fragment.teams or [""] * len(fragment.items), strict=True):
            team_of.setdefault((item, place), team)
    teams = tuple(team_of[item, place_of[item]] if item else "" for item in items)
    return teams if any(teams) else ()
