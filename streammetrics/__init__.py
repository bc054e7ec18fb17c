"""Live ranking quality from an event stream: the offline door. Importing this loads the metric core and numpy, nothing else."""

from streammetrics.metrics import METRIC_NAMES, Column, Metric, MetricError, Scorer, Spec, parse_metric
from streammetrics.version import __version__

__all__ = ["METRIC_NAMES", "Column", "Metric", "MetricError", "Scorer", "Spec", "__version__", "parse_metric"]
