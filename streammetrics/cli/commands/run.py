"""The options of `run`."""

from __future__ import annotations

from pathlib import Path

import click

from streammetrics.cli.command import command
from streammetrics.cli.options import configured, load_settings, serving


@command
@configured
@serving
@click.option(
    "--role",
    type=click.Choice(["all", "worker", "exporter"]),
    help="worker consumes events, exporter serves results, all does both.  [default: all]",
)
@click.option("--workers", type=click.IntRange(1, 64), help="Worker processes under this one, with one HTTP port.  [default: 1]")
@click.option("--allow-eviction", is_flag=True, default=None, help="Run even if Redis may evict keys. Evicted keys are lost state.")
def run(
    config_path: Path | None,
    settings_given: tuple[str, ...],
    port: int | None,
    host: str | None,
    role: str | None,
    workers: int | None,
    allow_eviction: bool | None,
) -> None:
    """Consume events from Kafka, keep state in Redis, and serve the results.

    \b
    Examples:
      streammetrics run --config streammetrics.toml
      streammetrics run --set kafka.bootstrap_servers=broker:9092 --set redis.url=redis://cache:6379/0
      STREAMMETRICS_KAFKA_TOPICS=impressions,feedback streammetrics run --port 9464
      streammetrics run --config streammetrics.toml --workers 4

    On SIGTERM, Ctrl-C or a closed terminal, it finishes the batch, commits, and leaves the consumer group. A second signal exits at once.
    """
    from streammetrics.cli.signals import stop_on_signals  # noqa: PLC0415

    with stop_on_signals() as stop:  # before the slow imports
        from streammetrics.cli.run.run import run as run_service  # noqa: PLC0415

        loaded = load_settings(
            config_path,
            settings_given,
            http__port=port,
            http__host=host,
            worker__role=role,
            worker__processes=workers,
            redis__allow_eviction=allow_eviction,
        )
        run_service(loaded.settings, stop)
