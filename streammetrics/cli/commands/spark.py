"""The command `spark`: checks, the replay, and what `replay` prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import click

from streammetrics.cli.command import command
from streammetrics.cli.commands.replay import replay_warnings, show_replay
from streammetrics.cli.options import OutputFile, configured, load_settings, require_distinct
from streammetrics.cli.output.terminal import output_console
from streammetrics.cli.signals import interrupt_on_signals
from streammetrics.config import Settings
from streammetrics.errors import StreammetricsError
from streammetrics.offline.replay.files import ReplayOutputs
from streammetrics.offline.replay.unusable_files import unusable_files
from streammetrics.offline.spark import SparkOptions, SparkOrder, run_on_spark
from streammetrics.offline.spark.reading import Format
from streammetrics.reports.report import Report
from streammetrics.wiring.logs import configure_quiet_logs


def replay_and_show(settings: Settings, paths: Sequence[str], outputs: ReplayOutputs, options: SparkOptions, *, quiet: bool) -> None:
    """Replay the paths on Spark and print the results; with `quiet`, only warnings.

    Raises StreammetricsError if there are records and none of them is an event, and as `replay` of this package.
    """
    require_distinct((), {"--panes": outputs.panes, "--report": outputs.report})
    configure_quiet_logs(settings.log.level, settings.log.format)
    report, run = run_on_spark([*paths], settings, outputs, options)
    unusable = unusable_files(report)
    for warning in replay_warnings(report, unusable):
        click.echo(f"streammetrics: warning: {warning}", err=True)
    if not quiet:
        show_replay(output_console(), settings, report, run.engine.layout, outputs, (), flush=True)
    if unusable:
        raise StreammetricsError("\n  ".join(_unusable(path, report) for path in unusable))


def _unusable(path: str, report: Report) -> str:
    reasons = {reason: count for (reason, topic), count in report.counts.items() if topic == path and reason != "events"}
    most = max(reasons, key=lambda reason: reasons[reason], default="")
    return (
        f"no record of {path} is an event; most are refused as {most!r}. Check the files, --format and events.reader; "
        "`streammetrics replay --dead-letters FILE` on a part of them writes the reason for each record"
    )


@command
@configured
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format", "form", type=click.Choice(["auto", "ndjson", "parquet"]), default="auto", show_default=True, help="Form of the files."
)
@click.option(
    "--order",
    type=click.Choice(["auto", "log"]),
    default="auto",
    show_default=True,
    help="log: count the events in the order of the files. auto: fail if too many are late in it; Spark does not sort.",
)
@click.option("--shards", type=click.IntRange(1, 4_096), help="Into how many shards the users are split.  [default: one for each core]")
@click.option("--master", help="Spark's master, unless spark-submit has set one.  [default: $MASTER or local[*]]")
@click.option("--panes", type=OutputFile(), help="Write one line per pane and group to this file, as NDJSON.")
@click.option("--report", type=OutputFile(), help="Write the report to this file, as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Print only errors and warnings.")
def spark(  # noqa: PLR0913, PLR0917 (one name for each option)
    config_path: Path | None,
    settings_given: tuple[str, ...],
    paths: tuple[str, ...],
    form: str,
    order: str,
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
    loaded = load_settings(config_path, settings_given)
    options = SparkOptions(shards=shards, form=cast(Format, form), master=master, order=cast(SparkOrder, order))
    with interrupt_on_signals():
        replay_and_show(loaded.settings, paths, ReplayOutputs(panes=panes, report=report), options, quiet=quiet)
