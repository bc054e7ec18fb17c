"""What the panels of the pipeline share: from where on a number is a worry, and what it means that there is none."""

from __future__ import annotations

from grafana.house import GREEN, RED, YELLOW, Steps
from grafana.queries import state

UP = {"1": ("up", GREEN), "0": ("down", RED)}
UP_STEPS: Steps = ((None, RED), (1, GREEN))
ANY_IS_TROUBLE: Steps = ((None, GREEN), (0.000001, RED))
NO_WORKER = "No process here consumes: is a worker scraped in this job?"
NO_STATE = "No process shows committed state: is an exporter scraped in this job?"
NO_NODE = "No exporter is scraped in this job, or Redis does not say"
LIMITS: dict[str, Steps] = {
    "lag_seconds": ((None, GREEN), (60, YELLOW), (300, RED)),
    "dropped": ((None, GREEN), (0.01, YELLOW), (0.05, RED)),
    "series": ((None, GREEN), (0.8, YELLOW), (0.95, RED)),
}
"""From where on a number is worth a look, and a worry. For the eye; what pages has its own table."""


def watermarks() -> str:
    """The watermark of every input."""
    return state("streammetrics_watermark_timestamp_seconds")
