"""Lists of many fragments: the fast way gives the same lists as the reference implementation, and does not resolve again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events.model import Impression
from streammetrics.sessions import session as session_module
from streammetrics.sessions.fragments import Duplicates, Fragment, FragmentUnion
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session import Session
from streammetrics.sessions.session_record import StoredFeedback
from streammetrics.sessions.shown_list import UNCHANGED, ChangedLists

RULES = JoinRules(attribution_ms=6, items_max=5)


class Reference(Session):
    """A session that resolves all fragments of a list for each new one."""

    __slots__ = ()

    def _extend_union(self, identity: str, fragment: Fragment, duplicates: Duplicates, rules: JoinRules, changed: ChangedLists) -> bool:
        return False


ITEMS = st.sampled_from("abcdefg")
LABELS = st.sampled_from([(), (("e", "a"),), (("e", "b"),)])


@st.composite
def fragments(draw: st.DrawFn) -> Impression:
    items = draw(st.lists(ITEMS, max_size=2))
    positions = tuple(sorted(draw(st.lists(st.integers(0, 9), min_size=len(items), max_size=len(items), unique=True))))
    teams = draw(st.sampled_from([(), (), (), ("A",) * len(items)]))
    return Impression(draw(st.sampled_from("xxxy")), "u", draw(st.integers(0, 9)), tuple(items), draw(LABELS), (), positions, teams)


wholes = st.builds(Impression, st.sampled_from("xyz"), st.just("u"), st.integers(0, 9), st.lists(ITEMS, max_size=3).map(tuple))
feedbacks = st.builds(
    StoredFeedback, st.integers(0, 12), st.sampled_from([None, "x", "y"]), ITEMS, st.just("click"), st.sampled_from([0, 1, 2]), st.just(0)
)
steps = st.lists(fragments() | fragments() | fragments() | feedbacks | wholes | st.sampled_from(["commit", "restore"]), max_size=40)


def state(session: Session) -> object:
    lists = {name: (shown.impression, shown.ts, shown.items, hits(shown.hits)) for name, shown in session.lists.items()}
    return lists, session.fragmented, {name: session.fragment_items(name) for name in ("x", "y")}


def hits(values: tuple[float, ...] | None) -> dict[float, float]:
    assert values is not None
    return dict(zip(values[::2], values[1::2], strict=True))


def tallied(changed: ChangedLists) -> Counter[object]:
    """What the next commit adds to the tallies and takes away, by pane, labels and hits."""
    change: Counter[object] = Counter()
    for shown in changed:
        key = shown.ts, shown.impression.experiments, len(shown.items)
        if shown.hits is not None:
            change[key, tuple(sorted(hits(shown.hits).items()))] += 1
        if isinstance(shown.tallied, tuple):
            change[key, tuple(sorted(hits(shown.tallied).items()))] -= 1
        shown.tallied = UNCHANGED
    changed.clear()
    return Counter({key: count for key, count in change.items() if count})


@given(steps, st.booleans())
def test_fragment_by_fragment_gives_what_all_together_give(steps: list[Impression | StoredFeedback | str], absolute: bool) -> None:
    rules = replace(RULES, absolute_positions=absolute)
    sides: list[tuple[Session, ChangedLists, Duplicates]] = [(kind(0, 0), [], Counter()) for kind in (Session, Reference)]
    for step in steps:
        changes = []
        for at, (session, changed, duplicates) in enumerate(sides):
            if isinstance(step, Impression):
                duplicates.update(session.add_impression(step, 0, rules, changed) or {})
            elif isinstance(step, StoredFeedback):
                session.add_feedback(step, rules, changed)
            else:
                changes.append(tallied(changed))
                if step == "restore":
                    stored = b"".join(session.packed_lists()), b"".join(session.packed_feedback())
                    sides[at] = (type(session).restore(0, 9, 0, *stored, session.fragmented, rules), [], duplicates)
        assert changes[:1] == changes[1:]
        (one, _, counted), (other, _, expected) = sides
        assert state(one) == state(other)
        assert counted == expected
    assert tallied(sides[0][1]) == tallied(sides[1][1])


@pytest.mark.parametrize("absolute", [False, True])
def test_new_items_are_added_without_resolving_the_list_again(monkeypatch: pytest.MonkeyPatch, absolute: bool) -> None:
    calls = []
    resolve = session_module.resolve
    monkeypatch.setattr(session_module, "resolve", lambda *values: calls.append(values[0]) or resolve(*values))
    session, changed = Session(0, 0), []
    rules = JoinRules(absolute_positions=absolute)
    for number in range(300):
        session.add_impression(Impression("x", "u", number % 7, (f"i{number}",), positions=(number,)), 0, rules, changed)
        session.add_impression(Impression("x", "u", number % 7, (f"i{number}",), positions=(number,)), 0, rules, changed)
        session.add_feedback(StoredFeedback(8, "x", f"i{number}", "click", 1, 0), rules, changed)
    assert session.lists["x"].items == tuple(f"i{number}" for number in range(300))
    assert len(hits(session.lists["x"].hits)) == 300
    assert session.fragment_items("x") == 300
    assert calls == ["x"]  # for the first fragment only
    assert len(changed) == 1


def test_a_union_knows_the_items_and_positions_of_its_fragments() -> None:
    one, other = (Fragment(ts, items, places, (), (), (), 0) for ts, items, places in ((1, ("a", "b"), (3, 5)), (2, ("a",), (2,))))
    union = FragmentUnion([one, other])
    assert (union.places, union.items) == ({"a": 2, "b": 5}, 3)
    assert union.covers(other)
    assert not union.covers(Fragment(1, ("a",), (2,), (), (), (), 0))  # it comes before the fragment with that position
    assert not union.is_apart(Fragment(1, ("b", "c"), (1, 2), (), (), (), 0))
    assert union.add(Fragment(3, ("c", "d"), (4, 9), (), (), (), 0)) == [(1, "c"), (3, "d")]
