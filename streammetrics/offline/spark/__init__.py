"""Replays long histories on Apache Spark, with the numbers of `streammetrics replay`. Needs the extra `spark`.

`README.md` of this folder says what a cluster needs and what it costs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from streammetrics.config import Settings
from streammetrics.errors import CallerError
from streammetrics.offline.notebook.replayed import ReplayTables, SettingsLike, settings_of
from streammetrics.offline.replay.files import ReplayOutputs, ReplayRun
from streammetrics.offline.replay.time_order import OutOfOrderError
from streammetrics.offline.spark.passes import replay_on_spark
from streammetrics.offline.spark.reading import Format, read_files, read_frame
from streammetrics.offline.spark.session import configured, require_spark, spark_errors, spark_session, without_pandas_warning
from streammetrics.reports.report import Report
from streammetrics.reports.result_records import PaneRow
from streammetrics.wiring.logs import quiet_logs

__all__ = ["ReplayTables", "SparkOptions", "replay"]

SHARDS_MAX = 4_096


SparkOrder: TypeAlias = Literal["auto", "log"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """How Spark is used. `shards` share the users; None: one for each core. `form` is that of files. `master` is for a new session.

    order: "log" takes the events of a file in its order; "auto" does too, and fails if too many of them are late then.
    """

    shards: int | None = None
    form: Format = "auto"
    master: str | None = None
    order: SparkOrder = "auto"


Source = Any
"""A path, several paths, or a frame of Spark."""


def replay(
    source: Source,
    settings: SettingsLike = None,
    *,
    shards: int | None = None,
    form: Format = "auto",
    order: SparkOrder = "auto",
    spark: Any = None,
) -> ReplayTables:
    """Replay history on Spark, and return all results as tables. The numbers are those of `streammetrics.replay` on the same inputs.

    source: a path or several, of files or folders that Spark can read, with lines of JSON or Parquet; or a frame of Spark with the columns
        `value` and `offset`, and perhaps `topic`, `partition` and `timestamp`, as `spark.read.format("kafka")` has them.
    settings: as for `streammetrics.replay`: None, a path of a TOML file, a mapping of dotted keys, or Settings.
    shards: into how many shards the users are split; None: one for each core. The numbers do not depend on it.
    form: "ndjson" or "parquet"; "auto" decides by the names of files.
    order: "log" takes the events of a file in its order, as `run` reads a topic. "auto" does too, and raises an error if too many of them
        are late then. Spark does not sort. A frame has the order of its offsets.
    spark: the session; None: that of the frame, the active one, or a new one on this machine.

    Raises ConfigError for settings, paths and a missing Spark or Java, CallerError for a wrong frame or number of shards, and
    StreammetricsError if Spark fails.
    """
    require_spark()
    chosen = settings_of(settings)
    with quiet_logs(chosen.log.level, chosen.log.format), tempfile.TemporaryDirectory() as folder:
        report_path, panes = Path(folder) / "report.json", list[PaneRow]()
        outputs = ReplayOutputs(report=report_path, pane_rows=panes)
        run_on_spark(source, chosen, outputs, SparkOptions(shards=shards, form=form, order=order), spark)
        return ReplayTables.of(msgspec.json.decode(report_path.read_bytes()), panes)


def run_on_spark(
    source: Source, settings: Settings, outputs: ReplayOutputs, options: SparkOptions, spark: Any = None
) -> tuple[Report, ReplayRun]:
    """Replay history on Spark, and write the outputs. Raises as `replay`."""
    paths = _paths(source)
    with ExitStack() as stack:
        stack.enter_context(without_pandas_warning())
        session = spark or (spark_session(options.master) if paths is not None else source.sparkSession)
        shards = options.shards or max(1, session.sparkContext.defaultParallelism)
        if not 1 <= shards <= SHARDS_MAX:
            raise CallerError("shards", f"got {shards}; allowed are whole numbers from 1 to {SHARDS_MAX}")
        stack.enter_context(configured(session))
        stack.enter_context(spark_errors())
        records = read_frame(source) if paths is None else read_files(session, paths, options.form)
        run = ReplayRun(settings, records.names.inputs, outputs, stack, order="log" if paths is None else options.order)
        try:
            return replay_on_spark(run, records, shards), run
        except OutOfOrderError as error:
            raise OutOfOrderError(error.inputs, "sort each file by time before, or use `streammetrics replay`, which does") from None


def _paths(source: Source) -> list[str] | None:
    """Return the paths of a source; None if it is a frame."""
    if isinstance(source, str | os.PathLike):
        return [os.fspath(source)]
    if hasattr(source, "mapInArrow"):
        return None
    if isinstance(source, Iterable):
        return [os.fspath(path) for path in source]
    raise CallerError("source", f"got {type(source).__name__}; allowed are paths and frames of Spark")
