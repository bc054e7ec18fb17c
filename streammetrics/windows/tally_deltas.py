"""Changed lists -> changes of their tallies, scored by one call of the metric core per batch.

Lists with the same pane and label set share a cell and are summed together. A changed list subtracts its old values and adds its new
ones. Both are integers, so the order of changes does not matter.

The engagement of a list gives the columns that engagement metrics add to a tally.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from streammetrics.events.model import Labels
from streammetrics.metrics import TallyLayout
from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.engagement import EngagementFacts, EngagementLayout
from streammetrics.metrics.units import TOTAL_MAX
from streammetrics.sessions.engagement import Engagement
from streammetrics.sessions.item_text import items_of, length_of
from streammetrics.sessions.state import NO_CHANGE, Facts, GradedPositions, NoChange, ShownList, hits_of

GroupT = TypeVar("GroupT", bound=Hashable)
SumsArray: TypeAlias = npt.NDArray[np.int64 | np.object_]
"""Integers, as int64 or Python int."""
LabelledPane: TypeAlias = tuple[int, Labels, Labels]
"""Pane start (ms), experiments, segments."""
ScoredRow: TypeAlias = tuple[Any, ...]
"""Lists of one cell with equal values: the number of the cell, then their `ListShape`."""
ItemPlaces: TypeAlias = int | tuple[int, ...]
"""The places of a list that show an item: the first so many, or these (from 0) if others are empty."""


def add_tallies(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Add two tallies: exact at any size, associative and commutative."""
    assert len(one) == len(other), "tallies of different layouts"
    return list(map(operator.add, one, other))


def places_of(text: str) -> ItemPlaces:
    """Return the places that show an item. See `item_text`.

    >>> from streammetrics.sessions.item_text import text_of
    >>> places_of(text_of(("a", "b"))), places_of(text_of(("", "", "a", "", "b")))
    (2, (2, 4))
    """
    if "\n\n" not in text:
        return length_of(text)
    return tuple([place for place, item in enumerate(items_of(text)) if item])


def tally_deltas(
    changed_lists: Sequence[ShownList],
    layout: TallyLayout,
    pane_ms: int,
    groups: Callable[[Labels, Labels], Sequence[GroupT]],
    *,
    may_have_gaps: bool = False,
) -> dict[tuple[int, GroupT], list[int]]:
    """Return the change of each (pane start, group) as a tally to add, and mark the lists as tallied.

    `groups` returns the groups of lists with some experiments and segments. `may_have_gaps`: lists may have empty places.
    """
    cells: dict[LabelledPane, int] = {}
    rows: dict[ScoredRow, int] = {}
    engaged: list[tuple[int, int, EngagedList]] = []
    assessed = _assessed(changed_lists, layout)
    for weight, number, facts in _weighted(changed_lists):
        ts, text, experiments, segments, reactions, engagement = facts
        start = ts - ts % pane_ms  # `pane_start`, inlined
        cell = cells.setdefault((start, experiments, segments), len(cells))
        places: ItemPlaces = places_of(text) if may_have_gaps else length_of(text)
        hits = hits_of(reactions) if reactions else ()
        row = (cell, places, *hits)
        rows[row] = rows.get(row, 0) + weight
        if layout.engagement is not None:
            columns = layout.engagement.assessment.row(items_of(text), segments) if number in assessed else ()
            engaged.append((cell, weight, EngagedList(ts, length_of(text), hits, engagement, columns)))
    for shown_list in changed_lists:
        shown_list.tallied = NO_CHANGE
    sums = _sums(len(cells), [(row, weight) for row, weight in rows.items() if weight], layout)
    if layout.engagement is not None and engaged:
        sums = np.zeros((len(cells), layout.width), dtype=np.int64) if sums is None else sums
        _add_engagement(sums, engaged, layout, layout.engagement)
    return {} if sums is None else _by_group(cells, sums, groups)


def _weighted(changed_lists: Sequence[ShownList]) -> Iterator[tuple[int, int, Facts]]:
    """Return what tallies contain of each list, to be subtracted, and what the list is now; with the list's number."""
    for number, shown_list in enumerate(changed_lists):
        if shown_list.tallied is not None:
            assert not isinstance(shown_list.tallied, NoChange), "a list that did not change is tallied"
            yield -1, number, shown_list.tallied
        if shown_list.exists:
            yield 1, number, shown_list.facts()


