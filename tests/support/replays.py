"""Replays for tests: traffic in files, and a replay with its outputs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from streammetrics.connectors.simulated import SimulatedRecord, Traffic, generate
from tests.support.command_line import called

SETTINGS = ["--set", "windows.pane_ms=10000", "--set", "windows.windows=1m,5m", "--set", "windows.segments=surface"]
QUICK = ["--set", "join.gap_ms=120000", "--set", "join.attribution_ms=60000"]
"""Sessions that close within the traffic, so that some panes are final before the flush."""
DAY_MS = 86_400_000
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
CLEAN = Traffic(users=60, seed=4, impressions_per_second=3, lists_per_visit=3, list_gap_ms=20_000)
FAULTY = Traffic(users=60, seed=5, impressions_per_second=3, late_rate=0.02, malformed_rate=0.03, duplicate_rate=0.02, late_ms=400_000)


def write(path: Path, records: Iterable[SimulatedRecord]) -> Path:
    path.write_bytes(b"".join(sent.value + b"\n" for sent in records))
    return path


def sent(traffic: Traffic, count: int = 4_000) -> list[SimulatedRecord]:
    return list(generate(traffic, count))


def replayed(
    folder: Path, *files: str | Path, stdin: bytes = b"", words: Sequence[str] = ()
) -> tuple[bytes, dict[str, object], list[dict[str, object]]]:
    """Run a replay; return its panes as bytes, its report and its dead letters. It prints the report's warnings and nothing else."""
    panes, report, letters = folder / "panes", folder / "report", folder / "letters"
    outputs = ["--panes", panes, "--report", report, "--dead-letters", letters]
    done = called("replay", *files, *outputs, *SETTINGS, *QUICK, *words, "--quiet", stdin=stdin)
    content = json.loads(report.read_bytes())
    warned = "".join(f"streammetrics: warning: {sentence}\n" for sentence in content["warnings"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", warned)
    return panes.read_bytes(), content, [json.loads(line) for line in letters.read_bytes().splitlines()]
