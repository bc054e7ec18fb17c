"""Tests of the simulated source and of the time lapse."""

from __future__ import annotations

import re

from streammetrics.connectors.simulated import Traffic, generate
from streammetrics.connectors.simulated.source import SimulatedSource, time_lapse
from streammetrics.connectors.source import Input


class StandingClock:
    """A clock that its owner moves."""

    def __init__(self, wall_ms: int) -> None:
        self.ms = wall_ms

    def monotonic(self) -> float:
        return self.ms / 1_000

    def wall_ms(self) -> int:
        return self.ms


def test_a_simulated_source_delivers_each_due_record_once_and_a_user_to_one_task() -> None:
    traffic = Traffic(users=50, seed=2, disorder_ms=0)
    wanted = list(generate(traffic, until_ms=traffic.start_ms + 60_000))
    clock = StandingClock(traffic.start_ms + 30_000)
    source = SimulatedSource(iter(wanted), ("impressions", "feedback"), 3, clock)
    assert source.poll(0).assigned == {0, 1, 2}
    assert source.poll(0).records == {}, "nothing before every task was started"
    for task in range(3):
        assert source.start(task, {}) == dict.fromkeys(source.inputs_of(task), 0)
    got: dict[Input, list[bytes | None]] = {}
    counts = []
    for seconds in (30, 60):
        clock.ms = traffic.start_ms + 1_000 * seconds
        for place, records in source.poll(0).records.items():
            before = got.setdefault(place, [])
            assert [record.offset for record in records] == list(range(len(before), len(before) + len(records)))
            before += [record.value for record in records]
        counts.append(sum(map(len, got.values())))
    assert counts == [sum(sent.ts <= traffic.start_ms + 30_000 for sent in wanted), len(wanted)]
    assert source.ends() == {place: len(got.get(place, [])) for task in range(3) for place in source.inputs_of(task)}
    tasks: dict[bytes, set[int]] = {}
    for place, taken in got.items():
        for sent in wanted:
            if sent.value in taken and sent.topic == place.topic:
                tasks.setdefault(sent.key, set()).add(place.partition)
    assert set(map(len, tasks.values())) == {1}
    assert len(set.union(*tasks.values())) == 3


def test_a_time_lapse_changes_only_the_times() -> None:
    traffic = Traffic(users=50, seed=2, malformed_rate=0.1)
    wanted = list(generate(traffic, 500))
    lapsed = list(time_lapse(wanted, traffic.start_ms, 10))
    assert [(sent.topic, sent.key, len(sent.value)) for sent in lapsed] == [(sent.topic, sent.key, len(sent.value)) for sent in wanted]
    assert [sent.ts - traffic.start_ms for sent in lapsed] == [(sent.ts - traffic.start_ms) // 10 for sent in wanted]
    untimed = [re.sub(rb'"ts":\d{13}', b"", sent.value) for sent in wanted]
    assert [re.sub(rb'"ts":\d{13}', b"", sent.value) for sent in lapsed] == untimed
