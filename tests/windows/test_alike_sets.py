"""Sets in which a user is alike, after lists in any members."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.windows.alike_sets import list_sets

MEMBERS = st.frozensets(st.integers(0, 5), min_size=1)


@given(st.lists(MEMBERS, max_size=6))
def test_each_member_keeps_what_its_lists_have_added(lists: list[frozenset[int]]) -> None:
    sets: dict[frozenset[int], tuple[int, ...]] = {}
    apart: dict[int, tuple[int, ...]] = {}
    cuts: list[tuple[frozenset[int], frozenset[int], frozenset[int]]] = []
    for number, of_list in enumerate(lists):
        before = dict(sets)
        cuts.clear()
        parts = [*list_sets(sets, of_list, frozenset, frozenset, lambda *cut: cuts.append(cut))]
        assert sorted(member for part in parts for member in part) == sorted(of_list), "each member once"
        assert all(before[whole] == sets[inside] == sets[outside] for whole, inside, outside in cuts)
        assert {whole for whole, *_ in cuts} == before.keys() - sets.keys()
        for part in parts:
            sets[part] = (*sets.get(part, ()), number)
        apart |= {member: (*apart.get(member, ()), number) for member in of_list}
    assert {member: lists_of for members, lists_of in sets.items() for member in members} == apart
    assert sum(map(len, sets)) == len(apart), "the sets are disjoint"
