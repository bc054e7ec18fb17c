"""The report of the API as JSON values, and the one inside the HTML file of `report --html`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from streammetrics.experiments import ExperimentReport
from streammetrics.reports.history import History
from streammetrics.reports.published import encoded

AT_MS = 1_732_183_200_000
"""The event time of experiments in a plain report."""


def embedded(page: Path) -> dict[str, Any]:
    """Return the report inside a page."""
    found = re.search(r'<script id="report" type="application/json">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    inside: dict[str, Any] = json.loads(found[1])
    return inside


def plain(*experiments: ExperimentReport, **others: object) -> dict[str, object]:
    """Return a report of the API with these experiments, as JSON values."""
    history = History().add(AT_MS - 120_000, experiments).series
    found = {"version": "1", "experiments": experiments, "experiments_entered_ms": AT_MS, "history": history}
    return dict(json.loads(encoded(found | others)))
