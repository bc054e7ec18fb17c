"""The options of `dashboards`."""

from __future__ import annotations

from pathlib import Path

from streammetrics.cli.command import command
from streammetrics.cli.common_options import into_folder, selecting


@command
@into_folder
@selecting
def dashboards(out: Path | None, force: bool, prefix: str, filters: tuple[str, ...]) -> None:
    """Write the Grafana dashboards as JSON, for import or provisioning.

    The files are experiment.json, ranking.json and pipeline.json, for Grafana 10.4 or newer.

    \b
    Examples:
      streammetrics dashboards --out /var/lib/grafana/dashboards
      streammetrics dashboards --out dashboards --filter env=prod
      streammetrics dashboards --out dashboards --prefix shop_
    """
    from streammetrics.cli.commands.rules import write_dashboards  # noqa: PLC0415

    write_dashboards(out, filters, prefix=prefix, force=force)
