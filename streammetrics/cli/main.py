"""The command line: parses options and calls the commands. Holds no other logic.

Each command is imported when it runs, so that help and usage errors appear at once. `exit_codes` turns errors into exit codes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click

from streammetrics import __version__
from streammetrics.cli.common_options import configured, load_settings, serving
from streammetrics.cli.exit_codes import CommandGroup, with_exit_codes
from streammetrics.cli.option_types import FiniteFloatRange, OutputFile
from streammetrics.events.event_time import DAY_MS

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
SEED = click.IntRange(0, 2**63 - 1)
MINUTES_MAX = 10_000_000
"""Nineteen years of event time."""
RECORDS_MAX = 1_000_000_000_000
"""Limit of --events; larger numbers would not fit the 64-bit counters."""


@click.group(cls=CommandGroup, context_settings=CONTEXT, epilog="Every command has its own --help with examples.")
@click.version_option(__version__, prog_name="streammetrics")
def main() -> None:
    """Live ranking quality from an event stream: windowed NDCG, HitRate and MRR per A/B variant, exact and exactly-once.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.
    """


def command(function: Callable[..., None]) -> click.Command:
    """Register a command of `main`; its errors become messages and exit codes."""
    return main.command(context_settings=CONTEXT)(with_exit_codes(function))


def _share(name: str, description: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(name, type=FiniteFloatRange(0, 1), default=0.0, show_default=True, help=description)


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
    from streammetrics.cli.process.signals import stop_on_signals  # noqa: PLC0415

    with stop_on_signals() as stop:  # before the slow imports
        from streammetrics.cli.run import run as run_service  # noqa: PLC0415

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


@command
@configured
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--panes", type=OutputFile(), help="Write one NDJSON line per pane, group and view to this file.")
@click.option("--report", type=OutputFile(), help="Write the report to this file, as JSON.")
@click.option("--dead-letters", type=OutputFile(), help="Write refused events to this file, as NDJSON.")
@click.option("--flush/--no-flush", default=True, help="At the end, make all lists final, or leave recent lists live.  [default: flush]")
@click.option("--jobs", "-j", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes that share the users.")
@click.option("--quiet", "-q", is_flag=True, help="Print only errors and warnings.")
def replay(
    config_path: Path | None,
    settings_given: tuple[str, ...],
    files: tuple[str, ...],
    flush: bool,
    jobs: int,
    quiet: bool,
    **outputs: Path | None,
) -> None:
    """Compute the same numbers as `run` from files, without Kafka, Redis or a clock.

    A FILE is a file, a folder, a pattern such as 'logs/*.gz', or - for standard input. It has lines of JSON, one JSON array, CSV, TSV,
    Parquet or Avro. It may be compressed with gzip, bz2, xz or zstd, and it may be UTF-16. The content decides, except that a file named
    .gz must be gzip. Parquet, Avro and zstd need the extra `files`.

    Each file is one input with its own watermark. Files are read in step by event time, so their order does not change the results. No
    event is refused as future, because files have no record timestamps.

    With --jobs N, each of N processes reads all files and counts its own users. The results are the same; dead letters come in another
    order.

    \b
    Examples:
      streammetrics replay events.ndjson
      streammetrics replay impressions.ndjson feedback.ndjson --panes panes.ndjson --report report.json
      streammetrics replay 'exports/2026-01-*/*.parquet'
      kcat -C -t events -e | streammetrics replay - --set windows.segments=surface
      streammetrics replay ubi.ndjson --set events.format=ubi --dead-letters refused.ndjson
    """
    from streammetrics.cli.process.signals import interrupt_on_signals  # noqa: PLC0415
    from streammetrics.cli.replay import replay_and_show  # noqa: PLC0415
    from streammetrics.cli.replay_files import ReplayOutputs  # noqa: PLC0415

    loaded = load_settings(config_path, settings_given)
    with interrupt_on_signals():
        replay_and_show(loaded.settings, files, ReplayOutputs(**outputs), flush=flush, quiet=quiet, jobs=jobs)


@command
@configured
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True), metavar="[FILE]")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format.")
@click.option("--html", type=OutputFile(), help="Also write a self-contained HTML page with the intervals over time.")
@click.option("--experiment", "names", multiple=True, metavar="NAME", help="Show only this experiment. May be repeated.")
@click.option("--all", "all_measures", is_flag=True, help="Show all measures, not only the main ones.")
def report(
    config_path: Path | None,
    settings_given: tuple[str, ...],
    file: Path | None,
    form: Literal["text", "json"],
    html: Path | None,
    names: tuple[str, ...],
    all_measures: bool,
) -> None:
    """Show the results of experiments.

    The output has the verdict and its reason, users, means, lifts with intervals, and health checks of each experiment.

    FILE is a report from `replay --report` or from /api/report; - is standard input. Without FILE, the command reads the state in Redis
    and does not change it.

    \b
    Examples:
      streammetrics report --config streammetrics.toml
      streammetrics report --set redis.url=redis://cache:6379/0 --experiment ranker-v7 --html ranker-v7.html
      streammetrics replay events.ndjson --report report.json && streammetrics report report.json --all
      curl -s http://127.0.0.1:9464/api/report | streammetrics report - --format json
    """
    from streammetrics.cli.process.signals import interrupt_on_signals  # noqa: PLC0415
    from streammetrics.cli.report import show_report  # noqa: PLC0415

    loaded = load_settings(config_path, settings_given)
    with interrupt_on_signals():
        show_report(loaded.settings, file, form=form, html=html, names=names, all_measures=all_measures)


@command
@configured
@click.option(
    "--out",
    type=click.Path(path_type=Path, allow_dash=True),
    multiple=True,
    help="Write events to this file, gzipped if its name ends in .gz. - is standard output. Give it twice for impressions and feedback.",
)
@click.option("--kafka", is_flag=True, help="Send events to kafka.topics: impressions to the first topic, feedback to the last.")
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
@click.option("--interleaved", is_flag=True, help="Interleave the rankings of the two variants in every list (team draft).")
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
      streammetrics simulate --kafka --rate 100 --regression treatment:0.85@10m
      streammetrics simulate --kafka --pace fast --minutes 60 --set kafka.bootstrap_servers=broker:9092

    With --kafka, records are keyed by user id, and the topics must exist. Ctrl-C waits until all sent records are acknowledged.
    """
    from streammetrics.cli.simulate import simulate_traffic  # noqa: PLC0415
    from streammetrics.cli.simulate_plan import SimulateOptions  # noqa: PLC0415

    loaded = load_settings(config_path, settings_given)
    simulate_traffic(loaded.settings, SimulateOptions(**options))


