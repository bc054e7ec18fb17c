"""The options of `config`."""

from __future__ import annotations

import click

from streammetrics.cli.command import command


@command
@click.option("--minimal", "kind", flag_value="minimal", help="The few lines that are needed.")
@click.option("--reference", "kind", flag_value="reference", help="Every setting with its description, allowed values and default.")
def config(kind: str | None) -> None:
    """Print a configuration file to start from.

    `check-config` checks it, and `doctor` tries it against Kafka and Redis.

    \b
    Examples:
      streammetrics config --minimal > streammetrics.toml
      streammetrics config --reference | less
    """
    from streammetrics.cli.output.standard_output import standard_output  # noqa: PLC0415
    from streammetrics.config import minimal_toml, reference_toml  # noqa: PLC0415

    if kind is None:
        raise click.UsageError("choose --minimal or --reference")
    click.echo({"minimal": minimal_toml, "reference": reference_toml}[kind](), file=standard_output(), nl=False)
