"""Reads the dashboards of the package."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def dashboards() -> dict[str, str]:
    """Return each dashboard as JSON text, by file name."""
    folder = resources.files(__package__)
    return {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.name.endswith(".json")}


def as_text(dashboard: Any) -> str:
    """Return the JSON of a dashboard as it is stored."""
    return json.dumps(dashboard, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
