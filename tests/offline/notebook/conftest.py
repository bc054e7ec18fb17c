"""Events of an experiment with enough users for verdicts, and their replay in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

import streammetrics
from streammetrics.connectors.simulated import Traffic
from streammetrics.offline.notebook.replayed import ReplayTables
from tests.support.replays import sent, write

GIVEN = {
    "windows.pane_ms": 10_000,
    "windows.windows": ["1m", "1h"],
    "windows.segments": ["surface"],
    "join.gap_ms": 120_000,
    "join.attribution_ms": 60_000,
}


@pytest.fixture(scope="package")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    traffic = Traffic(users=1_500, seed=4, impressions_per_second=12)
    return write(tmp_path_factory.mktemp("events") / "events.ndjson", sent(traffic, 10_000))


@pytest.fixture(scope="package")
def result(events: Path) -> ReplayTables:
    return streammetrics.replay(events, GIVEN)
