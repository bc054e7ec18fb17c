"""Copies the dashboards that Grafana loads."""

from __future__ import annotations

from pathlib import Path

from streammetrics.cli.command import command
from streammetrics.cli.commands.rules import write_files
from streammetrics.cli.options import into_folder
from streammetrics.exporters.package_files import package_file


@command
@into_folder
def dashboards(out: Path, *, force: bool) -> None:
    """Write the Grafana dashboards as JSON, for import or provisioning.

    The files are experiment.json, ranking.json and pipeline.json, for Grafana 10.4 or newer.

    \b
    Examples:
      streammetrics dashboards --out /var/lib/grafana/dashboards
    """
    files = (file for file in package_file("grafana").iterdir() if file.name.endswith(".json"))
    write_files(out, {file.name: file.read_text(encoding="utf-8") for file in files}, replace=force)
