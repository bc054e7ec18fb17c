"""`report`: shows the experiments of a report file, of an exporter, or of the state in Redis, as text or JSON. Changes no state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import click

from streammetrics.cli.command import command
from streammetrics.cli.exporter_client import ExporterClient
from streammetrics.cli.options import OutputFile, ReportFile, configured, load_settings
from streammetrics.cli.output.report_reader import REPORT_ADVICE, ExperimentResults, read_report, saved_report
from streammetrics.cli.output.standard_output import print_json
from streammetrics.cli.output.terminal import output_console, print_lines
from streammetrics.cli.output.verdict_tables import verdict_lines
from streammetrics.cli.signals import interrupt_on_signals
from streammetrics.config import Settings
from streammetrics.connectors.atomic_file import AtomicFile
from streammetrics.connectors.file_formats.reader import standard_input
from streammetrics.errors import ConfigError, Problem, StoreError, StreammetricsError
from streammetrics.events.json_text import JsonError, decode_json
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.published import plain, published
from streammetrics.reports.report import Report
from streammetrics.reports.result_records import pane_lines
from streammetrics.wiring.logs import configure_quiet_logs
from streammetrics.words.names import fit

STDIN = Path("-")


def show_report(
    settings: Settings,
    file: Path | None,
    *,
    form: Literal["text", "json"],
    panes: Path | None,
    names: Sequence[str],
    all_measures: bool,
) -> None:
    """Read the report and show it. Raises ConfigError for files that cannot be read or written, StoreError and StateError."""
    if panes is not None and (file is not None or settings.client.url):
        raise ConfigError([Problem("--panes", str(panes), "must not be given with FILE or client.url: panes are in Redis only")])
    configure_quiet_logs(settings.log.level, settings.log.format)
    report, where = read_plain(settings, file, panes)
    results = read_report(report, where).only(names)
    if form == "json":
        print_json(plain(saved_report(results)))
    else:
        is_of_exporter = file is None and bool(settings.client.url)
        age = ExporterClient(settings.client).age_line(results.at_ms, time.time_ns() // 1_000_000) if is_of_exporter else ""
        _print(results, all_measures, age)


def read_plain(settings: Settings, file: Path | None, panes: Path | None = None, since_ms: int | None = None) -> tuple[object, str]:
    """Return a report as plain values, and the name of its place: a file, the exporter at `client.url`, or the state in Redis.

    panes: write the final panes of the state in Redis to this file. since_ms: judge its experiments for a step that began then.

    Raises ConfigError for a file that cannot be read, StreammetricsError for one that is no report, HttpError, StoreError and StateError.
    """
    if file is not None:
        where = "standard input" if file == STDIN else file.name
        return _read(file, where), where
    if settings.client.url:
        client = ExporterClient(settings.client)
        return client.report(), client.url
    try:
        return live_report(settings, panes, since_ms), f"redis.namespace {settings.redis.namespace!r}"
    except StoreError as error:
        raise StoreError(str(error), "or name a report FILE, or an exporter by client.url") from error


def live_report(settings: Settings, panes: Path | None = None, since_ms: int | None = None) -> dict[str, Any]:
    """Return the report of the committed state, with its history, as `/api/report` serves it. `panes`: write its final panes there.

    since_ms: judge the experiments for a step of a rollout that began then.
    """
    from streammetrics.connectors.redis.shared_values import RedisBlobStore  # noqa: PLC0415  files need no Redis client
    from streammetrics.connectors.redis.store import RedisStore  # noqa: PLC0415
    from streammetrics.runtime.publish.history_keeper import HISTORY_KEY, decode_history  # noqa: PLC0415
    from streammetrics.runtime.publish.publisher import read_committed  # noqa: PLC0415
    from streammetrics.wiring.engine import build_engine  # noqa: PLC0415
    from streammetrics.wiring.reports import build_report_builder  # noqa: PLC0415

    engine = build_engine(settings, settings.kafka.topics)
    builder = build_report_builder(settings, engine)
    store, history_blob = RedisStore(settings.redis), RedisBlobStore(settings.redis, HISTORY_KEY)
    try:
        tasks = store.partitions()
        if tasks is None:
            raise StreammetricsError(
                f"redis.namespace {settings.redis.namespace!r} has no state; check redis.url and redis.namespace, or start a worker"
            )
        read_committed(store, builder, tasks)
        report = builder.report(tasks)
        if since_ms is not None:
            report = report.at_step(since_ms)
        if panes is not None:
            write_stored_panes(panes, builder, report)
        content: dict[str, Any] = plain(published(report, engine.layout, decode_history(history_blob.read())))
        return content
    finally:
        history_blob.close()
        store.close()


def _read(file: Path, where: str) -> object:
    try:
        content = standard_input().read() if file == STDIN else file.read_bytes()
    except OSError as error:
        raise ConfigError([Problem("FILE", str(file), f"cannot be read: {error.strerror or error}")]) from error
    try:
        return decode_json(content, object)
    except JsonError as error:
        raise StreammetricsError(f"{where} is not a report: it is not JSON ({error}); {REPORT_ADVICE}") from error


def _print(results: ExperimentResults, all_measures: bool, age: str) -> None:
    console = output_console()
    if age:
        console.print(fit(age), markup=False, highlight=False, soft_wrap=True)
    for warning in results.warnings:
        console.print(f"warning: {fit(warning)}", markup=False, highlight=False, soft_wrap=True)
    print_lines(console, verdict_lines(results, all_measures))


def write_stored_panes(path: Path, builder: ReportBuilder, report: Report) -> None:
    """Write all final panes that every task still has, as NDJSON."""
    pane_ms, layout = builder.rules.pane_ms, builder.layout
    with AtomicFile("--panes", path) as file:
        for start_ms, pane in builder.final_panes(report, 0):
            file.writelines(pane_lines(start_ms, pane, final=True, live=False, pane_ms=pane_ms, layout=layout))


@command
@configured
@click.argument("file", required=False, type=ReportFile(), metavar="[FILE]")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format.")
@click.option("--url", help="Read the report of this exporter, such as https://exporter:9464. Sets client.url.")
@click.option("--panes", type=OutputFile(), help="Also write the final panes in Redis, as NDJSON.")
@click.option("--experiment", "names", multiple=True, metavar="NAME", help="Show only this experiment. May be repeated.")
@click.option("--all", "all_measures", is_flag=True, help="Show all measures, not only the main ones.")
def report(
    config_path: Path | None,
    settings_given: tuple[str, ...],
    *,
    file: Path | None,
    url: str | None,
    form: Literal["text", "json"],
    panes: Path | None,
    names: tuple[str, ...],
    all_measures: bool,
) -> None:
    """Show the results of experiments.

    The output has the verdict and its reason, users, means, lifts with intervals, and health checks of each experiment.

    FILE is a report from `replay --report` or from /api/report; - is standard input. Without FILE, the command asks the exporter at --url,
    or reads the state in Redis and does not change it.

    \b
    Examples:
      streammetrics report --config streammetrics.toml
      streammetrics report --set redis.url=redis://cache:6379/0 --experiment ranker-v7
      streammetrics replay events.ndjson --report report.json && streammetrics report report.json --all
      curl -s http://127.0.0.1:9464/api/report | streammetrics report - --format json
    """
    loaded = load_settings(config_path, settings_given, client__url=url)
    with interrupt_on_signals():
        show_report(loaded.settings, file, form=form, panes=panes, names=names, all_measures=all_measures)
