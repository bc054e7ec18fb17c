"""One list with grades: the inlined `mark_changed` of `raise_grade` agrees with the function."""

from __future__ import annotations

import pytest

from streammetrics.sessions.fragments import StoredImpression
from streammetrics.sessions.shown_list import UNCHANGED, ChangedLists, GradedPositions, ShownList, Unchanged, mark_changed, raise_grade

IMPRESSION = StoredImpression("x", 1, ("a", "b", "c"), (), (), (), 0)


@pytest.mark.parametrize("hits", [(), (0, 1.0), (2, 3.0)])
@pytest.mark.parametrize("tallied", [UNCHANGED, None, (), (1, 2.0)])
def test_a_raised_grade_marks_its_list_like_mark_changed(hits: GradedPositions, tallied: GradedPositions | Unchanged | None) -> None:
    raised, marked = (ShownList(IMPRESSION, 1, IMPRESSION.items, hits, tallied) for _ in range(2))
    changed: tuple[ChangedLists, ChangedLists] = ([], [])
    raise_grade(raised, 0, 2.0, changed[0])
    mark_changed(marked, changed[1])
    assert raised.tallied is marked.tallied
    assert [each is raised for each in changed[0]] == [each is marked for each in changed[1]]


def test_a_lower_grade_changes_nothing() -> None:
    shown, changed = ShownList(IMPRESSION, 1, IMPRESSION.items, (0, 2.0), UNCHANGED), ChangedLists()
    raise_grade(shown, 0, 1.0, changed)
    raise_grade(shown, 0, 2.0, changed)
    assert (shown.hits, shown.tallied, changed) == ((0, 2.0), UNCHANGED, [])
