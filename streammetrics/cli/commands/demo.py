"""The options of `demo`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from streammetrics.cli.command import command
from streammetrics.cli.options import SEED, FiniteFloatRange, configured, load_settings, serving


@command
@configured
@serving
@click.option(
    "--scenario",
    type=click.Choice(["regressed", "improved", "flat", "broken-split", "ramp", "six-variants"]),
    default="regressed",
    show_default=True,
    help="What the simulated A/B test shows.",
)
@click.option("--seconds", type=FiniteFloatRange(min=0), default=0.0, help="Stop after this time. 0: run until Ctrl-C.")
@click.option("--seed", type=SEED, default=1, show_default=True, help="Seed of the simulated traffic.")
@click.option("--rate", type=FiniteFloatRange(min=0.1, max=2_000), default=50.0, show_default=True, help="Lists per second.")
def demo(
    config_path: Path | None, settings_given: tuple[str, ...], port: int | None, host: str | None, scenario: str, **traffic: Any
) -> None:
    """Show a simulated A/B test live, without Kafka or Redis.

    Traffic, engine, in-memory store and HTTP port run in one process.

    \b
    Examples:
      streammetrics demo
      streammetrics demo --scenario six-variants
      streammetrics demo --seconds 30 --port 0 --seed 7
      streammetrics demo --set metrics.names=ndcg,recall,map --set windows.windows=30s,2m
    """
    from streammetrics.cli.signals import stop_on_signals  # noqa: PLC0415

    with stop_on_signals() as stop:
        from streammetrics.cli.demo.demo import load_demo, run_demo  # noqa: PLC0415

        loaded = load_settings(config_path, settings_given, partial(load_demo, scenario=scenario), http__port=port, http__host=host)
        run_demo(loaded.settings, stop, scenario=scenario, **traffic)
