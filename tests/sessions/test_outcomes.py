"""The outcomes of a closed session: the inlined join of `count_outcomes` agrees with `Session.find`."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events.model import Impression
from streammetrics.sessions.outcomes import count_outcomes
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session import Session
from streammetrics.sessions.session_record import StoredFeedback

RULES = JoinRules(gap_ms=100, attribution_ms=3, items_max=3)

items = st.lists(st.sampled_from("abc"), max_size=4).map(tuple)
impressions = st.builds(
    lambda identity, ts, items, is_fragment: Impression(
        identity, "u", ts, items, positions=tuple(range(len(items))) if is_fragment else None
    ),
    st.sampled_from("xyz"),
    st.integers(0, 9),
    items,
    st.booleans(),
)
feedback = st.builds(
    StoredFeedback,
    ts=st.integers(0, 12),
    impression_id=st.sampled_from(["x", "y", "z", None]),
    item_id=st.sampled_from("abcd"),
    action=st.sampled_from(["click", "watch"]),
    grade=st.sampled_from([0, 1, 2]),
    topic=st.integers(0, 1),
)


@given(st.lists(impressions | feedback, max_size=12))
def test_the_inlined_join_agrees_with_find(events: list[Impression | StoredFeedback]) -> None:
    session = Session(0, 12)
    for event in events:
        if isinstance(event, Impression):
            session.add_impression(event, 0, RULES, [])
        else:
            session.add_feedback(event, RULES, [])
    counts: Counter[tuple[str, int]] = Counter()
    matched, unmatched = count_outcomes(session, RULES.attribution_ms, counts)

    expected: Counter[tuple[str, int]] = Counter()
    seen: set[tuple[str, str, str]] = set()
    for each in sorted(session.feedback, key=lambda each: (each.ts, each.topic)):
        found = session.find(each, RULES.attribution_ms)
        if isinstance(found, str):
            expected[found, each.topic] += 1
            continue
        expected["matched", each.topic] += 1
        key = found[0].impression.impression_id, each.item_id, each.action
        expected["repeated", each.topic] += key in seen
        seen.add(key)
    assert {key: count for key, count in counts.items() if key[0] != "too_many_items"} == +expected
    assert (matched, matched + unmatched) == (sum(count for (name, _), count in counts.items() if name == "matched"), len(session.feedback))
