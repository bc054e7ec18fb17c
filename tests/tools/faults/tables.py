"""What a run shows: a table of faults, a graph of the lag with the faults marked, and a table of what processes held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from streammetrics.words.numbers import counted
from tests.tools.faults.deployment import Deployment
from tests.tools.faults.watch import LAG_SECONDS_MAX, RECOVERY_SECONDS_MAX, FaultError, Held, Sample, Suffered

WIDTH, HEIGHT = 100, 8
BLOCKS = " ▁▂▃▄▅▆▇█"
MARKS = "123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
STEADY = ("worker-1", "exporter")
"""The processes that live through a soak."""
RESIDENT_GROWTH, RESIDENT_MB = 1.10, 5
DESCRIPTORS = 3


def recovery_table(suffered: Sequence[Suffered]) -> Table:
    """Return a row for each fault. Times are in seconds; `recovered` counts from the end of the fault."""
    table = _table("", "fault", "at s", "for s", "greatest lag s", "recovered after s")
    for number, outcome in enumerate(suffered):
        recovered = "never" if outcome.recovered is None else f"{outcome.recovered:.1f}"
        numbers = (f"{outcome.begin:.0f}", f"{outcome.healed - outcome.begin:.0f}", f"{outcome.lag_max:.1f}", recovered)
        table.add_row(MARKS[number % len(MARKS)], outcome.fault.text, *numbers)
    return table


def recovery_line(suffered: Sequence[Suffered]) -> str:
    """Return how long recovery took over all faults."""
    times = sorted(outcome.recovered for outcome in suffered if outcome.recovered is not None)
    noticed = [outcome for outcome in suffered if outcome.lag_max > LAG_SECONDS_MAX]
    took = f"recovered after {median(times):.1f} s (median), {times[-1]:.1f} s (longest)" if times else "none recovered"
    return (
        f"{counted(len(suffered), 'fault')}; {len(noticed)} raised the lag above {LAG_SECONDS_MAX:g} s; {took}; 0: before the fault ended"
    )


def graph(samples: Sequence[Sample], suffered: Sequence[Suffered]) -> list[str]:
    """Return the lines of a graph: the greatest lag of each column, and below it the number of the fault that then lasted."""
    if not samples:
        return []
    width = min(WIDTH, len(samples))
    span, top = samples[-1].at / width or 1.0, max(sample.lag for sample in samples)
    columns = [0.0] * width
    for sample in samples:
        place = min(width - 1, int(sample.at / span))
        columns[place] = max(columns[place], sample.lag)
    marks = [" "] * width
    for number, outcome in enumerate(suffered):
        for place in range(int(outcome.begin / span), min(width - 1, int(outcome.healed / span)) + 1):
            marks[place] = MARKS[number % len(MARKS)]
    rows = [_row(columns, top, level) for level in reversed(range(HEIGHT))]
    title = f"lag in seconds; a column is {span:.1f} s; below it, the fault that lasted then"
    return [title, *rows, f"{'':9}+{'-' * width}", f"{'':10}{''.join(marks)}"]


def _row(columns: Sequence[float], top: float, level: int) -> str:
    filled = (min(1.0, max(0.0, lag / top * HEIGHT - level)) for lag in columns)
    return f"{top * (level + 1) / HEIGHT:8.1f} |{''.join(BLOCKS[round(part * (len(BLOCKS) - 1))] for part in filled)}"


def held_table(samples: Sequence[Sample]) -> Table:
    """Compare what processes held in the first and the last third: medians, and the number of processes that had the name."""
    table = _table("process", "started", "MB first third", "MB last third", "descriptors first", "descriptors last")
    for name in sorted({name for sample in samples for name in sample.held}):
        started = len({sample.held[name].pid for sample in samples if name in sample.held})
        first, last = thirds(samples, name)
        numbers = (f"{first.resident_mb:.1f}", f"{last.resident_mb:.1f}", str(first.descriptors), str(last.descriptors))
        table.add_row(name, str(started), *numbers)
    return table


def thirds(samples: Sequence[Sample], name: str) -> tuple[Held, Held]:
    """Return the medians of the first and of the last third."""
    held_values = [sample.held[name] for sample in samples if name in sample.held]
    third = max(1, len(held_values) // 3)
    first, last = (
        Held(part[-1].pid, median(sample.resident_mb for sample in part), round(median(sample.descriptors for sample in part)))
        for part in (held_values[:third], held_values[-third:])
    )
    return first, last


def require_flat(samples: Sequence[Sample]) -> str:
    """Return the bound that the processes that lived through the run have kept. Raises FaultError for one that has not."""
    bound = f"at most {RESIDENT_GROWTH - 1:.0%} + {RESIDENT_MB} MB and {DESCRIPTORS} descriptors more in the last third"
    for name in STEADY:
        first, last = thirds(samples, name)
        if last.resident_mb > first.resident_mb * RESIDENT_GROWTH + RESIDENT_MB or last.descriptors > first.descriptors + DESCRIPTORS:
            raise FaultError(f"{name} holds more and more: {first} in the first third, {last} in the last; allowed: {bound}")
    return f"{' and '.join(STEADY)} are flat: {bound}"


def require_recovered(outcome: Suffered) -> None:
    """Raise FaultError if the numbers did not come back on time after a fault."""
    if outcome.recovered is None:
        raise FaultError(f"after '{outcome.fault.text}' the numbers were late for {RECOVERY_SECONDS_MAX:.0f} s")


def line(outcome: Suffered) -> str:
    """Return a line for a fault that has just ended."""
    recovered = "never" if outcome.recovered is None else f"after {outcome.recovered:.1f} s"
    return (
        f"{outcome.begin:6.0f} s  {outcome.fault.text}, {outcome.fault.seconds} s: lag up to {outcome.lag_max:.1f} s, recovered {recovered}"
    )


def notes(deployment: Deployment, commits: Mapping[str, int]) -> list[str]:
    """Return how commits ended, and which processes ended by themselves."""
    ended = ", ".join(f"{count:,} {status}" for status, count in sorted(commits.items()))
    restarts = ", ".join(f"{name} {count} times" for name, count in deployment.restarts.items()) or "none"
    return [
        f"commits since each worker's last start: {ended}",
        f"processes that ended by themselves and were started again: {restarts}",
    ]


def show(console: Console, suffered: Sequence[Suffered], samples: Sequence[Sample]) -> None:
    """Print the tables and the graph."""
    console.print(recovery_table(suffered))
    for line in graph(samples, suffered):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if suffered:
        console.print(recovery_line(suffered), highlight=False, soft_wrap=True)
    console.print(held_table(samples))


def _table(*names: str) -> Table:
    table = Table(box=MARKDOWN)
    for name in names:
        table.add_column(name, justify="left" if name in ("", "fault", "process") else "right", overflow="fold")
    return table
