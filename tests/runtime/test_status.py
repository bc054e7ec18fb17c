"""The status of several processes as one."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from streammetrics.connectors.source import Input
from streammetrics.connectors.store import StoreNode
from streammetrics.runtime.retry import Trouble
from streammetrics.runtime.status import ProcessStatus, snapshot, total, update_merged

ONE, OTHER = Input("events", 0), Input("events", 1)
OF_PARENT = {"started_seconds", "publish_trouble", "store_nodes", "down"}


def worker(place: Input, *, ready: bool = True, beat: float = 50.0, commits: int = 2) -> ProcessStatus:
    status = ProcessStatus(started_seconds=10.0, beat_seconds=beat, ready=ready, rebalances=1, client_rebuilds=2, dead_letters=3)
    status.paused_inputs, status.cached_users = 1, 7
    status.lag_records, status.lag_seconds = {place: 5}, {place: 0.5}
    status.records[place.topic] = 100
    status.dead_letters_lost[place.topic] = 1
    status.commits["written"] = commits
    for _ in range(commits):
        status.commit_times.observe(0.02)
    return status


def test_counters_of_running_and_ended_processes_are_summed() -> None:
    merged = ProcessStatus()
    update_merged(merged, [worker(ONE), worker(OTHER)], [worker(ONE)], expected=2)
    assert (merged.rebalances, merged.client_rebuilds, merged.dead_letters) == (3, 6, 9)
    assert (merged.commits["written"], merged.records["events"], merged.dead_letters_lost["events"]) == (6, 300, 3)
    assert merged.commit_times.count == merged.commit_times.buckets[-1] == 6
    assert merged.commit_times.sum_seconds == pytest.approx(0.12)


def test_what_a_process_holds_ends_with_it() -> None:
    merged = ProcessStatus()
    update_merged(merged, [worker(ONE), worker(OTHER)], [], expected=2)
    assert (merged.cached_users, merged.paused_inputs) == (14, 2)
    assert (merged.lag_records, merged.lag_seconds) == ({ONE: 5, OTHER: 5}, {ONE: 0.5, OTHER: 0.5})
    update_merged(merged, [worker(OTHER)], [worker(ONE)], expected=2)
    assert (merged.cached_users, merged.paused_inputs, merged.lag_records) == (7, 1, {OTHER: 5})


def test_all_processes_must_be_ready() -> None:
    merged = ProcessStatus()
    for running, is_ready in (
        ([worker(ONE), worker(OTHER)], True),
        ([worker(ONE), worker(OTHER, ready=False)], False),
        ([worker(ONE)], False),
        ([], False),
    ):
        update_merged(merged, running, [], expected=2)
        assert merged.ready is is_ready


def test_the_oldest_beat_and_the_longest_trouble_count() -> None:
    long, short = Trouble(20.0, 9, "refused"), Trouble(40.0, 1, "timeout")
    hanging = replace(worker(ONE, beat=12.0), store_trouble=short, source_trouble=long)
    merged = ProcessStatus()
    update_merged(merged, [worker(OTHER), hanging, replace(worker(OTHER), store_trouble=long)], [], expected=3)
    assert (merged.beat_seconds, merged.store_trouble, merged.source_trouble) == (12.0, long, long)


def test_a_process_without_a_turn_has_the_time_since_its_start() -> None:
    merged = ProcessStatus()
    update_merged(merged, [worker(ONE, beat=0.0)], [], expected=1)
    assert merged.beat_seconds == 10.0


def test_the_fields_of_the_parent_stay() -> None:
    trouble = Trouble(1.0, 1, "gone")
    merged = ProcessStatus(started_seconds=3.0, publish_trouble=trouble, store_nodes=(StoreNode("a:1"),), down={"worker 1": trouble})
    before = {name: getattr(merged, name) for name in OF_PARENT}
    update_merged(merged, [worker(ONE)], [], expected=1)
    assert {name: getattr(merged, name) for name in OF_PARENT} == before


def test_every_other_field_is_merged() -> None:
    merged, one = ProcessStatus(), replace(worker(ONE), source_trouble=Trouble(1.0, 1, "a"), store_trouble=Trouble(1.0, 1, "b"))
    one.group_conflict = "another group"
    update_merged(merged, [one], [], expected=1)
    names = [field.name for field in fields(ProcessStatus) if field.name not in OF_PARENT]
    assert {name: getattr(merged, name) for name in names} == {name: getattr(one, name) for name in names}


def test_one_status_stands_for_many_that_have_ended() -> None:
    directly, by_total = ProcessStatus(), ProcessStatus()
    ended = [worker(ONE), worker(OTHER, commits=5), worker(ONE, commits=0)]
    update_merged(directly, [worker(ONE)], ended, expected=1)
    update_merged(by_total, [worker(ONE)], [total([total(ended[:2]), ended[2]])], expected=1)
    assert by_total == directly


def test_a_snapshot_does_not_change_with_the_status() -> None:
    status = worker(ONE)
    taken, again = snapshot(status), snapshot(status)
    status.lag_records[OTHER] = status.lag_seconds[OTHER] = 1
    status.commits["written"] += 1
    status.records["events"] += 1
    status.commit_times.observe(0.02)
    assert taken == again != status
