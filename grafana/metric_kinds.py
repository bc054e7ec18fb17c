"""The kinds of metrics that the stream alone computes, for panels of *Ranking quality*."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streammetrics.metrics.assessment import assessment_kinds
from streammetrics.metrics.engagement import engagement_kinds
from streammetrics.metrics.names import ASSESSMENT_NAMES, ENGAGEMENT_NAMES


class MetricKind(NamedTuple):
    """Metrics that the stream alone computes: their names, those without a cut-off, their kinds of sums, and what an empty panel says."""

    title: str
    names: tuple[str, ...]
    without_k: frozenset[str]
    kinds: Callable[[str], tuple[str, ...]]
    empty: str

    @property
    def units(self) -> dict[str, list[str]]:
        """The metrics of each unit. The others are plain numbers."""
        found: dict[str, list[str]] = {}
        for metric in self.names:
            if metric.startswith("time_to_first_click"):
                found.setdefault("s", []).append(metric)
            elif metric == "diversity" or metric.endswith(("_rate", "_share")):
                found.setdefault("percentunit", []).append(metric)
        return found


ENGAGEMENT = MetricKind(
    "Engagement",
    ENGAGEMENT_NAMES,
    frozenset(ENGAGEMENT_NAMES) - {"first_click_share"},
    engagement_kinds,
    "No lists in these windows, or the metric is not in engagement.names",
)
ASSESSMENT = MetricKind(
    "Assessment",
    ASSESSMENT_NAMES,
    frozenset({"fallback_share"}),
    assessment_kinds,
    "No lists in these windows, or the metric is not in assessment.names",
)
