"""The engagement of lists -> the columns that engagement metrics add to a tally."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.engagement import EngagementFacts, EngagementLayout
from streammetrics.sessions.engagement import Engagement
from streammetrics.sessions.state import GradedPositions


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
