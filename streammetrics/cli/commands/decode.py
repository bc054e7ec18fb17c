"""The options of `decode`."""

from __future__ import annotations

from pathlib import Path

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import configured, load_settings


@command
@configured
@click.argument("source")
@click.option(
    "--limit", "-n", type=click.IntRange(1, 1_000), show_default="20, or 1000 with --suggest", help="Records to show, or to suggest from."
)
@click.option("--suggest", is_flag=True, help="Propose settings or mappings for these records, as TOML, and try them on the records.")
def decode(config_path: Path | None, settings_given: tuple[str, ...], source: str, limit: int | None, suggest: bool) -> None:
    """Show what sample records become: lists, feedback, ignored, or refused and why.

    SOURCE is a file as for `replay`, or a topic in kafka.topics. Of a topic, recent records are read. Nothing is stored or committed. The
    exit code is 1 if no record is a list or feedback. With --suggest it is 1 if only a skeleton of a mapping can be proposed.

    \b
    Examples:
      streammetrics decode events.ndjson --set events.format=segment
      streammetrics decode shop --config streammetrics.toml --limit 100
      streammetrics decode events.ndjson --suggest
    """
    from streammetrics.cli.decode import decode_samples, suggest_settings  # noqa: PLC0415

    settings = load_settings(config_path, settings_given).settings
    is_done = suggest_settings(settings, source, limit or 1_000) if suggest else decode_samples(settings, source, limit or 20)
    if not is_done:
        raise SystemExit(1)
