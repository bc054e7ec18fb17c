"""`replay`: a progress bar while it reads, warnings, then a table and the verdicts. Computes nothing itself."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import click
from rich.console import Console
from rich.progress import DownloadColumn, TaskProgressColumn, TimeRemainingColumn, TransferSpeedColumn

from streammetrics.cli.command import command
from streammetrics.cli.options import OutputFile, configured, load_settings, moment_ms, require_distinct
from streammetrics.cli.output.tables import VariantRow, counter_lines, main_metrics, name_lines, total_rows, values_table, window_rows
from streammetrics.cli.output.terminal import output_console, progress_bar
from streammetrics.cli.output.verdict_tables import verdict_summary
from streammetrics.cli.signals import interrupt_on_signals
from streammetrics.config import Settings
from streammetrics.connectors.file_formats.reader import STDIN
from streammetrics.connectors.files import expanded_paths
from streammetrics.metrics import TallyLayout
from streammetrics.offline.replay.files import ReplayOutputs
from streammetrics.offline.replay.files import replay as replay_events
from streammetrics.offline.replay.time_order import ORDERS, Order
from streammetrics.offline.replay.unusable_files import refusal_lines, require_usable, unusable_files
from streammetrics.reports.report import Report
from streammetrics.wiring.decoders import with_topic
from streammetrics.wiring.logs import configure_quiet_logs
from streammetrics.words.sentences import DataWarning


def replay_and_show(
    settings: Settings,
    files: Sequence[str],
    outputs: ReplayOutputs,
    *,
    flush: bool,
    quiet: bool,
    jobs: int = 1,
    order: Order = "auto",
) -> None:
    """Replay the files and print the results; with `quiet`, only warnings.

    Raises ConfigError for conflicting paths, StreammetricsError if a file has lines and none of them can be used, and as `replay`.
    """
    files = expanded_paths(files)
    output_paths = {"--panes": outputs.panes, "--report": outputs.report, "--dead-letters": outputs.dead_letters}
    require_distinct((Path(file) for file in files if file != STDIN), output_paths)
    configure_quiet_logs(settings.log.level, settings.log.format)
    console = None if quiet else output_console()
    columns = (TaskProgressColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(elapsed_when_finished=True))
    with progress_bar("replay", *columns, wanted=not quiet) as update:

        def show_progress(stage: str, done: int, total: int | None) -> None:
            update(description=stage, completed=done, total=total)

        result = replay_events(settings, files, outputs, flush=flush, jobs=jobs, order=order, progress=show_progress)
    unusable = unusable_files(result.report)
    for warning in replay_warnings(result.report, unusable):
        click.echo(f"streammetrics: warning: {warning}", err=True)
    if console is not None:
        examples = refusal_lines(result.refusals, unusable)
        show_replay(console, settings, result.report, result.engine.layout, outputs, examples, flush=flush)
    require_usable(unusable, result, settings)


def replay_warnings(report: Report, unusable: Collection[str]) -> list[DataWarning]:
    """Return the warnings of the report, without those about unusable files, which are errors."""
    counts = {(reason, topic): count for (reason, topic), count in report.counts.items() if topic not in unusable}
    return dataclasses.replace(report, counts=counts).warnings()


def show_replay(
    console: Console,
    settings: Settings,
    report: Report,
    layout: TallyLayout,
    outputs: ReplayOutputs,
    examples: Iterable[str],
    *,
    flush: bool,
) -> None:
    """Print counters, values and verdicts. `examples` are lines with refused events."""
    for line in (*counter_lines(report.counts, examples), *name_lines((*report.unknown_names, *report.ignored))):
        console.print(line, soft_wrap=True)
    spans = [span for span in _spans(settings, report, layout, flush) if span[1]]
    if spans:
        console.print(values_table(spans, main_metrics(layout.scorer.metrics)))
    else:
        console.print("no lists")
    if verdicts := list(verdict_summary(report.experiments)):
        for verdict in verdicts:
            console.print(verdict, soft_wrap=True)
        where = "report.json" if outputs.report is None else shlex.quote(str(outputs.report))
        again = "replay again with --report report.json, then " if outputs.report is None else ""
        console.print(f"intervals, users and health checks: {again}streammetrics report {where}", style="dim", soft_wrap=True)


def _spans(settings: Settings, report: Report, layout: TallyLayout, flush: bool) -> Iterator[tuple[str, Sequence[VariantRow]]]:
    """Yield the rows of the table: all final lists, then each window; live values too if they can differ."""
    yield "all final", total_rows(report, layout)
    for window in settings.windows.windows:
        yield f"last {window}", window_rows(report, window.ms, "final")
        if not flush:
            yield f"last {window}, live", window_rows(report, window.ms, "live")


@command
@configured
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--panes", type=OutputFile(), help="Write one line per pane, group and view to this file, as NDJSON.")
@click.option("--report", type=OutputFile(), help="Write the report to this file, as JSON.")
@click.option(
    "--since",
    "since_ms",
    callback=moment_ms,
    metavar="TIME",
    help="When the running step of a rollout began, such as 2026-02-01T09:00Z: the gate of the report is about it.",
)
@click.option("--dead-letters", type=OutputFile(), help="Write refused events to this file, as NDJSON.")
@click.option("--flush/--no-flush", default=True, help="At the end, make all lists final, or leave recent lists live.  [default: flush]")
@click.option("--jobs", "-j", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes that share the users.")
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="auto",
    show_default=True,
    help="log: the order of the file. time: sorted by time. auto: sorted if too many events are late in the order of the file.",
)
@click.option("--topic", metavar="TOPIC", help="The topic of all files, for readers by topic. Without, their names tell.")
@click.option("--quiet", "-q", is_flag=True, help="Print only errors and warnings.")
def replay(  # noqa: PLR0913, PLR0917 (one name for each option)
    config_path: Path | None,
    settings_given: tuple[str, ...],
    files: tuple[str, ...],
    flush: bool,
    jobs: int,
    order: str,
    topic: str | None,
    quiet: bool,
    panes: Path | None,
    report: Path | None,
    since_ms: int | None,
    dead_letters: Path | None,
) -> None:
    """Compute the same numbers as `run` from files, without Kafka, Redis or a clock.

    A FILE is a file, a folder, a pattern such as 'logs/*.gz', or - for standard input. It has lines of JSON, one JSON array, CSV, TSV
    or Parquet. All but Parquet may be compressed with gzip or zstd. The content decides, except that a file named .gz must be gzip. Parquet
    and zstd need the extra `files`. A folder such as variant=control/ is a column of the CSV and Parquet files in it.

    A file of which more than 5 % of the events are late in its order, or most of a hundredth of it, is an export without an order: it is
    sorted by time on the disk of TMPDIR and read again, and the result says so. With --order log the file is the log of a topic, and the
    numbers are those that `run` computes from it. With --order time all files are sorted at once.

    Each file is one input with its own watermark. Files are read in step by event time, so their order does not change the results. Files
    have no record timestamps, so join.future_ms refuses no event. join.support_far_ms does.

    events.reader may name a reader for each topic. A file has the longest of them that its name begins with, or --topic.

    With --jobs N, each of N processes reads all files and counts its own users. The results are the same; dead letters come in another
    order.

    \b
    Examples:
      streammetrics replay events.ndjson
      streammetrics replay impressions.ndjson feedback.ndjson --panes panes.ndjson --report report.json
      streammetrics replay 'exports/2026-01-*/*.parquet'
      kcat -C -t events -e | streammetrics replay - --set windows.segments=surface
      streammetrics replay ubi.ndjson --set events.reader=ubi --dead-letters refused.ndjson
    """
    settings = load_settings(config_path, settings_given).settings
    if topic is not None:
        settings = with_topic(settings, topic)
    outputs = ReplayOutputs(panes=panes, report=report, dead_letters=dead_letters, since_ms=since_ms)
    with interrupt_on_signals():
        replay_and_show(settings, files, outputs, flush=flush, quiet=quiet, jobs=jobs, order=cast(Order, order))
