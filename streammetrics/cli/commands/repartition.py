"""`repartition`: copies the input topics into topics keyed by user, and says what to configure then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from streammetrics.cli.command import command
from streammetrics.cli.options import configured, load_settings
from streammetrics.cli.signals import stop_on_signals
from streammetrics.config import Settings
from streammetrics.connectors.kafka.repartition import Repartitioner
from streammetrics.connectors.kafka.topics import RepartitionPlan, prepare_outputs
from streammetrics.errors import StreammetricsError
from streammetrics.wiring.decoders import build_decoder
from streammetrics.wiring.logs import configure_quiet_logs
from streammetrics.words.numbers import counted

SAY_SECONDS = 10.0


def copy_topics(settings: Settings, *, suffix: str, partitions: int | None, instance: str, until_caught_up: bool) -> None:
    """Copy until a signal stops it, or until nothing is left to copy.

    Raises ConfigError and SourceError, and StreammetricsError if records without a readable user were copied with the key that they had.
    """
    configure_quiet_logs(settings.log.level, settings.log.format)
    connection = settings.kafka
    with stop_on_signals() as stop:
        plan = prepare_outputs(connection, suffix, partitions, instance)
        _say(f"copying {', '.join(f'{source} to {output}' for source, output in plan.outputs.items())}")
        with Repartitioner(connection, plan, partial(build_decoder, settings)) as copier:
            _copy(copier, stop, until_caught_up)
    _say(f"{counted(copier.records, 'record')} copied, {copier.unreadable:,} without a readable user")
    for line in _renamed_topics(settings, plan):
        _say(line)
    _say(f'set kafka.topics = {_toml(plan)} with a new redis.namespace, and isolation_level = "read_committed" (the default)')

    if copier.unreadable:
        raise StreammetricsError(
            f"{counted(copier.unreadable, 'record')} without a readable user kept the key that they had, so their events may miss their"
            " user; `streammetrics decode TOPIC` says why they are refused"
        )


def _renamed_topics(settings: Settings, plan: RepartitionPlan) -> Iterator[str]:
    """Yield what to rename in events.reader."""
    if not isinstance(settings.events.reader, str):
        for name in sorted(plan.outputs.keys() & settings.events.reader.keys()):
            yield f"in events.reader, rename {name} to {plan.outputs[name]}"


def _copy(copier: Repartitioner, stop: threading.Event, until_caught_up: bool) -> None:
    said_at = time.monotonic()
    while not stop.is_set():
        copied = copier.turn()
        if until_caught_up and not copied and copier.owns_inputs and not copier.lag():
            return
        if time.monotonic() - said_at >= SAY_SECONDS:
            said_at = time.monotonic()
            refused = f", {copier.unreadable:,} without a readable user" if copier.unreadable else ""
            _say(f"{counted(copier.records, 'record')} copied{refused}, {copier.lag():,} to go")


def _toml(plan: RepartitionPlan) -> str:
    names = ", ".join(f'"{name}"' for name in plan.outputs.values())
    return f"[{names}]"


def _say(message: str) -> None:
    print(f"streammetrics: {message}", file=sys.stderr)


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
    settings = load_settings(config_path, settings_given).settings
    copy_topics(settings, suffix=suffix, partitions=partitions, instance=instance, until_caught_up=until_caught_up)
