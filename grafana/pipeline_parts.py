"""Shared by the panels of the pipeline: their size, thresholds, and texts for panels without data."""

from __future__ import annotations

from typing import Any

from grafana.panels import GREEN, RED, YELLOW, Block, Query, Steps, lines
from grafana.queries import state

UP = {"1": ("up", GREEN), "0": ("down", RED)}
UP_STEPS: Steps = ((None, RED), (1, GREEN))
NO_WORKER = "No data from a worker. Is a worker scraped in this job?"
NO_STATE = "No committed state. Is an exporter scraped in this job?"
NO_PROCESS = "No process is scraped in this job"
NO_NODE = "No exporter is scraped in this job, or Redis hides this value"
LIMITS: dict[str, Steps] = {
    "lag_seconds": ((None, GREEN), (60, YELLOW), (300, RED)),
    "dropped": ((None, GREEN), (0.01, YELLOW), (0.05, RED)),
    "series": ((None, GREEN), (0.8, YELLOW), (0.95, RED)),
}
"""Thresholds for colours. The table of alerts has its own."""


def watermarks() -> str:
    """Query the watermark of every input."""
    return state("streammetrics_watermark_timestamp_seconds")


def third(title: str, description: str, unit: str, *queries: Query, **others: Any) -> Block:
    """Make a panel of curves from 0 on, a third of a row wide without another width."""
    return lines(title, description, unit, *queries, least=0, **{"width": 8, **others})
