"""The engagement of lists -> the columns that engagement metrics add to a tally."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.engagement import EngagementFacts, EngagementLayout
from streammetrics.sessions.engagement import Engagement
from streammetrics.sessions.shown_list import GradedPositions


class EngagedList(NamedTuple):
    """What the engagement columns of a list depend on. `ts` is the time of the list (ms), `length` its number of items."""

    ts: int
    length: int
    hits: GradedPositions
    engagement: Engagement


def engagement_rows(lists: Sequence[EngagedList], layout: EngagementLayout) -> Ints:
    """Return the engagement columns of each list: int64, shape (lists, columns).

    A click that is dated before its list, because clocks differ, came after 0 ms.
    """
    satisfied = layout.satisfied_grade
    rows = [
        (
            length,
            any(grade >= satisfied for grade in hits[1::2]),
            0 if engagement.first is None else engagement.first[1] + 1,
            0 if engagement.first is None else max(engagement.first[0] - ts, 0),
            len(engagement.purchases),
            sum([value for _, value in engagement.purchases]),
            engagement.opens,
            engagement.followed,
        )
        for ts, length, hits, engagement in lists
    ]
    return layout.rows(EngagementFacts(*np.array(rows, dtype=np.int64).reshape(-1, len(EngagementFacts._fields)).T))
