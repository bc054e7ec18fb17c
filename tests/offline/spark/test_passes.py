"""The passes of a replay on Spark write the report and the panes of `replay`, whatever the shards, slices and blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from streammetrics.config import Settings, load
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.offline.replay.files import ReplayOutputs, replay
from tests.offline.spark.local_passes import passed
from tests.support.replays import CLEAN, DAY_MS, FAULTY, sent, write

GIVEN: Mapping[str, Any] = {
    "windows.pane_ms": 10_000,
    "windows.windows": "1m,5m",
    "windows.segments": "surface",
    "join.gap_ms": 120_000,
    "join.attribution_ms": 60_000,
    "experiments.patience_ms": 60_000,
}
MANY = replace(FAULTY, users=600, impressions_per_second=20, late_ms=90_000)


def settings_of(**given: Any) -> Settings:
    return load(None, {}, {**GIVEN, **{name.replace("__", "."): value for name, value in given.items()}}).settings


def wrong_clocks(records: list[SimulatedRecord], share: float, seed: int) -> list[SimulatedRecord]:
    """Move the times of some records, each by up to ten days, and all later ones by a day after a while."""
    random, moved = Random(seed), []
    for number, record in enumerate(records):
        shift = DAY_MS if number > 0.6 * len(records) else 0
        if random.random() < share:
            shift += random.choice([70_000, 200_000, DAY_MS, 10 * DAY_MS, -70_000, -DAY_MS])
        moved.append(record._replace(value=shifted(record.value, shift)) if shift else record)
    return moved


def shifted(value: bytes, by_ms: int) -> bytes:
    try:
        event = msgspec.json.decode(value)
        return json.dumps({**event, "ts": event["ts"] + by_ms}).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        return value


def in_one_process(settings: Settings, files: list[Path], folder: Path) -> tuple[dict[str, Any], bytes]:
    report, panes = folder / "whole", folder / "whole-panes"
    replay(settings, [str(file) for file in files], ReplayOutputs(report=report, panes=panes))
    return json.loads(report.read_bytes()), panes.read_bytes()


def by_topic(records: list[SimulatedRecord], folder: Path) -> list[Path]:
    topics = ("feedback", "impressions")
    return [write(folder / f"{topic}.ndjson", (each for each in records if each.topic == topic)) for topic in topics]


@pytest.mark.parametrize(("shards", "size", "blocks"), [(1, 1_000, 1), (3, 50, 4), (5, 7, 2)])
def test_any_shards_slices_and_blocks_write_what_one_process_writes(shards: int, size: int, blocks: int, tmp_path: Path) -> None:
    settings, files = settings_of(join__lateness_ms=20_000), by_topic(sent(MANY, 6_000), tmp_path)
    whole, panes = in_one_process(settings, files, tmp_path)
    report, own_panes = passed(settings, files, tmp_path, shards=shards, size=size, blocks=blocks)
    assert whole["history"]
    assert whole["counters"]["late"]
    assert differing(report, whole) == []
    assert own_panes == panes


@pytest.mark.parametrize("seed", range(6))
def test_wrong_clocks_move_the_time_of_an_input_as_in_one_process(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    given = {
        "join__support_users": random.choice([1, 2, 5]),
        "join__support_jump_ms": random.choice([5_000, 65_000]),
        "join__lateness_ms": random.choice([0, 60_000]),
    }
    records = wrong_clocks(sent(replace(FAULTY, seed=seed), 2_500), random.choice([0.002, 0.05, 0.4]), seed)
    settings, files = settings_of(**given), by_topic(records, tmp_path)
    files.append(write(tmp_path / "all.ndjson", sent(replace(CLEAN, seed=seed + 100), 300)))
    files.append(write(tmp_path / "none.ndjson", []))
    whole, panes = in_one_process(settings, sorted(files), tmp_path)
    shape = {"shards": random.choice([1, 2, 4]), "size": random.choice([1, 20, 300]), "blocks": random.choice([1, 3])}
    report, own_panes = passed(settings, sorted(files), tmp_path, **shape)
    assert (differing(report, whole), given, shape) == ([], given, shape)
    assert own_panes == panes


@pytest.mark.parametrize("content", [b"", b"\n \n", b"no event\n"])
def test_files_without_events(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(content)
    whole, _ = in_one_process(settings_of(), [file], tmp_path)
    assert differing(passed(settings_of(), [file], tmp_path, shards=2, size=10, blocks=2)[0], whole) == []


def differing(report: Any, whole: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Return the places where two reports differ, with both values."""
    if isinstance(report, dict) and isinstance(whole, dict):
        keys = sorted({*report, *whole})
        return [each for key in keys for each in differing(report.get(key), whole.get(key), f"{path}/{key}")]
    if isinstance(report, list) and isinstance(whole, list) and len(report) == len(whole):
        return [
            each
            for number, (one, other) in enumerate(zip(report, whole, strict=True))
            for each in differing(one, other, f"{path}/{number}")
        ]
    return [] if report == whole else [(path, report, whole)]
