"""The shared metric core: ranking metrics in exact integers, the same online and offline. numpy only, no I/O."""

from streammetrics.metrics.names import K_MAX, METRIC_NAMES, Column, Metric, MetricError, parse_metric
from streammetrics.metrics.scorer import Scorer
from streammetrics.metrics.spec import Spec

__all__ = ["K_MAX", "METRIC_NAMES", "Column", "Metric", "MetricError", "Scorer", "Spec", "parse_metric"]
