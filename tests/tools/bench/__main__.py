"""`python -m tests.tools.bench [--quick] [--rounds N] [--only PART,…]`: run the parts, check answers, print tables beside the goals."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tests.tools.bench import alone, end_to_end, exposing, flink, live, machine, parts, pool
from tests.tools.bench.end_to_end import CommitOutcome, Size, Turns, Way
from tests.tools.bench.shown import Say, console, goal, progress

PARTS = (
    "end-to-end",
    "flink",
    "live",
    "skew",
    "workers",
    "pool",
    "experiments",
    "engagement",
    "exposures",
    "engine",
    "replay",
    "growth",
    "one-user",
    "decoding",
    "commit",
    "exporter",
    "memory",
    "import",
)


def part_end_to_end(quick: bool, rounds: int, say: Say) -> None:
    headline = [Size(2_000, 30_000), Size(2_000, 60_000)] if quick else [Size(80_000, 500_000), Size(80_000, 2_000_000)]
    sizes = headline if quick else [Size(20_000, 400_000), *headline]
    outcomes = [end_to_end.measure(size, rounds, say) for size in sizes]
    rates = Table("users", "events", "bytes", "events/s", "floor", "ratio", "our floor", "ratio", "CPU s/million", "peak MB", "Redis MB")
    for outcome in outcomes:
        rates.add_row(
            f"{outcome.size.users:,}",
            f"{outcome.size.events:,}",
            f"{outcome.bytes_mean:.0f}",
            f"{outcome.rate():,.0f}",
            f"{outcome.floor_rate():,.0f}",
            f"{outcome.ratio():.2f}",
            f"{outcome.own_floor_rate():,.0f}",
            f"{outcome.own_ratio():.2f}",
            f"{cpu_of(outcome):.1f}",
            f"{outcome.median(lambda run: run.worker['peak_mb']):.0f}",
            f"{outcome.median(lambda run: run.redis_peak_mb):.0f}",
        )
    checked = sum(outcome.integers_checked for outcome in outcomes)
    console.print(f"\n[bold]End to end[/bold] (answer checked: {checked:,} stored integers equal brute force over all events)")
    console.print(rates)
    names = list(outcomes[0].stages())
    stages = Table("users", *names, "other threads", "Redis", "sum", title="processor µs an event, by stage")
    for outcome in outcomes:
        others = outcome.per_million(lambda run: run.worker["other_seconds"])
        redis = outcome.per_million(lambda run: run.redis_seconds)
        of_stage = outcome.stages()  # in the order in which they began, which another size need not share
        values = (*(of_stage.get(name, 0.0) for name in names), others, redis, cpu_of(outcome))
        stages.add_row(f"{outcome.size.users:,}", *(f"{value:.2f}" for value in values))
    console.print(stages)
    for outcome in outcomes:
        if quick or outcome.size.users == 20_000:
            console.print(
                goal(outcome.ratio() >= 0.5, f"{outcome.ratio():.2f} of the floor, wanted at least 0.5 ({outcome.size.users:,} users)")
            )
    few, many = outcomes[-2:]
    slope = (many.total_seconds() - few.total_seconds()) / (many.size.events - few.size.events)
    fixed = few.total_seconds() - slope * few.size.events
    words = f"{many.size.events:,} events of {many.size.users:,} users"
    console.print(f"{words}: {fixed:.1f} CPU seconds to start, then {slope * 1e6:.1f} for each million events")
    console.print(goal(cpu_of(many) <= 14, f"{cpu_of(many):.1f} CPU seconds a million events without the start, wanted at most 14"))


def cpu_of(outcome: CommitOutcome) -> float:
    """Our process and Redis together, in seconds a million events."""
    return outcome.per_million(lambda run: run.worker["processor_seconds"] + run.redis_seconds)


def part_flink(quick: bool, rounds: int, say: Say) -> None:
    sizes = [Size(2_000, 30_000), Size(2_000, 60_000)] if quick else [Size(80_000, 500_000), Size(80_000, 2_000_000)]
    few, many = contests = [flink.measure(size, rounds, say) for size in sizes]
    table = Table("events", "by", "CPU s/million, start included", "events/s", "peak MB")
    for contest in contests:
        for name, of in (("Flink", contest.flink), ("ours", contest.ours)):
            processor, wall, peak = (statistics.median(column) for column in zip(*of, strict=True))
            million = contest.size.events / 1e6
            table.add_row(
                f"{contest.size.events:,}", name, f"{processor / million:.1f}", f"{contest.size.events / wall:,.0f}", f"{peak:.0f}"
            )
    panes, integers = sum(contest.panes for contest in contests), sum(contest.integers for contest in contests)
    console.print(f"\n[bold]Beside Flink[/bold] (answers checked: {panes:,} panes of Flink and {integers:,} integers of ours)")
    console.print(table)
    sides: dict[str, Callable[[flink.Contest], list[flink.Spent]]] = {
        "Flink": lambda contest: contest.flink,
        "ours": lambda contest: contest.ours,
    }
    for name, side in sides.items() if not quick else ():  # so few events only show the start
        fixed, each_million = flink.slope(few, many, side)
        console.print(f"{name}: {fixed:.1f} CPU seconds to start, then {each_million:.1f} for each million events")
    console.print(f"{many.ratio():.2f} times the CPU of Flink for {many.size.events:,} events")


def part_live(quick: bool, rounds: int, say: Say) -> None:
    paces = {live.Pace(2_000, 3, 6): 40} if quick else {live.Pace(2_000, 8, 20): 40, live.Pace(10_000, 8, 20): 22}
    table = Table("events/s", "worker µs", "Redis µs", "both µs", "age of what is committed, s", "reached events/s", "peak MB")
    checked, goals = 0, []
    for pace, wanted_us in paces.items():
        measured = live.measure(pace, rounds, say)
        checked += sum(outcome.checked for outcome in measured)
        worker, redis, age, reached, peak = (
            statistics.median(numbers) for numbers in zip(*(outcome[:5] for outcome in measured), strict=True)
        )
        both = statistics.median(outcome.worker_us + outcome.redis_us for outcome in measured)
        table.add_row(
            f"{pace.rate:,}", *(f"{number:,.1f}" for number in (worker, redis, both)), f"{age:.2f}", f"{reached:,.0f}", f"{peak:.0f}"
        )
        goals.append(goal(both <= wanted_us, f"{both:.1f} µs per event at {pace.rate:,} events/s, wanted at most {wanted_us}"))
        goals.append(goal(age <= 0.7, f"{age:.2f} s old on average, wanted at most 0.7"))
    console.print(f"\n[bold]Live traffic[/bold] (answer checked: {checked:,} stored integers equal brute force over all events)")
    console.print(table)
    for line in goals:
        console.print(line)


def part_skew(quick: bool, rounds: int, say: Say) -> None:
    even, skewed = (Size(2_000, 60_000), Size(2_000, 60_000, 1)) if quick else (Size(8_000, 200_000), Size(8_000, 200_000, 1))
    outcomes = {size.partitions: end_to_end.measure(size, rounds, say) for size in (even, skewed)}
    table = Table("partitions with records", "events/s", "floor")
    for partitions, outcome in outcomes.items():
        table.add_row(f"{partitions} of {end_to_end.PARTITIONS}", f"{outcome.rate():,.0f}", f"{outcome.floor_rate():,.0f}")
    checked = sum(outcome.integers_checked for outcome in outcomes.values())
    console.print(f"\n[bold]Skew[/bold] (answer checked: {checked:,} stored integers equal brute force over all events)")
    console.print(table)


def part_experiments(quick: bool, rounds: int, say: Say) -> None:
    on, off = ways = (Way(), Way(experiments=False))
    outcome = end_to_end.measure_ways(Size(2_000, 60_000) if quick else Size(20_000, 400_000), rounds, ways, say)
    show_ways("Experiments", {"with": on, "without": off}, outcome)
    slower = outcome.ratio(on, off)
    console.print(goal(slower <= 1.25, f"{slower:.2f} times as long with users counted in experiments, wanted at most 1.25"))


def part_engagement(quick: bool, rounds: int, say: Say) -> None:
    ways = {"neither": Way(), "engagement": Way(more=("engagement",)), "assessment": Way(more=("assessment",))}
    outcome = end_to_end.measure_ways(Size(2_000, 60_000) if quick else Size(20_000, 400_000), rounds, list(ways.values()), say)
    show_ways("Engagement", ways, outcome)
    for kind in ("engagement", "assessment"):
        dearer = outcome.cpu_ratio(ways[kind], ways["neither"])
        console.print(goal(dearer <= 1.10, f"{dearer:.2f} times the CPU with all {kind} metrics, Redis among it, wanted at most 1.10"))


def part_exposures(quick: bool, rounds: int, say: Say) -> None:
    outcome = exposing.measure(Size(2_000, 60_000) if quick else Size(20_000, 400_000), rounds, say)
    console.print(f"\n[bold]Exposures[/bold] (answer checked: {outcome.checked:,} stored integers equal brute force over labelled lists)")
    console.print(outcome.table())
    ratio, per_exposure = outcome.ratio(), outcome.us_per_exposure()
    words = f"{ratio:.2f} times the CPU of labels, Redis among it; {per_exposure:.1f} µs for each exposure"
    console.print(goal(ratio <= 1.3, f"{words}, wanted at most 1.3 times"))


def part_workers(quick: bool, rounds: int, say: Say) -> None:
    one, two = ways = (Way(), Way(workers=2))
    outcome = end_to_end.measure_ways(Size(2_000, 60_000) if quick else Size(20_000, 400_000), rounds, ways, say)
    show_ways("Workers", {"one": one, "two of one group": two}, outcome)
    console.print(
        f"two workers are {outcome.ratio(one, two):.2f} times as fast as one, on {os.cpu_count()} cores that broker and Redis share"
    )


def part_pool(quick: bool, rounds: int, say: Say) -> None:
    outcome = pool.measure(Size(2_000, 120_000) if quick else Size(20_000, 400_000), (1, 2), rounds, say)
    table = Table("--workers", "events/s", "CPU s/million, Redis among it")
    for count, of_rounds in outcome.items():
        rate, cpu = (
            statistics.median(numbers) for numbers in ([run.rate for run in of_rounds], [run.cpu_per_million for run in of_rounds])
        )
        table.add_row(str(count), f"{rate:,.0f}", f"{cpu:.1f}")
    checked = sum(run.checked for of_rounds in outcome.values() for run in of_rounds)
    console.print(f"\n[bold]Worker processes of one parent[/bold] (answer checked: {checked:,} stored integers equal brute force)")
    console.print(table)
    faster, dearer = (
        statistics.median(getattr(two, name) / getattr(one, name) for one, two in zip(outcome[1], outcome[2], strict=True))
        for name in ("rate", "cpu_per_million")
    )
    console.print(
        f"two are {faster:.2f} times as fast as one, at {dearer:.2f} times the CPU, on {os.cpu_count()} cores that broker and Redis share"
    )


def show_ways(name: str, ways: Mapping[str, Way], turns: Turns) -> None:
    million = turns.size.events / 1e6
    table = Table(name.lower(), "events/s", "of the floor", "CPU s/million", "Redis CPU s/million", "peak MB", "Redis MB")
    for words, way in ways.items():
        table.add_row(
            words,
            f"{turns.median(way, lambda run: turns.size.events / run.worker['seconds']):,.0f}",
            f"{turns.to_floor(way):.2f}",
            f"{turns.median(way, lambda run: run.worker['processor_seconds'] + run.redis_seconds) / million:.1f}",
            f"{turns.median(way, lambda run: run.redis_seconds) / million:.1f}",
            f"{turns.median(way, lambda run: run.worker['peak_mb']):.0f}",
            f"{turns.median(way, lambda run: run.redis_peak_mb):.0f}",
        )
    checked = f"{turns.integers_checked:,} stored integers equal brute force over all events"
    console.print(f"\n[bold]{name}[/bold] (answer checked: {checked})")
    console.print(table)


def part_engine(quick: bool, rounds: int, say: Say) -> None:
    sizes = (100, 10_000, 100_000) if quick else (100, 1_000, 10_000, 100_000, 1_000_000)
    turns_by_way: dict[tuple[int, bool], list[Mapping[str, Any]]] = {(users, way): [] for users in sizes for way in (True, False)}
    with tempfile.TemporaryDirectory(prefix="streammetrics-bench-") as directory:
        for number in range(rounds):
            for (users, experiments), turns in turns_by_way.items():
                if number and users == 1_000_000:  # minutes each: once is enough
                    continue
                say(f"engine alone: {users:,} users, experiments {'on' if experiments else 'off'}, round {number + 1}")
                given = {"users": users, "visits": max(34_000, users), "experiments": experiments}
                turns.append(parts.measure("engine_alone", given, Path(directory) / "log"))
    table = Table("users", "events", "experiments", "step µs", "save µs", "events/s, step", "events/s, step and save", "peak MB")
    rates: dict[bool, list[float]] = {True: [], False: []}
    for (users, experiments), turns in turns_by_way.items():
        step, save = (statistics.median(turn[f"{what}_seconds"] / turn["events"] for turn in turns) for what in ("step", "save"))
        rates[experiments].append(1 / (step + save))
        table.add_row(
            f"{users:,}",
            f"{turns[0]['events']:,}",
            "on" if experiments else "off",
            f"{step * 1e6:.2f}",
            f"{save * 1e6:.2f}",
            f"{1 / step:,.0f}",
            f"{1 / (step + save):,.0f}",
            f"{statistics.median(turn['peak_mb'] for turn in turns):,.0f}",
        )
    checked = sum(turn["checked"] for turns in turns_by_way.values() for turn in turns)
    console.print(f"\n[bold]Engine alone[/bold] (answer checked: {checked:,} stored integers equal plain counting)")
    console.print(table)
    for experiments, of_sizes in rates.items():
        least, words = min(of_sizes), "on" if experiments else "off"
        console.print(goal(least >= 200_000, f"{least:,.0f} events/s at least, step and save, experiments {words}, wanted 200,000"))
        spread = max(of_sizes) / least
        console.print(goal(spread <= 2, f"the fastest size is {spread:.2f} times the slowest, experiments {words}, wanted at most 2"))


def chosen(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    names = [name for name in value.split(",") if name]
    if unknown := [name for name in names if name not in PARTS]:
        raise click.BadParameter(f"{', '.join(unknown)}: the parts are {', '.join(PARTS)}", context, parameter)
    return names


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="Small sizes, one round each: shows that all works, in about a minute.")
@click.option("--rounds", type=click.IntRange(1), help="How often to measure what is measured in turns; 3 by default, 1 with --quick.")
@click.option("--only", default=",".join(PARTS), callback=chosen, help=f"Parts, separated by commas: {', '.join(PARTS)}.")
def main(quick: bool, rounds: int | None, only: list[str]) -> None:
    run: dict[str, Callable[[bool, int, Say], None]] = {
        "end-to-end": part_end_to_end,
        "flink": part_flink,
        "live": part_live,
        "skew": part_skew,
        "workers": part_workers,
        "pool": part_pool,
        "experiments": part_experiments,
        "engagement": part_engagement,
        "exposures": part_exposures,
        "engine": part_engine,
        "replay": alone.part_replay,
        "growth": alone.part_growth,
        "one-user": alone.part_one_user,
        "decoding": alone.part_decoding,
        "commit": alone.part_commit,
        "exporter": alone.part_exporter,
        "memory": alone.part_memory,
        "import": alone.part_import,
    }
    console.print(machine.description())
    for name in only:
        with progress() as say:
            run[name](quick, rounds or (1 if quick else 3), say)


if __name__ == "__main__":
    main()
