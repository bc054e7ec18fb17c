"""The parts that need no broker: each measures one thing by itself and prints its tables."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.table import Table

from streammetrics.runtime.consume.limits import WorkerRules
from tests.tools.bench import commit, decoding, growth_tables, importing, one_user, parts, replaying
from tests.tools.bench.shown import Say, console, goal

COMMIT_USERS = 2_000


def part_replay(quick: bool, rounds: int, say: Say) -> None:
    outcome = replaying.measure(50_000 if quick else 300_000, rounds, say)
    console.print(
        f"\n[bold]Replay[/bold] of {outcome.events:,} events in a file (answer checked: {outcome.checked} counts equal plain counting)"
    )
    console.print(outcome.table())
    for reached, text in outcome.goals():
        console.print(goal(reached, text))


def part_growth(quick: bool, rounds: int, say: Say) -> None:
    outcome = growth_tables.measure(quick, rounds, say)
    console.print(f"\n[bold]Growth[/bold], engine alone in steady state (answer checked: {outcome.checked} users and lists of variants)")
    console.print(outcome.costs())
    console.print("\n[bold]Bytes per event[/bold] of users with four events a second, one session each")
    console.print(outcome.bytes_by_minute())
    for reached, text in outcome.goals():
        console.print(goal(reached, text))


def part_one_user(quick: bool, rounds: int, say: Say) -> None:
    table, checked, steepest = one_user.measure(1 if quick else rounds, say)
    console.print(f"\n[bold]One user[/bold], processor µs of the engine for each event (answer checked: {checked:,} clicks matched)")
    console.print(table)
    words = f"an event of the longest session costs {steepest:.2f} times that of the shortest"
    console.print(goal(steepest <= 1.5, f"{words}, wanted at most 1.5"))


def part_decoding(quick: bool, rounds: int, say: Say) -> None:
    say("decoding")
    table = Table("event", "native, us", "through a reader, us", "ratio")
    for cost in decoding.costs():
        table.add_row(cost.name, f"{cost.native:.2f}", f"{cost.read:.2f}", f"{cost.ratio():.2f}")
    console.print("\n[bold]Decoding[/bold], processor time of one event (answer checked: equal events)")
    console.print(table)


def part_commit(quick: bool, rounds: int, say: Say) -> None:
    p50_ms = {}
    for users in (COMMIT_USERS, WorkerRules().commit_users_max):
        say(f"commits of {users:,} users")
        outcome = commit.measure(users, 100 if quick else 500)
        p50_ms[users] = outcome["p50_ms"]
        console.print(f"\n[bold]Commit[/bold] of {users:,} users (answer checked: read back): ", end="")
        console.print(f"p50 {outcome['p50_ms']:.1f} ms, p99 {outcome['p99_ms']:.1f} ms over {outcome['commits']} commits")
    console.print(goal(p50_ms[COMMIT_USERS] <= 25, f"{p50_ms[COMMIT_USERS]:.1f} ms for {COMMIT_USERS:,} users, wanted at most 25"))


def part_exporter(quick: bool, rounds: int, say: Say) -> None:
    say("exporter")
    with tempfile.TemporaryDirectory(prefix="streammetrics-bench-") as directory:
        outcome = parts.measure("exporter", {"series_max": 50_000, "seconds": 5 if quick else 20}, Path(directory) / "log")
    table = Table(
        "series", "page MB", "a second without clients, ms", "new scrape, ms", "scrape of the same report, ms", "new /api/report, ms"
    )
    milliseconds = [f"{outcome[name] * 1e3:.1f}" for name in ("calm", "scrape", "repeat", "report")]
    table.add_row(f"{outcome['series']:,}", f"{outcome['page_bytes'] / 1e6:.1f}", *milliseconds)
    console.print(f"\n[bold]Exporter[/bold], processor time (answer checked: {outcome['checked']:,} values equal the report)")
    console.print(table)
    console.print(goal(outcome["calm"] <= 0.05, f"{outcome['calm'] * 1e3:.0f} ms per second without clients, wanted at most 50"))
    console.print(goal(outcome["scrape"] <= 1.2, f"{outcome['scrape']:.2f} s per scrape, wanted at most 1.2"))


def part_memory(quick: bool, rounds: int, say: Say) -> None:
    users = 50_000 if quick else 1_000_000
    say(f"memory: {users:,} users come and go")
    with tempfile.TemporaryDirectory(prefix="streammetrics-bench-") as directory:
        outcome = parts.measure("memory", {"users": users}, Path(directory) / "log")
    table = Table("", "users in Redis", "users due", "MB of their state", "MB of Redis", "MB of the process")
    for when in ("empty", "peak", "rest"):
        held = outcome[when]
        mb = held["state_bytes"] / (1 << 20)
        table.add_row(
            when, f"{held['users']:,}", f"{held['due']:,}", f"{mb:,.2f}", f"{held['redis_mb']:,.1f}", f"{held['process_mb']:,.0f}"
        )
    console.print(f"\n[bold]Memory[/bold]: {users:,} users come and go (answer checked: every click matched, every list final)")
    console.print(table)
    keys, state = (outcome["rest"][what] / outcome["peak"][what] for what in ("users", "state_bytes"))
    console.print(goal(max(keys, state) <= 0.01, f"{keys:.4%} of peak keys and {state:.4%} of peak state remain, wanted at most 1 %"))


def part_import(quick: bool, rounds: int, say: Say) -> None:
    say("import")
    seconds, numpy_seconds, third_party = importing.measure(5 if quick else 15)
    console.print(f"\n[bold]import streammetrics[/bold]: {seconds:.3f} s, of which numpy {numpy_seconds:.3f} s; loads {third_party}")
    console.print(
        goal(seconds <= 0.2 and third_party == ["numpy", "streammetrics"], f"{seconds:.3f} s and numpy only, wanted at most 0.2 s")
    )
