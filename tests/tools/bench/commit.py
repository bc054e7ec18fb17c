"""One commit to a real Redis: how long it takes on the wall, with the append-only file on (everysec)."""

from __future__ import annotations

import statistics
import time

from streammetrics.config.fields import MaskedUrl
from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.store import Commit, CommitOutcome
from streammetrics.state.tables import StateChanges
from tests.tools.bench.parts import WrongAnswerError
from tests.tools.servers.redis import DeployedRedis

STATE_BYTES = 600
"""About the stored size of a session with a list and two feedbacks of the end-to-end run."""
WARM_UP = 10


def measure(users_each: int, commits: int) -> dict[str, float]:
    """Return the milliseconds of commits. Each writes this many users and their due times, of ten times as many users."""
    with DeployedRedis() as redis:
        store = RedisStore(RedisSettings(url=MaskedUrl(redis.url), namespace="commit"))
        claim = store.claim(0, "bench")
        taken: list[float] = []
        for number in range(commits + WARM_UP):
            users = {
                f"u{(number * users_each + index) % (10 * users_each)}": bytes([index % 251]) * STATE_BYTES for index in range(users_each)
            }
            due = {user: number * 1_000 + index for index, user in enumerate(users)}
            changes = StateChanges(b"{}", {"panes": {str(number): b"x" * 4_000}}, users=users, due=due)
            commit = Commit(0, claim.epoch, "bench", number + 1, changes)
            began = time.perf_counter()
            outcome = store.commit(commit)
            taken.append(1_000 * (time.perf_counter() - began))
            if outcome is not CommitOutcome.WRITTEN:
                raise WrongAnswerError(f"commit {number + 1} was {outcome.value}")
        last = store.load(0, users).users
        if last != users:
            raise WrongAnswerError("the last commit is not what is read back")
        store.close()
    ordered = sorted(taken[WARM_UP:])
    return {"p50_ms": statistics.median(ordered), "p99_ms": ordered[int(0.99 * len(ordered))], "commits": commits}
