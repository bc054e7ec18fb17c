"""The options of `simulate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from streammetrics.cli.command import SEED, command
from streammetrics.cli.common_options import configured, load_settings
from streammetrics.cli.option_types import FiniteFloatRange
from streammetrics.events.event_time import DAY_MS

MINUTES_MAX = 10_000_000
"""Nineteen years of event time."""
RECORDS_MAX = 1_000_000_000_000
"""Limit of --events; larger numbers would not fit the 64-bit counters."""


def _share(name: str, description: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(name, type=FiniteFloatRange(0, 1), default=0.0, show_default=True, help=description)


@command
@configured
@click.option(
    "--out",
    type=click.Path(path_type=Path, allow_dash=True),
    multiple=True,
    help="Write events to this file, gzipped if its name ends in .gz. - is standard output. Give it twice for impressions and feedback, "
    "and three times for impressions, feedback and exposures.",
)
@click.option(
    "--kafka", is_flag=True, help="Send events to kafka.topics: one topic for all, or those of impressions, feedback and exposures."
)
@click.option("--events", type=click.IntRange(1, RECORDS_MAX), help="Stop after this many records.")
@click.option(
    "--minutes",
    type=FiniteFloatRange(0, MINUTES_MAX, min_open=True),
    help="Stop after this much event time.  [default: 10, for files]",
)
@click.option(
    "--pace", type=click.Choice(["fast", "real"]), help="As fast as possible, or in real time.  [default: real with --kafka, else fast]"
)
@click.option(
    "--start",
    metavar="TIME",
    help="First event time: ISO-8601 with a zone, epoch ms, or now.  [default: now with --pace real; a time such that the events end now "
    "with --kafka --pace fast; else a fixed time]",
)
@click.option("--seed", type=SEED, default=1, show_default=True, help="Random seed. The same seed and options give the same bytes.")
@click.option("--users", type=click.IntRange(1, 1_000_000_000), default=20_000, show_default=True, help="Number of users.")
@click.option("--rate", type=FiniteFloatRange(0.001, 1_000_000), default=20.0, show_default=True, help="Lists per second of event time.")
@click.option("--items", type=click.IntRange(1, 1_000), default=12, show_default=True, help="Items per list.")
@click.option("--experiment", default="ranker", show_default=True, help="Name of the experiment.")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME=SHARE[:QUALITY]",
    help="A variant, its share of users, and its ranking quality (default 1). May be repeated.  [default: control=0.5, treatment=0.5]",
)
@click.option(
    "--regression",
    metavar="VARIANT:FACTOR[@AFTER]",
    help="Multiply a variant's quality by a factor, after some event time, such as treatment:0.85@600s.",
)
@click.option(
    "--ramp",
    "ramps",
    multiple=True,
    metavar="SHARE@AFTER",
    help="Give the second variant this share of users after some event time, such as 0.5@30m. They come from the first variant."
    " May be repeated, in order of time.",
)
@click.option("--interleaved", is_flag=True, help="Interleave the rankings of the two variants in every list (team draft).")
@click.option("--exposures", is_flag=True, help="Send exposures, which say who is in which variant. Lists carry no labels then.")
@click.option("--disorder-ms", type=click.IntRange(0, DAY_MS), default=2_000, show_default=True, help="Maximum delivery delay of a record.")
@_share("--duplicates", "Share of events to send twice.")
@_share("--lates", "Share of events to delay by --late-ms.")
@click.option("--late-ms", type=click.IntRange(0, 30 * DAY_MS), default=300_000, show_default=True, help="Delay of late events.")
@_share("--malformed", "Malformed records to add, as a share of the valid ones.")
@_share("--without-id", "Share of feedback without an impression_id.")
def simulate(config_path: Path | None, settings_given: tuple[str, ...], **options: Any) -> None:
    """Generate traffic with known effects, for tests and trials.

    It has users, position-based clicks, variants of known quality, and delivery faults. A seed makes it reproducible.

    \b
    Examples:
      streammetrics simulate --out events.ndjson --minutes 60
      streammetrics simulate --out impressions.ndjson --out feedback.ndjson --variant control=0.5 --variant treatment=0.5:0.9
      streammetrics simulate --out - --events 100000 --malformed 0.01 --lates 0.01 | streammetrics replay -
      streammetrics simulate --out - --exposures | streammetrics replay - --set exposures.enabled=true
      streammetrics simulate --kafka --rate 100 --regression treatment:0.85@10m
      streammetrics simulate --kafka --pace fast --minutes 60 --set kafka.bootstrap_servers=broker:9092

    With --exposures, each visit begins with an exposure, at most two seconds before its first list, and some users are exposed who never
    see a list. --disorder-ms, --duplicates, --lates and --malformed hold for exposures, too. Lists and feedback stay the same.

    With --kafka, records are keyed by user id, and the topics must exist. Ctrl-C waits until all sent records are acknowledged.
    """
    from streammetrics.cli.simulate.plan import SimulateOptions  # noqa: PLC0415
    from streammetrics.cli.simulate.simulate import simulate_traffic  # noqa: PLC0415

    loaded = load_settings(config_path, settings_given)
    simulate_traffic(loaded.settings, SimulateOptions(**options))
