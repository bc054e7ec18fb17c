"""Compares all numbers of a deployment with a replay of its topics."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.command_line import called
from tests.support.real_pipeline import Kept, Pipeline
from tests.support.report_differences import pane_differences, report_differences
from tests.tools.faults.deployment import Deployment
from tests.tools.faults.watch import FaultError
from tests.tools.servers.feeder import now_ms

SETTLE_SECONDS = 15.0
"""All sessions have ended by then."""
PATIENCE_SECONDS = 120.0


def judge(deployment: Deployment, folder: Path) -> list[str]:
    """Stop the traffic, wait until all is counted, and compare. Returns what was compared. Raises FaultError."""
    pipeline = deployment.pipeline
    deployment.feeder.pause()
    time.sleep(SETTLE_SECONDS)
    pipeline.write_ends(now_ms())
    records = pipeline.records()
    _wait_until_committed(pipeline, records)
    replay = _replay(deployment, records, folder)
    _compare(deployment, replay, folder)
    letters = {(headers["reason"], value) for headers, value in pipeline.letters()}
    wanted = {(letter["reason"], _value(letter)) for letter in _lines(folder / "letters.ndjson")}
    if letters != wanted:
        raise FaultError(f"{len(letters ^ wanted)} dead letters differ, such as {next(iter(letters ^ wanted))}")
    return [
        f"{len(records):,} records in the topics; {len(letters):,} dead letters, equal to those of the replay",
        "equal to the replay: the final panes of the common span, totals, counters and experiments",
    ]


def _wait_until_committed(pipeline: Pipeline, records: Sequence[Kept]) -> None:
    ends = {kept.place: kept.offset + 1 for kept in records}
    wanted, deadline = sum(ends.values()), time.monotonic() + PATIENCE_SECONDS
    while (committed := pipeline.committed()) != wanted:
        if time.monotonic() > deadline:
            raise FaultError(f"{committed:,} of {wanted:,} records are committed after {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.5)


def _replay(deployment: Deployment, records: Sequence[Kept], folder: Path) -> Path:
    """Replay every partition as a file of its own, and return the report."""
    files: dict[Path, list[bytes]] = {}
    for kept in records:
        files.setdefault(folder / f"{kept.place.topic}-{kept.place.partition}.ndjson", []).append(kept.value or b"")
    for file, lines in files.items():
        file.write_bytes(b"".join(line + b"\n" for line in lines))
    outputs: list[str | Path] = [
        "--report",
        folder / "replay.json",
        "--panes",
        folder / "panes.ndjson",
        "--dead-letters",
        folder / "letters.ndjson",
    ]
    done = called("replay", *files, "--config", deployment.exporter.config, *outputs, "--no-flush", "--quiet")
    if done.returncode != 0:
        raise FaultError(f"the replay failed: {done.stderr}")
    return folder / "replay.json"


def _compare(deployment: Deployment, replay: Path, folder: Path) -> None:
    """Compare until equal, as the exporter may have more to write. Raises FaultError with what differs."""
    exporter, pipeline = deployment.exporter, deployment.pipeline
    results, deadline = folder / "results.ndjson", time.monotonic() + PATIENCE_SECONDS
    offline = json.loads(replay.read_text())
    while True:
        values = [value for *_, value, _ in pipeline._read([pipeline.settings.kafka.results_topic]) if value is not None]
        results.write_bytes(b"".join(value + b"\n" for value in values))
        changed = [*report_differences(exporter.report(), offline), *pane_differences(results, folder / "panes.ndjson")]
        if not changed:
            return
        if time.monotonic() > deadline:
            raise FaultError("the numbers differ from a replay:\n" + "\n".join(changed))
        time.sleep(1.0)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def _value(letter: dict[str, Any]) -> bytes:
    return base64.b64decode(letter["value_base64"]) if "value_base64" in letter else letter["value"].encode()


def commits(deployment: Deployment) -> Counter[str]:
    """Return how many commits of the workers ended how, since their last start."""
    counts: Counter[str] = Counter()
    for service in deployment.services.values():
        for labels, count in service.series("streammetrics_commits_total").items():
            counts[dict(labels)["status"]] += int(count)
    return counts
