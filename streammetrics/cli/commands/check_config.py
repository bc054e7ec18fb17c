"""The options of `check-config`."""

from __future__ import annotations

from pathlib import Path

import click

from streammetrics.cli.command import command
from streammetrics.cli.options import configured, load_settings


@command
@configured
def check_config(config_path: Path | None, settings_given: tuple[str, ...]) -> None:
    """Check the configuration and print every setting with its origin. Secrets are masked.

    Reports all errors together, with exit code 2. Readers are loaded. Warns if the settings make more series than
    exporter.series_max allows.

    \b
    Examples:
      streammetrics check-config --config streammetrics.toml
      STREAMMETRICS_JOIN_GAP_MS=-1 streammetrics check-config
    """
    from streammetrics.cli.output.standard_output import standard_output  # noqa: PLC0415
    from streammetrics.config import render_effective  # noqa: PLC0415
    from streammetrics.wiring.decoders import build_decoder, unread_topics  # noqa: PLC0415

    loaded = load_settings(config_path, settings_given)
    for topic in loaded.settings.kafka.topics:
        build_decoder(loaded.settings, topic)
    for warning in unread_topics(loaded.settings):
        click.echo(f"streammetrics: warning: {warning}", err=True)
    click.echo(render_effective(loaded), file=standard_output(), nl=False)
