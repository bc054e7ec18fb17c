"""Run the whole process in simulations, and compare all of its results with the oracle.

Each seed is one schedule of events and faults. A failure prints one line that repeats it, with as few events as possible.
"""

from __future__ import annotations

import gc
import os
import sys
import time

import click
from rich.console import Console

from tests.tools.simulation.coverage import Coverage
from tests.tools.simulation.schedule import schedule_of
from tests.tools.simulation.search import Outcome, only, quiet_logs, run, run_all, shrink

PROGRESS_SECONDS = 1.0
FAILURES_MAX = 5
"""Failures after which a search stops."""


def numbers(text: str) -> list[int]:
    """Return the numbers of a list such as `3,5,9`."""
    return [int(part) for part in text.split(",") if part]


def command(seed: int, kept: list[int]) -> str:
    """Return the line that repeats a failure."""
    return f"python -m tests.tools.simulation --seed {seed} --keep {','.join(map(str, kept))}"


def explain(outcome: Outcome, console: Console) -> None:
    """Shrink a failure and print how to repeat it."""
    schedule = schedule_of(outcome.seed)
    kept = shrink(len(schedule.events), lambda numbers: bool(run(only(schedule, numbers)).failure))
    lines = (
        f"FAILED seed {outcome.seed}: {outcome.failure}",
        f"  {len(kept)} of its {len(schedule.events)} events suffice: {', '.join(schedule.events[number].kind for number in kept)}",
        f"  repeat: {command(outcome.seed, kept)}",
    )
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def repeat(seed: int, keep: str | None, console: Console) -> bool:
    """Run one schedule with what happens in it. Returns whether it breaks a law."""
    schedule = schedule_of(seed)
    outcome = run(schedule if keep is None else only(schedule, numbers(keep)))
    for name, times in outcome.seen.most_common():
        console.print(f"{times:5} {name}", markup=False, highlight=False)
    console.print(outcome.trace or f"seed {seed} breaks no law", markup=False, highlight=False, soft_wrap=True)
    return bool(outcome.failure)


def search(first: int, seeds: int, jobs: int, pairs: bool, console: Console) -> int:
    """Run many schedules, with a line of progress and tables at the end. Returns how many failed."""
    coverage, failed, began, printed_at = Coverage(), list[Outcome](), time.monotonic(), 0.0
    for outcome in run_all(range(first, first + seeds), jobs):
        coverage.add(outcome)
        if outcome.failure:
            failed.append(outcome)
        if time.monotonic() - printed_at > PROGRESS_SECONDS:
            printed_at = time.monotonic()
            click.echo(
                f"\r\033[K{coverage.schedules:,} of {seeds:,} schedules, {len(failed)} failed, {printed_at - began:.0f} s",
                nl=False,
                err=True,
            )
        if len(failed) >= FAILURES_MAX:
            break
    click.echo("\r\033[K" if sys.stderr.isatty() else "", nl=not sys.stderr.isatty(), err=True)
    coverage.print(console, pairs)
    for failure in sorted(failed, key=lambda outcome: outcome.seed):
        explain(failure, console)
    seconds, cpu = time.monotonic() - began, sum(os.times()[:4])
    console.print(f"{coverage.schedules:,} schedules in {seconds:.0f} s ({cpu:.0f} s of CPU): {len(failed)} failed")
    return len(failed)


def first_failure(first: int, seeds: int, jobs: int) -> bool:
    """Print the first failure in one line. Returns whether there is one."""
    for number, outcome in enumerate(run_all(range(first, first + seeds), jobs), 1):
        if outcome.failure:
            click.echo(f"after {number} schedules: seed {outcome.seed}: {outcome.failure}")
            return True
    return False


@click.command(help=__doc__)
@click.option("--seeds", type=click.IntRange(1), default=1_000, show_default=True, help="How many schedules to run.")
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="The first seed.")
@click.option("--seed", type=click.IntRange(0), help="Run this one, and show what happened.")
@click.option("--keep", help="With --seed: only these of its events, by number: 3,5,9.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--pairs", is_flag=True, help="Print every pair of faults.")
@click.option("--first-failure", "stop", is_flag=True, help="Stop at the first failure, and print only that.")
def main(seeds: int, first: int, seed: int | None, keep: str | None, jobs: int, pairs: bool, stop: bool) -> None:
    """Exit with 1 if a schedule fails."""
    quiet_logs()
    gc.freeze()  # modules stay to the end: the collector need not walk over them again and again
    console = Console(width=120)
    if stop:
        sys.exit(1 if first_failure(first, seeds, jobs) else 0)
    failed = repeat(seed, keep, console) if seed is not None else search(first, seeds, jobs, pairs, console)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets decides, too
        os.execve(sys.executable, [sys.executable, "-m", "tests.tools.simulation", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    main(prog_name="python -m tests.tools.simulation")
