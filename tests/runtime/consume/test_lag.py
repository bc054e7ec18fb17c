"""Lag in records and seconds."""

from __future__ import annotations

import pytest

from streammetrics.connectors.source import Input
from streammetrics.events.model import Impression
from tests.support.native_json import native_json
from tests.support.worker_bench import SETTINGS, START_MS, Bench


class TestLag:
    def test_lag_grows_while_records_wait_that_cannot_be_read(self) -> None:
        """A worker that cannot read because its store is unreachable must not look as if it kept up."""
        bench = Bench()
        shown = Input(SETTINGS.inputs[0], 0)
        lag = bench.worker.status.lag_seconds
        value = native_json(Impression("x", "u", START_MS, ("a", "b")))
        bench.turn(seconds=50.0)
        bench.logs.append(shown, value, bench.clock.wall_ms() - 7_000)
        bench.store.failures = 1.0
        bench.turn(5)
        assert bench.source.ends()[shown] == 1
        assert lag[shown] == pytest.approx(7.0, abs=0.2)
        for _ in range(6):
            bench.turn(seconds=10.0)
        assert lag[shown] == pytest.approx(67.0, abs=0.5)
        bench.store.failures = 0.0
        bench.turn(3, seconds=10.0)
        assert (bench.offsets, lag[shown]) == ([1, 0], 0.0)
        bench.turn(seconds=600.0)
        bench.logs.append(shown, value, bench.clock.wall_ms())
        bench.turn()
        assert lag[shown] < 1.0, "a new record has not waited since the one before it"