def _assessed(changed_lists: Sequence[ShownList], layout: TallyLayout) -> set[int]:
    """Return the numbers of the lists whose assessment changes. That of a list depends on all but reactions."""
    if layout.engagement is None or not layout.engagement.assessment.columns:
        return set()
    return {
        number
        for number, shown_list in enumerate(changed_lists)
        if not (shown_list.exists and isinstance(shown_list.tallied, tuple) and shown_list.tallied[:4] == shown_list.facts()[:4])
    }


def _add_engagement(
    sums: SumsArray, lists: Sequence[tuple[int, int, EngagedList]], layout: TallyLayout, engagement: EngagementLayout
) -> None:
    """Add the engagement columns of lists, each with its cell and its weight, to the sums by cell.

    The sums fit int64: one purchase adds less than 2**37, a list's assessment at most 2**40, and no commit has 2**22 of either.
    """
    values = engagement_rows([final_list for *_, final_list in lists], engagement)
    weights = np.array([weight for _, weight, _ in lists], dtype=np.int64)
    cells = np.array([cell for cell, _, _ in lists], dtype=np.int64)
    np.add.at(sums[:, layout.engagement_from :], cells, values * weights[:, None])


def _sums(cells: int, rows: Sequence[tuple[ScoredRow, int]], layout: TallyLayout) -> SumsArray | None:
    """Score the rows, multiply by their weights and sum by cell: shape (cells, width). None without rows.

    The values of one list fit int64. If the sums may not, they become Python integers.
    """
    if not rows:
        return None
    values, weights = layout.rows_of_shapes([row[1:] for row, _ in rows]), np.array([weight for _, weight in rows], dtype=np.int64)
    if int(np.abs(values).max()) * int(np.abs(weights).sum()) > TOTAL_MAX:
        values, weights = values.astype(object), weights.astype(object)
    sums = np.zeros((cells, layout.width), dtype=values.dtype)
    np.add.at(sums, np.array([row[0] for row, _ in rows], dtype=np.int64), values * weights[:, None])
    return sums


def _by_group(
    cells: Iterable[LabelledPane], sums: SumsArray, groups: Callable[[Labels, Labels], Sequence[GroupT]]
) -> dict[tuple[int, GroupT], list[int]]:
    """Add the sums of each cell to all of its groups. Groups without a change are left out."""
    indices: dict[tuple[int, GroupT], int] = {}
    pairs = [
        (cell, indices.setdefault((start, group), len(indices)))
        for cell, (start, experiments, segments) in enumerate(cells)
        for group in groups(experiments, segments)
    ]
    tallies = np.zeros((len(indices), sums.shape[1]), dtype=sums.dtype)
    np.add.at(tallies, [index for _, index in pairs], sums[[cell for cell, _ in pairs]])
    changed = np.flatnonzero((tallies != 0).any(axis=1))
    named = list(indices)
    return {named[index]: tally for index, tally in zip(changed.tolist(), tallies[changed].tolist(), strict=True)}


class EngagedList(NamedTuple):
    """What the engagement columns of a list depend on. `ts` is the time of the list (ms), `length` its number of items.

    `assessed` has its columns of assessment metrics; empty for zeros.
    """

    ts: int
    length: int
    hits: GradedPositions
    engagement: Engagement
    assessed: Sequence[int] = ()


def engagement_rows(lists: Sequence[EngagedList], layout: EngagementLayout) -> Ints:
    """Return the engagement columns of each list: int64, shape (lists, columns).

    A click that is dated before its list, because clocks differ, came after 0 ms.
    """
    satisfied = layout.satisfied_grade
    rows: list[tuple[int, ...]] = []
    for ts, length, hits, (first, purchases, opens, followed), _ in lists:
        if first is None:  # most lists
            rows.append((length, 0, 0, 0, 0, 0, opens, followed))
            continue
        clicked_at, position = first
        value = sum([value for _, value in purchases]) if purchases else 0
        best = max(hits[1::2])
        rows.append((length, best >= satisfied, position + 1, max(clicked_at - ts, 0), len(purchases), value, opens, followed))
    facts = EngagementFacts(*np.array(rows, dtype=np.int64).reshape(-1, len(EngagementFacts._fields)).T)
    return layout.rows(facts, [facts_of_list.assessed for facts_of_list in lists] if layout.assessment.columns else ())
