"""A seed -> settings, the share of each fault, and a list of events. The same seed always gives the same schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, NamedTuple

from tests.support import worker_bench

SETTINGS: Final = replace(worker_bench.SETTINGS, cutoffs=(3,), segments=())
"""The rules of windows. One cut-off, and no segments, make a run faster."""
EVENTS: Final[Mapping[str, int]] = {
    "turn": 42,
    "write": 17,
    "publish": 12,
    "time passes": 7,
    "a commit arrives": 5,
    "a task gets another owner": 4,
    "a member learns its tasks": 4,
    "a worker stalls with a commit on its way": 4,
    "a producer sends again": 2,
    "the worker dies": 2,
    "the worker stops": 1,
    "a worker more or less": 1,
    "restart with other settings": 1,
    "start with settings that do not fit": 1,
    "the exporter dies": 1,
    "failover": 2,
    "the clock steps": 2,
    "the brokers go or come": 1,
    "a server of the store goes or comes": 1,
    "the results topic goes or comes": 1,
    "the store evicts a key": 1,
}
"""The kinds of events, and how often each is chosen."""
FAULTS: Final[Mapping[str, float]] = {
    "a request to the store is lost": 0.1,
    "a reply of the store is lost": 0.1,
    "another process claims the task": 0.1,
    "the log does not answer": 0.2,
    "a dead letter is not taken": 0.5,
    "a process dies in a call": 0.1,
    "something happens in the middle of a step": 0.1,
    "a result is not taken": 0.5,
}
"""What may happen at a call, with the greatest chance of it. Each schedule has chances of its own."""
CALM: Final = ("turn", "write", "publish", "time passes", "a commit arrives")
"""Events without which little happens. Each schedule leaves out some of the others, so that each fault also comes without others."""


class Event(NamedTuple):
    """One event, and the seed of all that is chosen in it."""

    kind: str
    seed: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """What one run does. `shares` has the chance of each fault at each call."""

    seed: int
    tasks: int
    workers: int
    exporters: int
    rules: Mapping[str, Any]
    chunk_records: int
    ends_by_silence: bool
    stale_ms: int
    shares: Mapping[str, float]
    events: tuple[Event, ...]


def schedule_of(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    chance = Random(seed)
    kinds = [kind for kind in EVENTS if kind in CALM or chance.random() < 0.7]
    weights = [EVENTS[kind] for kind in kinds]
    chosen = chance.choices(kinds, weights, k=chance.choice((12, 24, 36, 48)))
    ticks = chance.random() < 0.3
    return Schedule(
        seed=seed,
        tasks=chance.choice((1, 1, 2, 3)),
        workers=chance.choice((1, 2, 2, 3)),
        exporters=chance.choice((1, 1, 2)),
        rules={**other_rules(chance), **({"idle_ms": chance.choice((6, 30))} if ticks else {})},
        chunk_records=chance.choice((1, 2, 1_000)),
        ends_by_silence=chance.random() < 0.3,
        stale_ms=chance.choice((200, 1 << 40)),
        shares={fault: chance.choice((0.0, 0.0, share / 5, share)) for fault, share in FAULTS.items()},
        events=tuple(Event(kind, chance.getrandbits(32)) for kind in chosen),
    )


def other_rules(chance: Random) -> dict[str, Any]:
    """Return settings of a worker that change no result."""
    return {
        "commit_ms": chance.choice((0, 3, 3, 20)),
        "commit_users_max": chance.choice((1, 3, 1_000)),
        "commit_bytes_max": chance.choice((300, 700, 1 << 20)),
        "cached_users_max": chance.choice((1, 6, 1_000)),
        "skew_ms_max": chance.choice((5, 40, 1 << 50)),
    }
