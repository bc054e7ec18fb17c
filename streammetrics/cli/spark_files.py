"""The command `spark`: checks, the replay, and what `replay` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import click

from streammetrics.cli.output.output_paths import require_distinct
from streammetrics.cli.output.terminal import output_console
from streammetrics.cli.replay_files import replay_warnings, show_replay
from streammetrics.config import Settings
from streammetrics.errors import StreammetricsError
from streammetrics.offline.replay.files import ReplayOutputs
from streammetrics.offline.replay.unusable_files import unusable_files
from streammetrics.offline.spark import SparkOptions, run_on_spark
from streammetrics.offline.spark.reading import Format
from streammetrics.reports.report import Report
from streammetrics.wiring.logs import configure_quiet_logs


def replay_and_show(
    settings: Settings, paths: Sequence[str], outputs: ReplayOutputs, form: str, shards: int | None, master: str | None, *, quiet: bool
) -> None:
    """Replay the paths on Spark and print the results; with `quiet`, only warnings.

    Raises StreammetricsError if there are records and none of them is an event, and as `replay` of this package.
    """
    require_distinct((), {"--panes": outputs.panes, "--report": outputs.report})
    configure_quiet_logs(settings.log.level, settings.log.format)
    options = SparkOptions(shards=shards, form=cast(Format, form), master=master)
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
        f"no record of {path} is an event; most are refused as {most!r}. Check the files, --format and events.format; "
        "`streammetrics replay --dead-letters FILE` on a part of them writes the reason for each record"
    )
