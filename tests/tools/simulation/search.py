"""Runs the schedules of many seeds, and shrinks the events of one that fails."""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import Pool

import structlog

from streammetrics.runtime.consume import consumer
from tests.tools.simulation.ending import settle
from tests.tools.simulation.events import happen
from tests.tools.simulation.laws import check
from tests.tools.simulation.schedule import Schedule, schedule_of
from tests.tools.simulation.world import World

SEEDS_AT_ONCE = 20
TRIES_MAX = 400
"""Most runs while events are shrunk."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one schedule. `failure`: the law that it broke, in one line; empty if it broke none. `trace`: where."""

    seed: int
    seen: Counter[str]
    states: Counter[str]
    failure: str = ""
    trace: str = ""


def run(schedule: Schedule) -> Outcome:
    """Carry out a schedule and check every law."""
    world, chunk_records = World(schedule), consumer.CHUNK_RECORDS_MAX
    consumer.CHUNK_RECORDS_MAX = schedule.chunk_records
    try:
        for event in schedule.events:
            happen(world, event)
        settle(world)
        check(world)
    except Exception as error:  # whatever it is, this schedule shows it
        words = str(error).split("\n")[0] or traceback.extract_tb(error.__traceback__)[-1].line
        failure, trace = f"{type(error).__name__}: {words}", "".join(traceback.format_exception(error))
        return Outcome(schedule.seed, world.fate.seen, world.fate.states, failure, trace)
    finally:
        consumer.CHUNK_RECORDS_MAX = chunk_records
    return Outcome(schedule.seed, world.fate.seen, world.fate.states)


def only(schedule: Schedule, kept: Collection[int]) -> Schedule:
    """Return a schedule with some of its events, by number."""
    return replace(schedule, events=tuple(event for number, event in enumerate(schedule.events) if number in kept))


def shrink(count: int, fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return the numbers of few of `count` events with which a schedule still fails. It first leaves out many together, then single ones.

    >>> shrink(40, lambda kept: {7, 30} <= set(kept))
    [7, 30]
    """
    kept, tries = list(range(count)), 0
    size = max(1, count // 2)
    while tries < TRIES_MAX:
        start, before = 0, len(kept)
        while start < len(kept) and tries < TRIES_MAX:
            fewer = kept[:start] + kept[start + size :]
            tries += 1
            if fails(fewer):
                kept = fewer
            else:
                start += size
        if size == 1 and len(kept) == before:
            break
        size = max(1, size // 2)
    return kept


def quiet_logs() -> None:
    """Drop the log lines of the product: a run makes hundreds."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def run_seeds(seeds: Sequence[int]) -> list[Outcome]:
    """Run the schedules of some seeds in this process."""
    quiet_logs()
    return [run(schedule_of(seed)) for seed in seeds]


def run_all(seeds: range, jobs: int) -> Iterator[Outcome]:
    """Run the schedules of all seeds in several processes. Outcomes come in no particular order."""
    parts = [seeds[start : start + SEEDS_AT_ONCE] for start in range(0, len(seeds), SEEDS_AT_ONCE)]
    if jobs == 1:
        for part in parts:
            yield from run_seeds(part)
        return
    with Pool(jobs) as pool:  # it ends its processes when a search stops early
        for outcomes in pool.imap_unordered(run_seeds, parts):
            yield from outcomes
