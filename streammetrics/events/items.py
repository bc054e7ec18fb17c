"""The items of a list, sent as ids or as objects with a position and a team."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct

from streammetrics.events.fields import POSITION_MAX
from streammetrics.events.malformed import malformed

IdT = TypeVar("IdT", bound=str)
TeamT = TypeVar("TeamT", bound=str)


class Item(Struct, Generic[IdT, TeamT], frozen=True, gc=False):
    """An item sent as an object. The type variables allow types with length limits."""

    id: IdT
    position: Annotated[int, Meta(ge=0, le=POSITION_MAX)] | None = None
    team: TeamT | None = None


def ranked(items: Sequence[str | Item[str, str]], fragment: bool) -> tuple[tuple[str, ...], tuple[int, ...] | None, tuple[str, ...]]:
    """Return the ids in rank order, the positions (fragments only, ascending), and the teams.

    The teams are empty if no item has one. Raises MalformedEvent (bad_position) for missing or repeated positions.

    >>> ranked([Item("b", 9), Item("a", 2, "new")], fragment=True)
    (('a', 'b'), (2, 9), ('new', ''))
    """
    ids = [item if isinstance(item, str) else item.id for item in items]
    positions = [None if isinstance(item, str) else item.position for item in items]
    teams = ["" if isinstance(item, str) else item.team or "" for item in items]
    placed = sorted((position, name, team) for position, name, team in zip(positions, ids, teams, strict=True) if position is not None)
    if len(placed) < len(ids) and (placed or fragment):
        rule = "every item of a fragment must have a position" if fragment else "either all items have a position or none"
        raise malformed("bad_position", rule, None, "send items as objects with id and position")
    if not placed:
        return tuple(ids), () if fragment else None, tuple(teams) if any(teams) else ()
    if len({position for position, _, _ in placed}) < len(placed):
        raise malformed("bad_position", "positions in a list must be distinct", None, "send each position once")
    names, in_order = tuple(name for _, name, _ in placed), tuple(team for _, _, team in placed) if any(teams) else ()
    return names, tuple(position for position, _, _ in placed) if fragment else None, in_order
