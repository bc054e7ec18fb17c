"""A million users come and go, in a real Redis: what is held at the peak, and what is left once event time has passed.

Every user sees one list and clicks once. All users come within half an hour of event time, before their sessions close, so at the peak
all of them are in memory. Two lists of another user, a month later, then end all sessions and experiments. This is done a second time
with a fiftieth of the users, because Redis frees the memory of a table in steps, one with each operation.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from streammetrics.config import Settings
from streammetrics.config.fields import MaskedUrl
from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.store import Commit, CommitOutcome
from streammetrics.engine.batch import Batch
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.runtime.consume.consumer import CHUNK_RECORDS_MAX
from streammetrics.runtime.consume.limits import CommitRoom, WorkerRules
from streammetrics.runtime.consume.prefetch import with_due
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.gc_tuning import tune_garbage_collection
from tests.tools.bench.parts import WrongAnswerError, read_given, reply
from tests.tools.bench.truth import INPUTS
from tests.tools.servers.redis import DeployedRedis

START_MS = 1_732_183_200_000
ITEMS = tuple(f"i{number:034d}" for number in range(12))
LABELS = (("ranker", "treatment"),)
KEYS = ("users", "due", "totals", "experiments")
LONG_MS = 32 * 86_400_000
"""Longer than an experiment is kept without a list, so that users' totals are deleted too."""
CLOCK = {"support_users": 1, "support_far_ms": 2 * LONG_MS}
"""Lets the one list of the last user move the time by a month."""


class Task:
    """One task with its state in Redis, stepped with the limits of the service."""

    def __init__(self, store: RedisStore) -> None:
        self.engine, self.store = build_engine(Settings.model_validate({"join": CLOCK}), INPUTS), store
        self.claim = store.claim(0, "bench")
        self.state = self.engine.open(None)
        self.seq, self.offsets = 0, [0, 0]
        self.rules = WorkerRules()
        self.room = CommitRoom(self.rules)

    def feed(self, topic: int, events: list[Event]) -> None:
        self.offsets[topic] += len(events)
        self.step(Batch(topic, [(self.offsets[topic], -1, (event,)) for event in events], self.offsets[topic]))
        self.commit()

    def step(self, batch: Batch | None) -> None:
        needs = self.engine.needs(self.state, batch)
        due_wanted = self.room.due_query(needs.due_before_ms)
        loaded = with_due(self.store, 0, self.store.load(0, needs.users, due_wanted, needs.totals), self.state.sessions.users)
        self.engine.load(self.state, needs, loaded)
        self.engine.step(self.state, batch, loaded.due)

    def commit(self) -> None:
        if self.engine.needs(self.state, None).totals:
            self.step(None)
        save = self.engine.save(self.state)
        self.seq += 1
        if self.store.commit(Commit(0, self.claim.epoch, "bench", self.seq, save.changes)) is not CommitOutcome.WRITTEN:
            raise WrongAnswerError("a commit was refused")
        self.engine.forget(self.state, self.rules.cached_users_max)


def come(task: Task, users: int, start_ms: int) -> None:
    """Let users come within 25 minutes, each with a list and a click."""
    for first in range(0, users, CHUNK_RECORDS_MAX):
        numbers = range(first, min(users, first + CHUNK_RECORDS_MAX))
        times = [start_ms + number * 1_500_000 // users for number in numbers]
        impressions: list[Event] = [
            Impression(f"r{number}", f"u{number}", ts, ITEMS, LABELS) for number, ts in zip(numbers, times, strict=True)
        ]
        clicks: list[Event] = [
            Feedback(f"u{number}", ts + 5_000, ITEMS[number % 12], "click", None, f"r{number}")
            for number, ts in zip(numbers, times, strict=True)
        ]
        task.feed(0, impressions)
        task.feed(1, clicks)


def go(task: Task, end_ms: int) -> None:
    """Let event time pass until no user is left."""
    for topic in (0, 1):
        task.feed(topic, [Impression("later", "clock", end_ms, ())])
    while task.engine.needs(task.state, None).due_before_ms is not None:
        task.step(None)
        task.commit()


def run(users: int, store: RedisStore, held: Any) -> dict[str, Any]:
    empty = held()
    task, stragglers = Task(store), users // 50
    come(task, users, START_MS)
    peak = held()
    go(task, START_MS + LONG_MS)
    come(task, stragglers, START_MS + LONG_MS)
    go(task, START_MS + 2 * LONG_MS)
    rest = held()
    matched = sum(count for (reason, _), count in task.state.progress.counts.items() if reason == "matched")
    clock_lists = 1  # of the first passing of time: its copy is a duplicate, and the list of the second is not final
    expected = users + stragglers
    if (matched, task.state.panes.totals["", ""][0] - clock_lists) != (expected, expected):
        raise WrongAnswerError(f"{matched} clicks matched and {task.state.panes.totals['', ''][0]} lists were final, of {expected} each")
    return {"empty": empty, "peak": peak, "rest": rest}


def main() -> None:
    tune_garbage_collection()
    users = read_given()["users"]
    with DeployedRedis() as redis, redis.client() as client:

        def held() -> dict[str, float]:
            gc.collect()
            status = Path("/proc/self/status").read_text()
            return {
                "users": int(client.hlen("{memory:0}:users")),
                "due": int(client.zcard("{memory:0}:due")),
                "state_bytes": sum(int(client.memory_usage(f"{{memory:0}}:{key}", samples=100) or 0) for key in KEYS),
                "redis_mb": int(client.info("memory")["used_memory"]) / (1 << 20),
                "process_mb": int(status.partition("VmRSS:")[2].split()[0]) / 1_024,
            }

        store = RedisStore(RedisSettings(url=MaskedUrl(redis.url), namespace="memory"))
        result = run(users, store, held)
        store.close()
    reply(result)


if __name__ == "__main__":
    main()
