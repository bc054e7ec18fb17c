"""`repartition`: copies the input topics into topics keyed by user, and says what to configure then."""

from __future__ import annotations

import sys
import threading
import time
from functools import partial

from streammetrics.cli.process.logs import configure_quiet_logs
from streammetrics.cli.process.signals import stop_on_signals
from streammetrics.cli.wiring.connections import kafka_connection
from streammetrics.cli.wiring.decoders import build_decoder
from streammetrics.config import Settings
from streammetrics.connectors.kafka.repartition import Repartitioner
from streammetrics.connectors.kafka.repartition_outputs import RepartitionPlan, prepare_outputs
from streammetrics.reports.text import counted

SAY_SECONDS = 10.0


def repartition(settings: Settings, *, suffix: str, partitions: int | None, instance: str, until_caught_up: bool) -> None:
    """Copy until a signal stops it, or until nothing is left to copy. Raises ConfigError and SourceError."""
    configure_quiet_logs(settings.log.level, settings.log.format)
    connection = kafka_connection(settings)
    with stop_on_signals() as stop:
        plan = prepare_outputs(connection, suffix, partitions, instance)
        _say(f"copying {', '.join(f'{source} to {output}' for source, output in plan.outputs.items())}")
        with Repartitioner(connection, plan, partial(build_decoder, settings)) as copier:
            _copy(copier, stop, until_caught_up)
    _say(f"{counted(copier.records, 'record')} copied, {copier.unreadable:,} without a readable user")
    _say(f'set kafka.topics = {_toml(plan)} with a new redis.namespace, and isolation_level = "read_committed" (the default)')


def _copy(copier: Repartitioner, stop: threading.Event, until_caught_up: bool) -> None:
    said_at = time.monotonic()
    while not stop.is_set():
        copied = copier.turn()
        if until_caught_up and not copied and copier.owns_inputs and not copier.lag():
            return
        if time.monotonic() - said_at >= SAY_SECONDS:
            said_at = time.monotonic()
            _say(f"{counted(copier.records, 'record')} copied, {copier.lag():,} to go")


def _toml(plan: RepartitionPlan) -> str:
    names = ", ".join(f'"{name}"' for name in plan.outputs.values())
    return f"[{names}]"


def _say(message: str) -> None:
    print(f"streammetrics: {message}", file=sys.stderr)
