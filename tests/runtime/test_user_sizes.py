"""Large users are evicted by their size."""

from __future__ import annotations

from streammetrics.connectors.source import Input
from streammetrics.events.model import Impression
from tests.support.native_json import native_json
from tests.support.worker_bench import SETTINGS, START_MS, Bench, assert_exact


class TestCache:
    def test_large_users_are_evicted_beyond_the_byte_limit_of_the_cache(self) -> None:
        bench = Bench(commit_users_max=1_000, cached_users_max=1_000, cached_bytes_max=30_000, commit_bytes_max=1 << 20)
        items = tuple(f"{number:0100}" for number in range(60))
        for number in range(20):
            shown = Impression(f"list-{number}", f"u{number}", START_MS, items)
            bench.logs.append(Input(SETTINGS.inputs[0], 0), native_json(shown))
        bench.show(0, user="small")
        bench.turn(3)
        state = bench.worker.tasks[0].state
        assert state is not None
        assert len(state.sessions.users) == 5
        assert "small" in state.sessions.users
        for number in range(20):
            bench.click(0, user=f"u{number}")
        bench.turn(3)
        assert_exact(bench.store, bench.logs, bench.engine)
