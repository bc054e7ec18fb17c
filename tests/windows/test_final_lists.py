"""The lists of a commit as columns agree with the lists one by one."""

from __future__ import annotations

from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.windows.final_lists import FinalList, FinalLists

LABELS = ((), (("ranker", "a"),), (("ranker", "b"),), (("layout", "x"), ("ranker", "a")))
HITS = st.dictionaries(st.integers(0, 2), st.sampled_from((1, 0.5)), max_size=2)


def list_of(ts: int, identity: str, labels: tuple[tuple[str, str], ...], items: int, hits: dict[int, float]) -> FinalList:
    return FinalList(ts, identity, labels, items, tuple(chain.from_iterable(hits.items())), (), 0)


shown_lists = st.builds(list_of, st.integers(0, 4), st.sampled_from("abcd"), st.sampled_from(LABELS), st.integers(3, 4), HITS)


@given(st.lists(st.lists(shown_lists, max_size=5), max_size=4))
def test_each_users_lists_are_in_order_in_runs_of_equal_experiments(of_users: list[list[FinalList]]) -> None:
    final_lists = FinalLists(of_users)
    assert len(final_lists.label_runs) == len(of_users)
    count = 0
    for lists, runs in zip(of_users, final_lists.label_runs, strict=True):
        in_order = sorted(lists, key=lambda impression: (impression.ts, impression.impression_id))
        found_lists = [final_lists.lists[number] for _, first, end in runs for number in range(first, end)]
        assert [id(final_list) for final_list in found_lists] == [id(final_list) for final_list in in_order]
        labels_found = [final_lists.labels[labels] for labels, first, end in runs for _ in range(first, end)]
        assert labels_found == [final_list.experiments for final_list in in_order]
        assert all(one[0] != other[0] for one, other in pairwise(runs))
        assert not runs or (runs[0][1], runs[-1][2]) == (count, count + len(lists))
        count += len(lists)
    assert final_lists.times == [impression.ts for impression in final_lists.lists]
    for impression, shape in zip(final_lists.lists, final_lists.shape_of.tolist(), strict=True):
        assert final_lists.shapes[shape] == (impression.places, *impression.hits)
    assert len(set(final_lists.shapes)) == len(final_lists.shapes)
