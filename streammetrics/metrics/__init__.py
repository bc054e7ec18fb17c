"""The metric library: ranking metrics (NDCG and its family) in exact integers, the same for the stream and for notebooks.

This file exports the scoring core, which needs only numpy. `kernel` holds the formulas and the array code behind `Scorer`.
"""

from streammetrics.metrics.names import ALL_METRIC_NAMES, K_MAX, METRIC_NAMES, Column, Metric, MetricError, parse_metric
from streammetrics.metrics.scorer import Scorer
from streammetrics.metrics.spec import Spec
from streammetrics.metrics.tally import TallyLayout

__all__ = [
    "ALL_METRIC_NAMES",
    "K_MAX",
    "METRIC_NAMES",
    "Column",
    "Metric",
    "MetricError",
    "Scorer",
    "Spec",
    "TallyLayout",
    "parse_metric",
]
