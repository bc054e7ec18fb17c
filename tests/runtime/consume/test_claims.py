"""When a worker may claim a task, and which stored state it rejects."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from streammetrics.connectors.source import LogIds
from streammetrics.errors import StateError, UnfitStateError
from streammetrics.runtime.consume.claims import RECENT_SECONDS, group_of_token
from streammetrics.windows.pane_tallies import PANES
from tests.support.machine import engine_of
from tests.support.worker_bench import START_MS, Bench, assert_exact


class TestClaims:
    def test_a_fenced_task_is_dropped_and_claimed_again_after_a_while(self) -> None:
        bench = Bench(fenced_wait_seconds=5.0)
        bench.show(0)
        bench.turn()
        bench.store.steal(0, "another worker")
        bench.show(1)
        with capture_logs() as lines:
            bench.turn()
        assert bench.worker.status.commits["fenced"] == 1
        assert bench.worker.tasks[0].state is None
        assert not bench.worker.status.lag_records, "the new owner reports the lag"
        assert not bench.worker.status.lag_seconds
        assert [line["event"] for line in lines if line["log_level"] == "warning"] == [
            "commit refused: another worker has claimed the task and reads it now; nothing is lost"
        ]
        bench.turn(20, seconds=0.2)
        assert bench.worker.tasks[0].state is None
        assert bench.source.paused == set(bench.source.inputs_of(0))
        bench.turn(2, seconds=2.0)
        assert bench.offsets == [2, 0]
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_claim_names_the_consumer_group_of_its_worker(self) -> None:
        bench = Bench()
        bench.replace_worker(group_id="ranking")
        bench.turn()
        assert group_of_token(bench.store.owner(0)) == "ranking"

    def test_each_claim_has_a_new_token(self) -> None:
        bench = Bench()
        tokens = set()
        for _ in range(3):
            bench.replace_worker(group_id="ranking")
            bench.turn()
            tokens.add(bench.store.owner(0))
        assert len(tokens) == 3

    def test_panes_that_were_final_before_a_claim_leave_the_store_as_well(self) -> None:
        bench = Bench()
        bench.engine = engine_of(bench.settings, retention_ms=40)
        bench.replace_worker()
        kept = []
        for ts in (0, 30, 120):
            bench.show(ts)
            bench.click(ts)
            bench.turn(5)
            kept.append(sorted(int(start) - START_MS for start in bench.store.view([0], {})[0].table(PANES)))
            bench.replace_worker()
        assert kept == [[0], [0, 28], [120]]

    def test_a_task_taken_twice_by_another_consumer_group_is_a_conflict_until_it_stops(self) -> None:
        bench = Bench(fenced_wait_seconds=5.0)
        bench.replace_worker(group_id="one")
        logged = []
        for number, owner in enumerate(("a:one", "b", "c:two", "d:two", "e:two")):
            bench.show(10 * number)
            bench.turn(3)
            bench.store.steal(0, owner)
            bench.show(10 * number + 1)
            with capture_logs() as lines:
                bench.turn()
            logged.append([(line["log_level"], line.get("group_of_owner")) for line in lines])
            bench.turn(3, seconds=3.0)
        assert logged == [
            [("warning", None)],
            [("warning", None)],
            [("warning", "two")],
            [("error", None), ("warning", "two")],
            [("warning", "two")],
        ]
        assert bench.worker.status.group_conflict.startswith("consumer groups 'one' and 'two' use the same redis.namespace")
        bench.turn(seconds=RECENT_SECONDS)
        assert bench.worker.status.group_conflict == ""
        bench.worker.finish()
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_worker_that_cannot_reach_kafka_does_not_take_a_task_from_its_new_owner(self) -> None:
        """It cannot learn that it lost the task. Each of its claims would fence the new owner."""
        bench = Bench(fenced_wait_seconds=5.0)
        cut_off, its_source = bench.worker, bench.source
        its_source.health = replace(its_source.health, reachable=False)
        bench.replace_worker()

        def run(seconds: int) -> None:
            for _ in range(seconds):
                bench.show(int(bench.clock.monotonic() * 1_000))
                bench.turn(seconds=1.0)
                cut_off.turn()

        run(60)
        assert (cut_off.status.commits["fenced"], bench.worker.status.commits["fenced"]) == (1, 0)
        its_source.health = replace(its_source.health, reachable=True, since=bench.clock.monotonic())
        run(4)  # soon the group informs it
        assert bench.worker.status.commits["fenced"] == 0
        assert bench.worker.status.commits["written"] > 60

    def test_a_topic_that_was_deleted_and_created_again_is_refused(self) -> None:
        bench = Bench()
        bench.replace_worker(logs=LogIds("here", {"impressions": "one", "feedback": "two"}))
        bench.show(0)
        bench.turn()
        bench.replace_worker(logs=LogIds())  # without ids from the broker, the stored ones stay
        bench.show(100)
        bench.turn()
        with pytest.raises(StateError, match=r"'feedback' was deleted and created again \(its id was two, now it is other\)"):
            bench.replace_worker(logs=LogIds("", {"impressions": "one", "feedback": "other"}))
        with pytest.raises(UnfitStateError, match="belong to cluster here, and this is cluster there"):
            bench.replace_worker(logs=LogIds("there", {"impressions": "three", "feedback": "four"}))

    def test_a_store_that_lost_everything_is_not_mistaken_for_a_new_one(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.turn()
        bench.store.forget_last(0, 100)
        bench.show(1)
        with pytest.raises(StateError, match="lost all state of task 0"):
            bench.turn(3)
