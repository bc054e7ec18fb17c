"""Sets in which a user is alike, such as variants seen at the same times, and the sets that one list is added to. Pure.

Most users see the same variants in every list, so what is kept of a user in all of them is kept once. A set is cut when a list differs: it
then has the list in all of its members or in none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, MutableMapping
from typing import TypeVar

SetT = TypeVar("SetT")
MemberT = TypeVar("MemberT")
ValueT = TypeVar("ValueT")


def list_sets(
    sets: MutableMapping[SetT, ValueT],
    of_list: SetT,
    members_of: Callable[[SetT], Collection[MemberT]],
    set_of: Callable[[Collection[MemberT]], SetT],
    on_cut: Callable[[SetT, SetT, SetT], None],
) -> Iterator[SetT]:
    """Yield the sets of a user that a list is added to. Those that the list is in with a part only are cut before.

    sets: the user's disjoint sets, each with what is kept for all of its members. of_list: the members that the list is in. on_cut: called
    with a set and the two that replace it: the members that the list is in, and the others. Members that are in no set yet come last, as
    a set that `sets` does not have.

    >>> sets = {("a", "b"): 7, ("c",): 8}
    >>> [*list_sets(sets, ("b", "c", "d"), tuple, tuple, print)]
    ('a', 'b') ('b',) ('a',)
    [('b',), ('c',), ('d',)]
    >>> sets
    {('c',): 8, ('b',): 7, ('a',): 7}
    """
    if not sets:
        yield of_list
        return
    members_of_list = {*members_of(of_list)}
    new = members_of_list.copy()
    for whole in [whole for whole in sets if not new.isdisjoint(members_of(whole))]:
        members = members_of(whole)
        new.difference_update(members)
        others = [member for member in members if member not in members_of_list]
        if not others:
            yield whole
            continue
        inside, outside = set_of([member for member in members if member in members_of_list]), set_of(others)
        sets[inside] = sets[outside] = sets.pop(whole)
        on_cut(whole, inside, outside)
        yield inside
    if new:
        yield of_list if len(new) == len(members_of_list) else set_of([*new])
