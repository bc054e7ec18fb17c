"""The options of `schema`."""

from __future__ import annotations

from pathlib import Path

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import configured, load_settings


@command
@configured
def schema(config_path: Path | None, settings_given: tuple[str, ...]) -> None:
    """Print the JSON Schema of native events, with the limits of the configuration.

    Producers can check their events with it before they send them. It is draft 2020-12. Its description names the few rules that a JSON
    Schema cannot express.

    \b
    Examples:
      streammetrics schema > events.schema.json
      streammetrics schema --config streammetrics.toml
    """
    import json  # noqa: PLC0415

    from streammetrics.cli.output.standard_output import standard_output  # noqa: PLC0415
    from streammetrics.events.advice.schema import native_schema  # noqa: PLC0415

    limits = load_settings(config_path, settings_given).settings.event_limits
    click.echo(json.dumps(native_schema(limits), indent=2), file=standard_output())
