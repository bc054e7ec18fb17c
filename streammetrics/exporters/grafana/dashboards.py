"""Reads the dashboards of the package, and changes their queries for other names and labels of series."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, Final

from streammetrics.exporters.prometheus.selectors import Selectors

_QUERIES: Final = ("expr", "query", "definition")
"""The keys whose texts are PromQL."""


def dashboards(selectors: Selectors | None = None) -> dict[str, str]:
    """Return each dashboard as JSON text, by file name."""
    folder = resources.files(__package__)
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".json"))
    texts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in names}
    if selectors is None:
        return texts
    return {name: as_text(_changed(json.loads(text), selectors)) for name, text in texts.items()}


def as_text(dashboard: Any) -> str:
    """Return the JSON of a dashboard as it is stored."""
    return json.dumps(dashboard, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _changed(value: Any, selectors: Selectors, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _changed(held, selectors, name) for name, held in value.items()}
    if isinstance(value, list):
        return [_changed(held, selectors) for held in value]
    return selectors.applied(value) if key in _QUERIES and isinstance(value, str) else value
