"""The options of `repartition`."""

from __future__ import annotations

from pathlib import Path

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import configured, load_settings


@command
@configured
@click.option("--suffix", default="-by-user", show_default=True, help="Ending of the output topics' names.")
@click.option("--partitions", type=click.IntRange(1, 10_000), help="Partitions of each output topic.  [default: as the largest input]")
@click.option("--instance", default="1", show_default=True, help="Name of this process, when several share the work.")
@click.option("--until-caught-up", is_flag=True, help="Stop when nothing is left to copy.")
def repartition(
    config_path: Path | None,
    settings_given: tuple[str, ...],
    suffix: str,
    partitions: int | None,
    instance: str,
    until_caught_up: bool,
) -> None:
    """Copy the input topics into topics keyed by user, exactly once, for producers that cannot be changed.

    Use it when records have no key, a key that is not the user, or when two producers hash keys differently. Inputs may have
    different partition counts. Missing output topics are created. Each round is one Kafka transaction. Values are unchanged.

    \b
    Examples:
      streammetrics repartition --config streammetrics.toml
      streammetrics repartition --config streammetrics.toml --partitions 12 --until-caught-up

    The Kafka user needs CREATE and WRITE on the output topics, and WRITE on the transactional id <group>-repartition-<instance>.
    """
    from streammetrics.cli.repartition import repartition as copy_topics  # noqa: PLC0415

    settings = load_settings(config_path, settings_given).settings
    copy_topics(settings, suffix=suffix, partitions=partitions, instance=instance, until_caught_up=until_caught_up)
