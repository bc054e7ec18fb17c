"""The passes of a replay on Spark, run here one after the other: what Spark moves and sorts is moved and sorted in lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from streammetrics.config import Settings
from streammetrics.connectors.memory import MemoryStore
from streammetrics.offline.replay.files import ReplayOutputs, ReplayRun
from streammetrics.offline.spark.passes import look_times, merged, planned, read_times
from streammetrics.offline.spark.reading import InputNames
from streammetrics.offline.spark.tasks import CutRecords, FollowTimes, RunShard, batch_of, rows_of

BATCH_ROWS = 40


def passed(settings: Settings, files: Sequence[Path], folder: Path, *, shards: int, size: int, blocks: int) -> tuple[dict[str, Any], bytes]:
    """Replay files of lines in so many blocks each, with slices of `size` records. Returns the report and the panes."""
    names = InputNames.of_files("lines", map(str, files))
    cut = CutRecords(settings, names, shards, size)
    rows = [
        row
        for file in files
        for block in blocks_of(file, blocks)
        for row in rows_of(cut(batches("file string, block long, value binary", block)))
    ]
    summaries = sorted((row[0], row[1], row[2], *row[4:]) for row in rows if row[3] < 0)
    timed = [
        *rows_of(FollowTimes(settings, names, shards)(batches("input int, block long, slice int, payload binary, times binary", summaries)))
    ]
    report, panes = folder / "report", folder / "panes"
    with ExitStack() as stack:
        run = ReplayRun(settings, names.inputs, ReplayOutputs(report=report, panes=panes), stack)
        scales = MemoryStore()
        history = run.history(scales, shards)
        slices, ends = read_times([row for row in timed if row[3] < 0], run.engine.rules, names, shards)
        began_ms, ended_ms = look_times(ends, run.engine.rules, history is not None)
        plan = {row[:3]: row[3:] for row in planned(slices)}
        routed = [(*row[:4], True, row[4]) for row in rows if row[3] >= 0] + [(*row[:4], False, row[4]) for row in timed if row[3] >= 0]
        task, results = RunShard(settings, names, ends, began_ms, ended_ms, True), list[tuple[Any, ...]]()
        for shard in range(shards):
            rows_of_pass = [
                (row[3], plan[row[:3]][0], row[4], row[0], plan[row[:3]][2], plan[row[:3]][1], row[5]) for row in routed if row[3] == shard
            ]
            columns = "shard int, rank long, is_own boolean, input int, start binary, until_ms long, payload binary"
            results += rows_of(task(batches(columns, sorted(rows_of_pass, key=lambda row: row[:3]))))
        views = merged(sorted(results, key=lambda row: (row[0], row[1], row[2])), run, history) or merged(
            rows_of(task.empty()), run, history
        )
        run.finish_shards(views, scales, history, {})
    return json.loads(report.read_bytes()), panes.read_bytes()


def blocks_of(file: Path, blocks: int) -> list[list[tuple[str, int, bytes]]]:
    """Return the lines of a file in blocks, as Spark reads them: the last one may be empty."""
    lines = file.read_bytes().split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    width = max(1, -(-len(lines) // blocks))
    return [[(f"file://{file}", start, line) for line in lines[start : start + width]] for start in range(0, len(lines), width)]


def batches(schema: str, rows: Sequence[Sequence[Any]]) -> list[Any]:
    return [batch_of(schema, rows[start : start + BATCH_ROWS]) for start in range(0, len(rows), BATCH_ROWS)]
