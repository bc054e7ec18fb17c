"""Read the HTML file of `report --html`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


def embedded(page: Path) -> dict[str, Any]:
    """Return the report inside a page."""
    found = re.search(r'<script id="report" type="application/json">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    inside: dict[str, Any] = json.loads(found[1])
    return inside
