"""The shared metric core: ranking metrics in exact integers, the same online and offline. numpy only, no I/O."""

from streammetrics.metrics.kernels.packed import PackedLists
from streammetrics.metrics.names import ALL_METRIC_NAMES, K_MAX, METRIC_NAMES, Column, Metric, MetricError, parse_metric
from streammetrics.metrics.scorer import Scorer
from streammetrics.metrics.spec import Spec
from streammetrics.metrics.tally import Tally, TallyLayout

__all__ = [
    "ALL_METRIC_NAMES",
    "K_MAX",
    "METRIC_NAMES",
    "Column",
    "Metric",
    "MetricError",
    "PackedLists",
    "Scorer",
    "Spec",
    "Tally",
    "TallyLayout",
    "parse_metric",
]
