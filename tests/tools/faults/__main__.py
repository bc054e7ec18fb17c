"""Faults on real servers under steady traffic. Afterwards every number must equal a replay of the topics.

`partitions` cuts, slows and breaks links between hosts, which are network namespaces. `soak` has a fault of a process every minute, and
memory must stay flat. A seed decides which fault comes when.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import Any

import click
from rich.console import Console

from tests.tools.faults import tables
from tests.tools.faults.deployment import Deployment, Partitions, Soak
from tests.tools.faults.judge import commits, judge
from tests.tools.faults.network import Network, NetworkError, enter_namespaces
from tests.tools.faults.schedule import HOSTS, Fault, network_faults, process_faults
from tests.tools.faults.watch import FaultError, Suffered, Watch
from tests.tools.servers.tools import CACHE_DIRECTORY, MissingToolError
from tests.tools.simulation.search import quiet_logs

MINUTES = click.IntRange(1, 24 * 60)
SEEDS = click.IntRange(0, 2**32)


def run(name: str, seed: int, minutes: int, deployment: Deployment, faults: list[Fault]) -> int:
    """Run the faults and compare. Returns the exit code. After a failure the logs stay."""
    console = Console(width=tables.WIDTH + 10)  # as wide as the graph
    folder = CACHE_DIRECTORY / "faults" / f"{name}-{seed}"
    quiet_logs()  # of the clients of this process
    repeat = f"make {name} MINUTES={minutes} SEED={seed}"
    console.print(f"{repeat}: starting {len(HOSTS) if name == 'partitions' else 5} servers", highlight=False)
    with deployment:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            _run(name, minutes, deployment, faults, folder, console)
        except KeyboardInterrupt:
            shutil.rmtree(folder)
            raise
        except Exception as error:
            deployment.keep_logs(folder)
            console.print(f"FAILED: {error}", markup=False, highlight=False, soft_wrap=True)
            console.print(f"  logs, topics and numbers: {folder}\n  the same faults again: {repeat}", highlight=False, soft_wrap=True)
            if not isinstance(error, FaultError):
                raise
            return 1
    shutil.rmtree(folder)
    console.print("PASSED", highlight=False)
    return 0


def _run(name: str, minutes: int, deployment: Deployment, faults: list[Fault], folder: Path, console: Console) -> None:
    with Watch(deployment) as watch:
        suffered: list[Suffered] = []
        try:
            _suffer(minutes, faults, watch, suffered, console)
        finally:
            tables.show(console, suffered, samples := list(watch.samples))
        for line in [*judge(deployment, folder), *tables.notes(deployment, commits(deployment))]:
            console.print(line, highlight=False, soft_wrap=True)
        if name == "soak":
            console.print(tables.require_flat(samples), highlight=False, soft_wrap=True)


def _suffer(minutes: int, faults: list[Fault], watch: Watch, suffered: list[Suffered], console: Console) -> None:
    """Inflict one fault after the other, as long as there is time, with a line for each."""
    for fault in faults:
        if watch.now + fault.seconds > minutes * 60:
            break
        outcome = watch.suffered(fault)
        suffered.append(outcome)
        console.print(tables.line(outcome), markup=False, highlight=False, soft_wrap=True)
        tables.require_recovered(outcome)
    watch.wait(minutes * 60)


def options(minutes: int) -> Callable[[Any], Any]:
    def add(command: Any) -> Any:
        for name, kind, default, text in (
            ("--seed", SEEDS, None, "Decides which fault comes when. Without it, a random one."),
            ("--minutes", MINUTES, minutes, "Minutes of traffic. Starting and comparing take some minutes more."),
        ):
            command = click.option(name, type=kind, default=default, show_default=True, help=text)(command)
        return command

    return add


@click.group(help=__doc__, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None: ...


@main.command(help="Cut, one-way, lossy and slow links between three brokers, a Redis Cluster, three workers and an exporter.")
@options(30)
def partitions(seed: int | None, minutes: int) -> int:
    enter_namespaces()
    seed = SystemRandom().randrange(10_000) if seed is None else seed
    return run("partitions", seed, minutes, Partitions(seed, Network(HOSTS)), network_faults(seed, minutes))


@main.command(help="A fault every minute for a broker, a Redis, two workers and an exporter. Memory and descriptors stay flat.")
@options(60)
def soak(seed: int | None, minutes: int) -> int:
    seed = SystemRandom().randrange(10_000) if seed is None else seed
    return run("soak", seed, minutes, Soak(seed), process_faults(seed, minutes))


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    try:
        sys.exit(main(standalone_mode=False))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (MissingToolError, NetworkError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
