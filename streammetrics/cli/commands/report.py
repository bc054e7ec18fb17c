"""The options of `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import configured, load_settings
from streammetrics.cli.option_types import OutputFile, ReportFile


@command
@configured
@click.argument("file", required=False, type=ReportFile(), metavar="[FILE]")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format.")
@click.option("--url", help="Read the report of this exporter, such as https://exporter:9464. Sets client.url.")
@click.option("--html", type=OutputFile(is_page=True), help="Also write a self-contained HTML page with the intervals over time.")
@click.option("--panes", type=OutputFile(), help="Also write the final panes in Redis: NDJSON, or Parquet if it is named .parquet.")
@click.option("--experiment", "names", multiple=True, metavar="NAME", help="Show only this experiment. May be repeated.")
@click.option("--all", "all_measures", is_flag=True, help="Show all measures, not only the main ones.")
def report(
    config_path: Path | None,
    settings_given: tuple[str, ...],
    *,
    file: Path | None,
    url: str | None,
    form: Literal["text", "json"],
    html: Path | None,
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
      streammetrics report --set redis.url=redis://cache:6379/0 --experiment ranker-v7 --html ranker-v7.html
      streammetrics replay events.ndjson --report report.json && streammetrics report report.json --all
      curl -s http://127.0.0.1:9464/api/report | streammetrics report - --format json
    """
    from streammetrics.cli.process.signals import interrupt_on_signals  # noqa: PLC0415
    from streammetrics.cli.report import show_report  # noqa: PLC0415

    loaded = load_settings(config_path, settings_given, client__url=url)
    with interrupt_on_signals():
        show_report(loaded.settings, file, form=form, html=html, panes=panes, names=names, all_measures=all_measures)
