"""A backlog read by `streammetrics run --workers N`: events per second and processor time, for several N in turns over the same records.

The committed offsets are read several times a second. The measured time begins when a tenth of the events is committed, so that it has no
start of a process and no rebalance, and ends with the commit of the last one. After each run all tallies equal brute force.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from streammetrics.config import Settings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.engine.task_state import decode_control
from tests.tools.bench.end_to_end import PARTITIONS, SECONDS_MAX, Scene, Size, checkable, redis_seconds_of, scene_of, stored_rows
from tests.tools.bench.live import cpu_seconds, flat
from tests.tools.bench.parts import WrongAnswerError
from tests.tools.bench.truth import require_equal
from tests.tools.servers.product import Product, as_flags

LOOK_SECONDS = 0.05
PACE = {"worker.commit_ms": "250", "worker.commit_behind_ms": "250"}
"""The interval of commits is the resolution of the measured time."""
BEGIN_SHARE = 0.1


class PoolRound(NamedTuple):
    """One run: events per second, processor seconds per million events with Redis, and how many integers were compared."""

    rate: float
    cpu_per_million: float
    checked: int


def measure(size: Size, processes: Sequence[int], rounds: int, say: Callable[[str], None]) -> dict[int, list[PoolRound]]:
    """Read the same records with each number of processes, in turns."""
    rounds_by_count: dict[int, list[PoolRound]] = {count: [] for count in processes}
    with scene_of(size, say, {"group.initial.rebalance.delay.ms": "3000"}) as scene:
        for number in range(rounds):
            for count in processes:
                say(f"{count} worker processes, round {number + 1} of {rounds}")
                rounds_by_count[count].append(_round(scene, f"pool-{number}-{count}", count))
    return rounds_by_count


def _round(scene: Scene, name: str, count: int) -> PoolRound:
    given = scene.settings(name)
    settings, events = Settings.model_validate(given), len(scene.sent)
    flags = as_flags({**flat(given), **PACE, "worker.processes": str(count)})
    with contextlib.closing(RedisStore(settings.redis)) as store, Product(*flags) as product:
        first: tuple[int, float, float] | None = None
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            committed, now = _committed(store), time.monotonic()
            if first is None and committed >= BEGIN_SHARE * events:
                first = committed, now, cpu_seconds(product.pid) + redis_seconds_of(scene.redis)
            if committed == events:
                break
            if now > deadline:
                raise WrongAnswerError(f"{SECONDS_MAX} s after the start not all records are committed")
            time.sleep(LOOK_SECONDS)
        cpu = cpu_seconds(product.pid) + redis_seconds_of(scene.redis)
        assert first is not None
        begun, began, cpu_before = first
        product.stop()
        checked = require_equal(f"{count} worker processes", *checkable(stored_rows(settings, store), scene.expected))
    measured = events - begun
    return PoolRound(measured / (now - began), (cpu - cpu_before) * 1e6 / measured, checked)


def _committed(store: RedisStore) -> int:
    views = store.view(range(PARTITIONS), {}, tables=())
    return sum(offset or 0 for view in views.values() for offset in decode_control(view.control).progress.offsets)
