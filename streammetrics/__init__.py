"""Live ranking metrics from an event stream. This file exports the metric library for offline use, and replays for notebooks and on Spark.

Importing it loads only the metric core and numpy. The functions that evaluate, replay and read reports load on first use.
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
from streammetrics.version import __version__

if TYPE_CHECKING:
    from streammetrics.metrics.presets import preset
    from streammetrics.offline import spark as spark
    from streammetrics.offline.evaluation.evaluate import evaluate
    from streammetrics.offline.evaluation.frames import from_frame, from_frames, from_wide_frame
    from streammetrics.offline.evaluation.grades import from_grades, from_padded, from_ragged
    from streammetrics.offline.evaluation.item_ids import from_lists, from_run
    from streammetrics.offline.evaluation.judged import JudgedLists
    from streammetrics.offline.notebook.replayed import replay
    from streammetrics.offline.notebook.report_tables import read_report

__all__ = [
    "ALL_METRIC_NAMES",
    "K_MAX",
    "METRIC_NAMES",
    "Column",
    "JudgedLists",
    "Metric",
    "MetricError",
    "Scorer",
    "Spec",
    "TallyLayout",
    "__version__",
    "evaluate",
    "from_frame",
    "from_frames",
    "from_grades",
    "from_lists",
    "from_padded",
    "from_ragged",
    "from_run",
    "from_wide_frame",
    "parse_metric",
    "preset",
    "read_report",
    "replay",
]

_LATER = {
    **dict.fromkeys(("from_frame", "from_frames", "from_wide_frame"), "offline.evaluation.frames"),
    **dict.fromkeys(("from_grades", "from_padded", "from_ragged"), "offline.evaluation.grades"),
    **dict.fromkeys(("from_lists", "from_run"), "offline.evaluation.item_ids"),
    "JudgedLists": "offline.evaluation.judged",
    "evaluate": "offline.evaluation.evaluate",
    "preset": "metrics.presets",
    "read_report": "offline.notebook.report_tables",
    "replay": "offline.notebook.replayed",
}


def __dir__() -> list[str]:
    """All public names, also those that are loaded on first use: for tab completion."""
    return sorted({*globals(), *__all__, "spark"})


def __getattr__(name: str) -> Any:
    if name == "spark":
        return import_module("streammetrics.offline.spark")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"streammetrics.{_LATER[name]}"), name)
