"""The options of `replay`."""

from __future__ import annotations

from pathlib import Path

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import configured, load_settings
from streammetrics.cli.option_types import OutputFile


@command
@configured
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--panes",
    type=OutputFile(),
    help="Write one NDJSON line per pane, group and view to this file; if it is named .parquet, one row per metric.",
)
@click.option("--report", type=OutputFile(), help="Write the report to this file, as JSON.")
@click.option("--dead-letters", type=OutputFile(), help="Write refused events to this file, as NDJSON.")
@click.option("--flush/--no-flush", default=True, help="At the end, make all lists final, or leave recent lists live.  [default: flush]")
@click.option(
    "--find-stages",
    is_flag=True,
    help="If the shares of the arms changed, count again with the stages, start and end that fit. Reads the files twice.",
)
@click.option("--jobs", "-j", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes that share the users.")
@click.option("--topic", metavar="TOPIC", help="The topic of all files, for mappings and [events.topics]. Without, their names tell.")
@click.option("--quiet", "-q", is_flag=True, help="Print only errors and warnings.")
def replay(  # noqa: PLR0913, PLR0917 (one name for each option)
    config_path: Path | None,
    settings_given: tuple[str, ...],
    files: tuple[str, ...],
    flush: bool,
    find_stages: bool,
    jobs: int,
    topic: str | None,
    quiet: bool,
    panes: Path | None,
    report: Path | None,
    dead_letters: Path | None,
) -> None:
    """Compute the same numbers as `run` from files, without Kafka, Redis or a clock.

    A FILE is a file, a folder, a pattern such as 'logs/*.gz', or - for standard input. It has lines of JSON, one JSON array, CSV, TSV,
    Parquet or Avro. It may be compressed with gzip, bz2, xz, zstd or zip, and it may be UTF-16. The content decides, except that a file
    named .gz must be gzip. Parquet, Avro and zstd need the extra `files`.

    Each file is one input with its own watermark. Files are read in step by event time, so their order does not change the results. Files
    have no record timestamps, so join.future_ms refuses no event. join.support_far_ms does.

    Mappings may name topics. A file has the longest of them that its name begins with, or --topic.

    With --jobs N, each of N processes reads all files and counts its own users. The results are the same; dead letters come in another
    order.

    With --find-stages, an experiment whose arms' shares changed is counted with the settings that its report proposes. The result
    says which. Copy them to the configuration if the rollout was intended.

    \b
    Examples:
      streammetrics replay events.ndjson
      streammetrics replay impressions.ndjson feedback.ndjson --panes panes.ndjson --report report.json
      streammetrics replay 'exports/2026-01-*/*.parquet'
      kcat -C -t events -e | streammetrics replay - --set windows.segments=surface
      streammetrics replay ubi.ndjson --set events.format=ubi --dead-letters refused.ndjson
    """
    from streammetrics.cli.process.signals import interrupt_on_signals  # noqa: PLC0415
    from streammetrics.cli.replay_files import replay_and_show  # noqa: PLC0415
    from streammetrics.connectors.file_paths import expanded_paths  # noqa: PLC0415
    from streammetrics.offline.replay.files import ReplayOutputs  # noqa: PLC0415
    from streammetrics.wiring.file_topics import with_topic  # noqa: PLC0415

    settings = load_settings(config_path, settings_given).settings
    if topic is not None:
        settings = with_topic(settings, expanded_paths(files), topic)
    outputs = ReplayOutputs(panes=panes, report=report, dead_letters=dead_letters)
    with interrupt_on_signals():
        replay_and_show(settings, files, outputs, flush=flush, quiet=quiet, jobs=jobs, find_stages=find_stages)
