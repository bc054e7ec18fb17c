"""The three passes over the records, and how their results are merged. Runs in Spark's driver.

1. Decode each record once, and cut each block of an input into slices: for each shard its own events (`slices`).
2. Follow the time of each input over its slices (`input_times`).
3. Bring the slices of a shard together, in the order of their times, and run the engine (`shard`).

The results of the shards are merged like those of the processes of `replay --jobs`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from itertools import groupby
from typing import Any, NamedTuple

from streammetrics.connectors.memory import MemoryStore
from streammetrics.engine.rules import EngineRules
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.offline.replay.files import ReplayRun
from streammetrics.offline.replay.history import ReplayHistory, Snapshot
from streammetrics.offline.replay.shards import merged_panes
from streammetrics.offline.spark.input_times import InputEnd, InputTimes, SliceStart
from streammetrics.offline.spark.reading import InputNames, Records
from streammetrics.offline.spark.tasks import (
    CUT,
    END,
    PANE,
    RESULT,
    SHARD_COLUMNS,
    SNAPSHOT,
    SUMMARY,
    TIMED,
    CutRecords,
    FollowTimes,
    RunShard,
    rows_of,
)
from streammetrics.reports.report import Report
from streammetrics.state.tables import TaskView
from streammetrics.windows.pane_tallies import FinalPane
from streammetrics.wiring.decoders import with_sources

SHARD_EVENTS = 1_000
SLICE_RECORDS_MAX = 64_000
"""A slice has about `SHARD_EVENTS` events for each shard. More records than this would hold back the watermark for long."""
_PLAN = "input int, block long, slice int, rank long, until_ms long, start binary"


class _Slice(NamedTuple):
    """A slice before it is planned: its place, its start, and the same pickled."""

    input: int
    block: int
    number: int
    start: SliceStart
    pickled: bytes


def replay_on_spark(run: ReplayRun, records: Records, shards: int) -> Report:
    """Run the passes and write the outputs of `run`. Raises StreammetricsError if a limit on labels was reached."""
    functions, names, settings = import_module("pyspark.sql.functions"), records.names, with_sources(run.settings)
    disk_only = import_module("pyspark").StorageLevel.DISK_ONLY
    scales = MemoryStore()
    history = run.history(scales, shards)
    size = min(SLICE_RECORDS_MAX, SHARD_EVENTS * shards)
    with ExitStack() as stack:

        def persisted(frame: Any) -> Any:
            stack.callback(frame.unpersist)
            return frame.persist(disk_only)

        cut = persisted(records.frame.mapInArrow(CutRecords(settings, names, shards, size), CUT))
        summaries = cut.where(f"shard = {SUMMARY}").select("input", "block", "slice", "payload", "times")
        in_order = summaries.repartition(max(1, len(names.inputs)), "input").sortWithinPartitions("input", "block", "slice")
        timed = persisted(in_order.mapInArrow(FollowTimes(settings, names, shards), TIMED))
        slices, ends = read_times(timed.where("shard < 0").collect(), run.engine.rules, names, shards)
        began_ms, ended_ms = look_times(ends, run.engine.rules, history is not None)
        task = RunShard(settings, names, ends, began_ms, ended_ms, run.wants_panes)
        plan = records.frame.sparkSession.createDataFrame(planned(slices), _PLAN)
        owned = cut.where("shard >= 0").selectExpr("input", "block", "slice", "shard", "true as is_own", "payload")
        movers = timed.where("shard >= 0").selectExpr("input", "block", "slice", "shard", "false as is_own", "payload")
        content = owned.unionByName(movers).join(functions.broadcast(plan), ["input", "block", "slice"]).select(*SHARD_COLUMNS)
        routed = content.repartitionById(shards, functions.col("shard")).sortWithinPartitions("shard", "rank", "is_own")
        results = persisted(routed.mapInArrow(task, RESULT))
        views = merged(results.orderBy("kind", "key", "shard").toLocalIterator(), run, history)
        if not views:
            views = merged(rows_of(task.empty()), run, history)
    return run.finish_shards(views, scales, history, {})


def read_times(
    rows: Iterable[Sequence[Any]], rules: EngineRules, names: InputNames, shards: int
) -> tuple[list[_Slice], tuple[InputEnd, ...]]:
    """Return the slices with records, and the end of each input. An input without a line has no row."""
    slices, ends = [], dict[int, InputEnd]()
    for index, block, number, kind, payload in rows:
        if kind == END:
            ends[index] = pickle.loads(payload)
        else:
            slices.append(_Slice(index, block, number, pickle.loads(payload), bytes(payload)))
    nothing = InputTimes(rules, shards, names.first_offset).end()
    return slices, tuple(ends.get(index, nothing) for index in range(len(names.inputs)))


def look_times(ends: Sequence[InputEnd], rules: EngineRules, has_history: bool) -> tuple[int | None, int]:
    """Return the watermark from which on snapshots are taken (None: never), and the one at the end, as `SnapshotHolds` does."""
    disorder_ms = rules.out_of_orderness_ms
    newest = max((end.ended_ms for end in ends), default=NEVER)
    ended_ms = newest if newest == NEVER else newest - disorder_ms
    if not has_history or not any(end.has_experiments for end in ends):
        return None, ended_ms
    return min((end.began_ms - disorder_ms for end in ends if end.began_ms != NEVER), default=ended_ms), ended_ms


def planned(slices: Iterable[_Slice]) -> list[tuple[int, int, int, int, int, bytes]]:
    """Return the slices in the order of their times. The task's watermark must not pass the next slice of another input."""
    ordered = sorted(slices, key=lambda part: (part.start.time, part.input, part.block, part.number))
    rows, other_ms, following = [], FOREVER, None
    for rank in range(len(ordered) - 1, -1, -1):
        current = ordered[rank]
        if following is not None and following.input != current.input:
            other_ms = following.start.time
        following = current
        rows.append((current.input, current.block, current.number, rank, other_ms, current.pickled))
    return rows


def merged(rows: Iterable[Sequence[Any]], run: ReplayRun, history: ReplayHistory | None) -> list[TaskView]:
    """Take the snapshots, write the panes and return the last states. `rows` are sorted by kind, key and shard."""
    views: list[TaskView] = []
    for (kind, key), parts in groupby(rows, key=lambda row: (row[0], row[1])):
        values: Iterator[Any] = (pickle.loads(payload) for _, _, _, payload in parts)
        if kind == SNAPSHOT:
            assert history is not None
            taken: list[Snapshot] = list(values)
            history.add(taken)
        elif kind == PANE:
            run.write_panes(merged_panes([[FinalPane(key, pane)] for pane in values]), final=True)
        else:
            views += values
    return views
