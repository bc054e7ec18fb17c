"""The index of lists by item agrees with a search through all lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.sessions.fragments import Fragment, Fragments, StoredImpression
from streammetrics.sessions.item_index import ItemIndex

IDS, ITEMS, TIMES = "pqrs", "abc", range(6)

item_tuples = st.lists(st.sampled_from(ITEMS), min_size=1, max_size=3).map(tuple)
times = st.sampled_from(TIMES)


def impression(identity: str, ts: int, items: tuple[str, ...]) -> StoredImpression:
    return StoredImpression(identity, ts, items, (), (), (), 0)


@st.composite
def sessions(draw: st.DrawFn) -> tuple[list[StoredImpression], dict[str, Fragments]]:
    """Lists, some with fragments, with or without a whole copy; and fragments that form no list."""
    lists, parts = [], {}
    for identity in draw(st.sets(st.sampled_from(IDS))):
        whole = draw(st.none() | st.builds(impression, st.just(identity), times, item_tuples))
        found = draw(
            st.lists(st.builds(Fragment, times, item_tuples, st.just(()), st.just(()), st.just(()), st.just(()), st.just(0)), max_size=3)
        )
        if found:
            parts[identity] = Fragments(whole, whole is not None, tuple(sorted(found)))
            if whole is None and draw(st.booleans()):
                continue
            lists.append(whole or impression(identity, min(found).ts, tuple({item for fragment in found for item in fragment.items})))
        elif whole is not None:
            lists.append(whole)
    return lists, parts


def as_of(copies: Fragments, ts: int) -> tuple[int, set[str]] | None:
    """Return a list's time and items from its events dated at or before a time, or None without such events."""
    if copies.whole is not None and copies.whole.ts <= ts:
        return copies.whole.ts, set(copies.whole.items)
    earlier = [fragment for fragment in copies.fragments if fragment.ts <= ts]
    return (earlier[0].ts, {item for fragment in earlier for item in fragment.items}) if earlier else None


@given(sessions())
def test_the_index_finds_the_latest_list_that_shows_an_item_at_any_time(
    session: tuple[list[StoredImpression], dict[str, Fragments]],
) -> None:
    lists, parts = session
    index = ItemIndex(lists, parts)
    copies = {each.impression_id: Fragments(each, True, ()) for each in lists} | parts
    for ts in (-1, *TIMES, 1 << 50):
        known = {identity: found for identity, each in copies.items() if (found := as_of(each, ts)) is not None}
        assert (index.earliest <= ts) == any(each.impression_id in known for each in lists)
        for item in ITEMS:
            shown = [(of_list, identity) for identity, (of_list, items) in known.items() if item in items]
            assert index.latest(ts, item) == (max(shown)[1] if shown else None)


def answers(index: ItemIndex) -> list[object]:
    return [index.earliest, *(index.latest(ts, item) for ts in TIMES for item in ITEMS)]


@given(sessions(), sessions())
def test_a_replaced_list_gives_the_same_index_as_a_new_one(
    old: tuple[list[StoredImpression], dict[str, Fragments]], new: tuple[list[StoredImpression], dict[str, Fragments]]
) -> None:
    lists, parts = {each.impression_id: each for each in old[0]}, old[1]
    index = ItemIndex([*lists.values()], parts)
    for identity in IDS:
        before = lists.pop(identity, None), parts.pop(identity, None)
        after = next((each for each in new[0] if each.impression_id == identity), None), new[1].get(identity)
        lists |= {identity: after[0]} if after[0] is not None else {}
        parts |= {identity: after[1]} if after[1] is not None else {}
        index.replace(identity, before, after, [*lists.values()], parts)
        assert answers(index) == answers(ItemIndex([*lists.values()], parts))


@given(st.lists(st.builds(impression, st.sampled_from(IDS), times, item_tuples), unique_by=lambda each: each.impression_id), st.data())
def test_an_added_list_gives_the_same_index_as_a_new_one(lists: list[StoredImpression], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(lists)))
    extended, whole = ItemIndex(lists[:count], {}), ItemIndex(lists, {})
    for each in lists[count:]:
        extended.add(each)
    assert extended.earliest == whole.earliest
    assert [extended.latest(ts, item) for ts in TIMES for item in ITEMS] == [whole.latest(ts, item) for ts in TIMES for item in ITEMS]
