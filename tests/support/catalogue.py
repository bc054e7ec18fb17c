"""A catalogue of items for assessment metrics: those of `committed_state`, and every second one of the simulated traffic."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from streammetrics.connectors.simulated import Traffic
from streammetrics.metrics.names import ASSESSMENT_NAMES


@cache
def catalogue_file() -> Path:
    """Write the file, once in a process."""
    traffic = Traffic()
    items = ["a", "b", "c", *(f"i{index:0{traffic.item_id_chars - 1}d}" for index in range(0, traffic.catalogue, 2))]
    rows = [f"{item},g{number % 7},b{number % 11},{number % 13},{number % 9}" for number, item in enumerate(items)]
    path = Path(mkdtemp(prefix="catalogue-")) / "items.csv"
    path.write_text("\n".join(["item_id,genre,brand,interactions,users", *rows]) + "\n", encoding="utf-8")
    return path


def assessment() -> dict[str, object]:
    """The settings of all assessment metrics."""
    return {
        "names": list(ASSESSMENT_NAMES),
        "cutoffs": [3],
        "catalogue_file": str(catalogue_file()),
        "attributes": ["genre", "brand"],
        "interactions_field": "interactions",
        "users_field": "users",
        "users": 100,
        "fallback": "surface=home",
    }