@command
@configured
@serving
@click.option(
    "--scenario",
    type=click.Choice(["regressed", "improved", "flat", "broken-split", "six-variants"]),
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
    from streammetrics.cli.process.signals import stop_on_signals  # noqa: PLC0415

    with stop_on_signals() as stop:
        from streammetrics.cli.demo import load_demo, run_demo  # noqa: PLC0415

        loaded = load_settings(config_path, settings_given, partial(load_demo, scenario=scenario), http__port=port, http__host=host)
        run_demo(loaded.settings, stop, scenario=scenario, **traffic)


@command
@configured
def doctor(config_path: Path | None, settings_given: tuple[str, ...]) -> None:
    """Check Kafka, Redis, the stored state, recent records and the HTTP port, and say how to fix each problem.

    Reads about 100 recent records of each input topic, without joining the consumer group: their form, events, actions, times and keys.
    Changes nothing. Exit code 1 if a check fails.

    \b
    Examples:
      streammetrics doctor --config streammetrics.toml
      streammetrics doctor --set redis.url=rediss://cache:6380/0
    """
    from streammetrics.cli.doctor import examine  # noqa: PLC0415

    loaded = load_settings(config_path, settings_given)
    if not examine(loaded.settings):
        raise SystemExit(1)


@main.group(context_settings=CONTEXT)
def namespaces() -> None:
    """List the namespaces in Redis, and delete the ones that are no longer needed.

    \b
    Examples:
      streammetrics namespaces list --config streammetrics.toml
      streammetrics namespaces delete sm-1 --config streammetrics.toml
    """


@namespaces.command("list", context_settings=CONTEXT)
@with_exit_codes
@configured
def namespaces_list(config_path: Path | None, settings_given: tuple[str, ...]) -> None:
    """List the namespaces in Redis: tasks, keys, approximate memory, and connected workers and exporters.

    Scans all key names of the database. Changes nothing.

    \b
    Examples:
      streammetrics namespaces list --config streammetrics.toml
      streammetrics namespaces list --set redis.url=redis://cache:6379/0
    """
    from streammetrics.cli.namespaces import list_namespaces  # noqa: PLC0415

    list_namespaces(load_settings(config_path, settings_given).settings)


@namespaces.command("delete", context_settings=CONTEXT)
@with_exit_codes
@configured
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--force", is_flag=True, help="Delete even if workers or exporters are connected, or if Redis does not show connections.")
def namespaces_delete(config_path: Path | None, settings_given: tuple[str, ...], name: str, yes: bool, force: bool) -> None:
    """Delete all state, offsets and tallies of the namespace NAME. redis.namespace is ignored. This cannot be undone.

    If Redis has access control, use a user with more rights than a worker, such as streammetrics-admin in deploy/redis-users.acl.

    \b
    Examples:
      streammetrics namespaces delete sm-1 --config streammetrics.toml
      streammetrics namespaces delete sm-1 --yes --set redis.url=redis://cache:6379/0
      STREAMMETRICS_REDIS_USERNAME=streammetrics-admin STREAMMETRICS_REDIS_PASSWORD_FILE=secret streammetrics namespaces delete sm-1
    """
    from streammetrics.cli.namespaces import delete_namespace  # noqa: PLC0415

    delete_namespace(load_settings(config_path, settings_given).settings, name, yes=yes, force=force)


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


@command
@configured
@click.argument("source")
@click.option("--limit", "-n", type=click.IntRange(1, 1_000), default=20, show_default=True, help="Records to show.")
@click.option("--suggest", is_flag=True, help="Propose mappings for these records, as TOML, from the names of their fields.")
def decode(config_path: Path | None, settings_given: tuple[str, ...], source: str, limit: int, suggest: bool) -> None:
    """Show what sample records become: lists, feedback, ignored, or refused and why.

    SOURCE is a file as for `replay`, or a topic in kafka.topics. Of a topic, recent records are read. Nothing is stored or committed. The
    exit code is 1 if no record is a list or feedback.

    \b
    Examples:
      streammetrics decode events.ndjson --set events.format=segment
      streammetrics decode shop --config streammetrics.toml --limit 100
      streammetrics decode events.ndjson --suggest
    """
    from streammetrics.cli.decode import decode_samples  # noqa: PLC0415

    if not decode_samples(load_settings(config_path, settings_given).settings, source, limit=limit, suggest=suggest):
        raise SystemExit(1)


@command
@configured
def check_config(config_path: Path | None, settings_given: tuple[str, ...]) -> None:
    """Check the configuration and print every setting with its origin. Secrets are masked.

    Reports all errors together, with exit code 2.

    \b
    Examples:
      streammetrics check-config --config streammetrics.toml
      STREAMMETRICS_JOIN_GAP_MS=-1 streammetrics check-config
    """
    from streammetrics.cli.output.output_paths import standard_output  # noqa: PLC0415
    from streammetrics.config import render_effective  # noqa: PLC0415

    click.echo(render_effective(load_settings(config_path, settings_given)), file=standard_output(), nl=False)


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def evaluate(arguments: tuple[str, ...]) -> None:
    """Score a TREC run file against relevance judgments, or compare two runs, with the same metrics as the stream."""
    from streammetrics.cli.evaluate import main as evaluate_runs  # noqa: PLC0415

    raise SystemExit(evaluate_runs(arguments))  # it parses its own options, so that it works like trec_eval
