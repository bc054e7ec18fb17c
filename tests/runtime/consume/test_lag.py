"""Lag in records and seconds."""

from __future__ import annotations

import pytest

from streammetrics.connectors.source import Input
from streammetrics.events.model import Impression
from streammetrics.runtime.consume.lag import STANDSTILL_SECONDS
from tests.support.native_json import native_json
from tests.support.worker_bench import SETTINGS, START_MS, Bench


class TestLag:
    def test_lag_grows_while_records_wait_that_cannot_be_read(self) -> None:
        """A worker that cannot read because its store is unreachable must not look as if it kept up."""
        bench = Bench()
        place = Input(SETTINGS.inputs[0], 0)
        lag = bench.worker.status.lag_seconds
        value = native_json(Impression("x", "u", START_MS, ("a", "b")))
        bench.turn(seconds=50.0)
        bench.logs.append(place, value, bench.clock.wall_ms() - 7_000)
        bench.store.failures = 1.0
        bench.turn(5)
        assert bench.source.ends()[place] == 1
        assert lag[place] == pytest.approx(7.0, abs=0.2)
        for _ in range(6):
            bench.turn(seconds=10.0)
        assert lag[place] == pytest.approx(67.0, abs=0.5)
        bench.store.failures = 0.0
        bench.turn(3, seconds=10.0)
        assert (bench.offsets, lag[place]) == ([1, 0], 0.0)
        bench.turn(seconds=600.0)
        bench.logs.append(place, value, bench.clock.wall_ms())
        bench.turn()
        assert lag[place] < 1.0, "a new record has not waited since the one before it"


class TestStandstill:
    def test_an_input_that_has_records_and_does_not_move_is_named_with_the_reason_until_it_moves(self) -> None:
        bench = Bench()
        lists, status = Input(SETTINGS.inputs[0], 0), bench.worker.status
        bench.show(0)
        bench.turn(3)
        bench.store.failures = 1.0
        bench.show(1)
        bench.turn(5, seconds=STANDSTILL_SECONDS / 6)
        assert status.standstills == {}
        bench.turn(3, seconds=STANDSTILL_SECONDS / 6)
        assert list(status.standstills) == [lists]
        assert status.standstills[lists].offset == 1
        assert status.store_trouble is not None
        assert status.standstills[lists].reason == status.store_trouble.message
        bench.store.failures = 0.0
        bench.turn(4, seconds=10.0)
        assert (bench.offsets, status.standstills) == ([2, 0], {})

    def test_an_input_at_its_end_does_not_stand_still(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.turn(4, seconds=STANDSTILL_SECONDS)
        assert bench.worker.status.standstills == {}
