"""The report of the API as JSON values, for tests of what reads it."""

from __future__ import annotations

import json

from streammetrics.experiments import ExperimentReport
from streammetrics.reports.history import History
from streammetrics.reports.published import encoded

AT_MS = 1_732_183_200_000
"""The event time of experiments in a plain report."""


def plain(*experiments: ExperimentReport, **others: object) -> dict[str, object]:
    """Return a report of the API with these experiments, as JSON values."""
    history = History().add(AT_MS - 120_000, experiments).series
    document = {"version": "1", "experiments": experiments, "experiments_entered_ms": AT_MS, "history": history}
    return dict(json.loads(encoded(document | others)))
