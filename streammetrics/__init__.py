"""Live ranking metrics from an event stream. This file exports the metric library for offline use, and replays for notebooks and on Spark.

Importing it loads only the metric core and numpy. The functions that evaluate, compare, replay and read reports load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streammetrics.metrics import (
    ALL_METRIC_NAMES,
    K_MAX,
    METRIC_NAMES,
    Column,
    Metric,
    MetricError,
    Scorer,
    Spec,
    TallyLayout,
    parse_metric,
)

if TYPE_CHECKING:
    from streammetrics.cli import spark as spark
    from streammetrics.cli.notebook.replayed import replay
    from streammetrics.cli.notebook.report_tables import read_report
    from streammetrics.metrics.corrected_dcg import corrected_dcg
    from streammetrics.metrics.inputs.frames import from_frame, from_frames, from_wide_frame
    from streammetrics.metrics.inputs.grades import from_grades, from_padded, from_ragged
    from streammetrics.metrics.inputs.item_ids import from_lists, from_run
    from streammetrics.metrics.inputs.judged import Judged
    from streammetrics.metrics.inputs.trec import from_trec
    from streammetrics.metrics.offline.assessment import Popularity, assess_lists
    from streammetrics.metrics.offline.compare import compare
    from streammetrics.metrics.offline.evaluate import evaluate
    from streammetrics.metrics.offline.position_bias import position_bias
    from streammetrics.metrics.presets import preset

__version__ = "0.1.0"
"""The version. Packaging, `--version`, the report and `streammetrics_build_info` read it from here."""

__all__ = [
    "ALL_METRIC_NAMES",
    "K_MAX",
    "METRIC_NAMES",
    "Column",
    "Judged",
    "Metric",
    "MetricError",
    "Popularity",
    "Scorer",
    "Spec",
    "TallyLayout",
    "__version__",
    "assess_lists",
    "compare",
    "corrected_dcg",
    "evaluate",
    "from_frame",
    "from_frames",
    "from_grades",
    "from_lists",
    "from_padded",
    "from_ragged",
    "from_run",
    "from_trec",
    "from_wide_frame",
    "parse_metric",
    "position_bias",
    "preset",
    "read_report",
    "replay",
]

_LATER = {
    **dict.fromkeys(("from_frame", "from_frames", "from_wide_frame"), "metrics.inputs.frames"),
    **dict.fromkeys(("from_grades", "from_padded", "from_ragged"), "metrics.inputs.grades"),
    **dict.fromkeys(("from_lists", "from_run"), "metrics.inputs.item_ids"),
    "Judged": "metrics.inputs.judged",
    **dict.fromkeys(("Popularity", "assess_lists"), "metrics.offline.assessment"),
    "compare": "metrics.offline.compare",
    "corrected_dcg": "metrics.corrected_dcg",
    "evaluate": "metrics.offline.evaluate",
    "from_trec": "metrics.inputs.trec",
    "position_bias": "metrics.offline.position_bias",
    "preset": "metrics.presets",
    "read_report": "cli.notebook.report_tables",
    "replay": "cli.notebook.replayed",
}


def __dir__() -> list[str]:
    """All public names, also those that are loaded on first use: for tab completion."""
    return sorted({*globals(), *__all__, "spark"})


def __getattr__(name: str) -> Any:
    if name == "spark":
        return import_module("streammetrics.cli.spark")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"streammetrics.{_LATER[name]}"), name)
