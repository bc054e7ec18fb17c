"""The options of `config`."""

from __future__ import annotations

import click

from streammetrics.cli.command import command


@command
@click.option("--minimal", "kind", flag_value="minimal", help="The five settings to begin with.")
@click.option(
    "--reference",
    "kind",
    flag_value="reference",
    help="The settings that people change, each with when to do so, its allowed values and default.",
)
@click.option("--reader", "kind", flag_value="reader", help="A reader in Python, for events of your own.")
@click.option("--all", "whole", is_flag=True, help="With --reference: every setting.")
def config(kind: str | None, whole: bool) -> None:
    """Print a configuration file, or a reader, to start from.

    `check-config` checks it, and `doctor` tries it against Kafka and Redis.

    \b
    Examples:
      streammetrics config --minimal > streammetrics.toml
      streammetrics config --reader > reader.py
      streammetrics config --reference | less
      streammetrics config --reference --all | less
    """
    from streammetrics.cli.output.reader_template import READER_TEMPLATE  # noqa: PLC0415
    from streammetrics.cli.output.standard_output import standard_output  # noqa: PLC0415
    from streammetrics.config import minimal_toml, reference_toml  # noqa: PLC0415

    if kind is None:
        raise click.UsageError("choose --minimal, --reader or --reference")
    if whole and kind != "reference":
        raise click.UsageError("--all goes with --reference")
    text = READER_TEMPLATE if kind == "reader" else reference_toml(whole=whole) if kind == "reference" else minimal_toml()
    click.echo(text, file=standard_output(), nl=False)
