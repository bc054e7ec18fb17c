"""Records for Spark, and where two reports differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from streammetrics.connectors.simulated import SimulatedRecord
from tests.support.replays import DAY_MS, write

GIVEN: Mapping[str, Any] = {
    "windows.pane_ms": 10_000,
    "windows.windows": "1m,5m",
    "windows.segments": "surface",
    "join.gap_ms": 120_000,
    "join.attribution_ms": 60_000,
    "experiments.patience_ms": 60_000,
}


def wrong_clocks(records: list[SimulatedRecord], share: float, seed: int) -> list[SimulatedRecord]:
    """Move the times of some records, each by up to ten days, and all later ones by a day after a while."""
    random, moved = Random(seed), []
    for number, record in enumerate(records):
        shift = DAY_MS if number > 0.6 * len(records) else 0
        if random.random() < share:
            shift += random.choice([70_000, 200_000, DAY_MS, 10 * DAY_MS, -70_000, -DAY_MS])
        moved.append(record._replace(value=shifted(record.value, shift)) if shift else record)
    return moved


def by_topic(records: list[SimulatedRecord], folder: Path) -> list[Path]:
    topics = ("feedback", "impressions")
    return [write(folder / f"{topic}.ndjson", (record for record in records if record.topic == topic)) for topic in topics]


def differing(report: Any, whole: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Return the places where two reports differ, with both values."""
    if isinstance(report, dict) and isinstance(whole, dict):
        keys = sorted({*report, *whole})
        return [line for key in keys for line in differing(report.get(key), whole.get(key), f"{path}/{key}")]
    if isinstance(report, list) and isinstance(whole, list) and len(report) == len(whole):
        return [
            line
            for number, (one, other) in enumerate(zip(report, whole, strict=True))
            for line in differing(one, other, f"{path}/{number}")
        ]
    return [] if report == whole else [(path, report, whole)]


def shifted(value: bytes, by_ms: int) -> bytes:
    try:
        event = msgspec.json.decode(value)
        return json.dumps({**event, "ts": event["ts"] + by_ms}).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        return value
