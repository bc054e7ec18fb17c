"""The lists of a round as columns, against a look at each list by itself."""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.windows.final_lists import FinalList, FinalLists
from streammetrics.windows.last_seen import CLOSE, _counted, _numbered

LABELS = ((), (("ranker", "a"),), (("ranker", "b"),), (("layout", "x"), ("ranker", "a")))
HITS = st.dictionaries(st.integers(0, 2), st.sampled_from((1, 0.5)), max_size=2)


def list_of(ts: int, identity: str, labels: tuple[tuple[str, str], ...], items: int, hits: dict[int, float]) -> FinalList:
    return FinalList(ts, identity, labels, items, tuple(chain.from_iterable(hits.items())), (), 0)


shown_lists = st.builds(list_of, st.integers(0, 4), st.sampled_from("abcd"), st.sampled_from(LABELS), st.integers(3, 4), HITS)


@given(st.lists(st.lists(shown_lists, max_size=5), max_size=4))
def test_every_user_has_his_lists_in_order_in_runs_of_the_same_experiments(of_users: list[list[FinalList]]) -> None:
    found = FinalLists(of_users)
    assert len(found.label_runs) == len(of_users)
    count = 0
    for lists, runs in zip(of_users, found.label_runs, strict=True):
        in_order = sorted(lists, key=lambda shown: (shown.ts, shown.impression_id))
        mine = [found.lists[number] for _, first, end in runs for number in range(first, end)]
        assert [id(shown) for shown in mine] == [id(shown) for shown in in_order]
        told = [found.labels[labels] for labels, first, end in runs for _ in range(first, end)]
        assert told == [shown.experiments for shown in in_order]
        assert all(one[0] != other[0] for one, other in pairwise(runs))
        assert not runs or (runs[0][1], runs[-1][2]) == (count, count + len(lists))
        count += len(lists)
    assert found.times == [shown.ts for shown in found.lists]
    for shown, shape in zip(found.lists, found.shape_of.tolist(), strict=True):
        assert found.shapes[shape] == (shown.length, *shown.hits)
    assert len(set(found.shapes)) == len(found.shapes)


@given(st.lists(st.one_of(st.integers(0, 20), st.sampled_from((0, 1 << 50, 1 << 61))), min_size=1))
def test_values_are_counted_alike_whether_they_lie_close_together_or_not(values: list[int]) -> None:
    given_values = np.array(values, dtype=np.int64)
    known, place = _numbered(given_values)
    assert (known.tolist(), known[place].tolist()) == (sorted(set(values)), values)
    for size in {max(values) + 1, CLOSE * len(values) + (1 << 62)} if max(values) < 1_000 else {max(values) + 1}:
        alike, counts = _counted(given_values, size)
        assert dict(zip(alike.tolist(), counts.tolist(), strict=True)) == {value: values.count(value) for value in sorted(set(values))}
