"""The options of `spark`."""

from __future__ import annotations

from pathlib import Path

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import configured, load_settings
from streammetrics.cli.option_types import OutputFile


@command
@configured
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format", "form", type=click.Choice(["auto", "ndjson", "parquet"]), default="auto", show_default=True, help="Form of the files."
)
@click.option("--shards", type=click.IntRange(1, 4_096), help="Into how many shards the users are split.  [default: one for each core]")
@click.option("--master", help="Spark's master, unless spark-submit has set one.  [default: $MASTER or local[*]]")
@click.option(
    "--panes",
    type=OutputFile(),
    help="Write one NDJSON line per pane and group to this file; if it is named .parquet, one row per metric.",
)
@click.option("--report", type=OutputFile(), help="Write the report to this file, as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Print only errors and warnings.")
def spark(  # noqa: PLR0917 (one name for each option)
    config_path: Path | None,
    settings_given: tuple[str, ...],
    paths: tuple[str, ...],
    form: str,
    shards: int | None,
    master: str | None,
    quiet: bool,
    panes: Path | None,
    report: Path | None,
) -> None:
    """Replay long history on Apache Spark: the same numbers as `replay`, on many machines.

    A PATH is a file, a folder or a pattern that Spark can read, here or in a cluster's storage: lines of JSON, perhaps compressed, or
    Parquet whose columns are the fields of an event. Each file is one input with its own watermark, as in `replay`. All lists become final.

    Needs the extra `spark` and Java 17 or newer. spark-submit takes the file streammetrics/__main__.py, followed by this command. The
    Python of the workers needs streammetrics, too.

    \b
    Examples:
      streammetrics spark events.ndjson --report report.json
      streammetrics spark 's3a://history/2026-01-*/' --format parquet --master spark://head:7077 --shards 64
      spark-submit --master yarn .../streammetrics/__main__.py spark hdfs:///history --shards 64 --report report.json
    """
    from streammetrics.cli.process.signals import interrupt_on_signals  # noqa: PLC0415
    from streammetrics.cli.spark_files import replay_and_show  # noqa: PLC0415
    from streammetrics.offline.replay.files import ReplayOutputs  # noqa: PLC0415

    loaded = load_settings(config_path, settings_given)
    with interrupt_on_signals():
        replay_and_show(loaded.settings, paths, ReplayOutputs(panes=panes, report=report), form, shards, master, quiet=quiet)
