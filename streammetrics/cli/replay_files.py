"""`replay`: a progress bar while it reads, warnings, then a table and the verdicts. Computes nothing itself."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import DownloadColumn, TaskProgressColumn, TimeRemainingColumn, TransferSpeedColumn

from streammetrics.cli.output.output_paths import require_distinct
from streammetrics.cli.output.position_bias_lines import position_bias_lines
from streammetrics.cli.output.progress import progress_bar
from streammetrics.cli.output.tables import VariantRow, counter_lines, main_metrics, name_lines, total_rows, values_table, window_rows
from streammetrics.cli.output.terminal import output_console
from streammetrics.cli.output.verdict_tables import verdict_summary
from streammetrics.config import Settings
from streammetrics.connectors.file_formats.reader import STDIN
from streammetrics.connectors.file_paths import expanded_paths
from streammetrics.errors import ConfigError, Problem
from streammetrics.metrics import TallyLayout
from streammetrics.offline.replay.files import ReplayOutputs, replay
from streammetrics.offline.replay.proposed_stages import proposal_lines, proposals_of, with_proposals
from streammetrics.offline.replay.unusable_files import refusal_lines, require_usable, unusable_files
from streammetrics.reports.report import Report
from streammetrics.wiring.logs import configure_quiet_logs


def replay_and_show(
    settings: Settings,
    files: Sequence[str],
    outputs: ReplayOutputs,
    *,
    flush: bool,
    quiet: bool,
    jobs: int = 1,
    find_stages: bool = False,
) -> None:
    """Replay the files and print the results; with `quiet`, only warnings.

    find_stages: replay them again with the stages, starts and ends that the first report proposes, if it proposes any.
    Raises ConfigError for conflicting paths, StreammetricsError if a file has lines and none of them can be used, and as `replay`.
    """
    files = expanded_paths(files)
    if find_stages and STDIN in files:
        raise ConfigError([Problem("--find-stages", STDIN, "files: they are read twice. Save the standard input to a file first")])
    output_paths = {"--panes": outputs.panes, "--report": outputs.report, "--dead-letters": outputs.dead_letters}
    require_distinct((Path(file) for file in files if file != STDIN), output_paths)
    configure_quiet_logs(settings.log.level, settings.log.format)
    console = None if quiet else output_console()
    columns = (TaskProgressColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(elapsed_when_finished=True))
    with progress_bar("replay", *columns, wanted=not quiet) as update:

        def show_progress(done: int, total: int | None) -> None:
            update(completed=done, total=total)

        result = replay(settings, files, outputs, flush=flush, jobs=jobs, progress=show_progress)
        proposals = proposals_of(result.report) if find_stages else {}
        if proposals:
            settings = with_proposals(settings, proposals)
            result = replay(settings, files, outputs, flush=flush, jobs=jobs, progress=show_progress)
    for line in proposal_lines(proposals) if find_stages and not quiet else ():
        click.echo(line, err=True)
    unusable = unusable_files(result.report)
    for warning in replay_warnings(result.report, unusable):
        click.echo(f"streammetrics: warning: {warning}", err=True)
    if console is not None:
        examples = refusal_lines(result.refusals, unusable)
        show_replay(console, settings, result.report, result.engine.layout, outputs, examples, flush=flush)
    require_usable(unusable, result, settings)


def replay_warnings(report: Report, unusable: Collection[str]) -> list[str]:
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
    for line in (*counter_lines(report.counts, examples), *name_lines(report.unknown_names)):
        console.print(line, soft_wrap=True)
    spans = [span for span in _spans(settings, report, layout, flush) if span[1]]
    if spans:
        console.print(values_table(spans, main_metrics(layout.scorer.metrics)))
    else:
        console.print("no lists")
    for line in position_bias_lines(report.position_bias):
        console.print(line, soft_wrap=True)
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
