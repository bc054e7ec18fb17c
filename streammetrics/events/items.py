"""The items of a list, sent as ids or as objects with a position and a team."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from operator import lt
from typing import Annotated, Any, Generic, TypeVar

from msgspec import Meta, Struct

from streammetrics.events.fields import POSITION_MAX
from streammetrics.events.model import EventLimits
from streammetrics.events.outcomes import malformed

IdT = TypeVar("IdT", bound=str)
TeamT = TypeVar("TeamT", bound=str)


class Item(Struct, Generic[IdT, TeamT], frozen=True, gc=False):
    """An item sent as an object. The type variables allow types with length limits."""

    id: IdT
    position: Annotated[int, Meta(ge=0, le=POSITION_MAX)] | None = None
    team: TeamT | None = None


def columns_of(items: Sequence[str | Item[str, str]]) -> tuple[tuple[str, ...], tuple[int | None, ...], tuple[str, ...]]:
    """Return the ids, the positions and the teams of items. The teams are empty if no item has one.

    >>> columns_of([Item("b", 9), Item("a", 2, "new"), "c"])
    (('b', 'a', 'c'), (9, 2, None), ('', 'new', ''))
    """
    objects: Any = items
    try:  # most lists have only objects here
        ids = tuple([item.id for item in objects])
    except AttributeError:
        objects = [Item(item) if type(item) is str else item for item in objects]
        ids = tuple([item.id for item in objects])
    teams = [item.team for item in objects]
    return ids, tuple([item.position for item in objects]), tuple([team or "" for team in teams]) if any(teams) else ()


def ranked(
    items: Sequence[str | Item[str, str]], fragment: bool, limits: EventLimits
) -> tuple[tuple[str, ...], tuple[int, ...] | None, tuple[str, ...]]:
    """Return the ids in rank order, the positions (fragments only, ascending), and the teams.

    The teams are empty if no item has one. Raises MalformedEvent (bad_position) for missing or repeated positions.

    >>> ranked([Item("b", 9), Item("a", 2, "new")], True, EventLimits())
    (('a', 'b'), (2, 9), ('new', ''))

    If positions are places, a whole list has an empty text at each place without an item:

    >>> ranked([Item("b", 4), Item("a", 2, "new")], False, EventLimits(first_place=1))
    (('', 'a', '', 'b'), None, ('', 'new', '', ''))
    """
    return in_rank_order(*columns_of(items), fragment, limits)


def in_rank_order(
    ids: tuple[str, ...], positions: tuple[Any, ...], teams: tuple[str, ...], fragment: bool, limits: EventLimits
) -> tuple[tuple[str, ...], tuple[int, ...] | None, tuple[str, ...]]:
    """Return what `ranked` returns, from the columns of the items."""
    if are_ascending(positions) and limits.first_place is None:
        return ids, positions if fragment else None, teams
    teams = teams or ("",) * len(ids)
    placed = sorted((position, name, team) for position, name, team in zip(positions, ids, teams, strict=True) if position is not None)
    if len(placed) < len(ids) and (placed or fragment):
        rule = "every item of a fragment must have a position" if fragment else "either all items have a position or none"
        raise malformed("bad_position", rule, None, "send items as objects with id and position")
    if not placed:
        return ids, () if fragment else None, teams if any(teams) else ()
    if len({position for position, _, _ in placed}) < len(placed):
        raise malformed("bad_position", "positions in a list must be distinct", None, "send each position once")
    if limits.first_place is not None:
        placed = [(place_of(position, limits), name, team) for position, name, team in placed]
        if not fragment:
            named = {place: (name, team) for place, name, team in placed}
            placed = [(place, *named.get(place, ("", ""))) for place in range(placed[-1][0] + 1)]
    names, in_order = tuple(name for _, name, _ in placed), tuple(team for _, _, team in placed) if any(teams) else ()
    return names, tuple(position for position, _, _ in placed) if fragment else None, in_order


def are_ascending(positions: Sequence[Any]) -> bool:
    """Return whether there are positions, of all items, each greater than the one before.

    >>> are_ascending((1, 2, 9)), are_ascending((1, 1)), are_ascending((None, 2)), are_ascending(())
    (True, False, False, False)
    """
    if not positions or None in positions:
        return False
    if positions[-1] - positions[0] == len(positions) - 1:  # equal to a range, if ascending: that is compared faster
        return tuple(positions) == tuple(range(positions[0], positions[-1] + 1))
    return all(map(lt, positions, islice(positions, 1, None)))


def place_of(position: int, limits: EventLimits) -> int:
    """Return the place of a position, from 0, if positions are places; otherwise the position. Raises MalformedEvent (bad_position).

    >>> place_of(11, EventLimits(first_place=1)), place_of(11, EventLimits())
    (10, 11)
    """
    first = limits.first_place
    if first is None:
        return position
    if not first <= position < first + limits.items_max:
        rule = f"a position must be a place from {first} to {first + limits.items_max - 1}"
        raise malformed("bad_position", rule, str(position), "see events.positions, and events.items_max for the last place")
    return position - first
