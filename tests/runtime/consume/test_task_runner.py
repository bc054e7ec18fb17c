"""One task from its claim to its commits, compared with brute force."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from streammetrics.connectors.source import Input, UnreadBatch
from streammetrics.connectors.store import Commit, CommitOutcome
from streammetrics.engine.engine import Needs
from streammetrics.errors import StoreError
from streammetrics.events.model import Feedback
from streammetrics.reports.report import counts_by_reason
from streammetrics.runtime.consume import consumer, task_runner
from streammetrics.runtime.consume.backlog import Chunk
from streammetrics.runtime.consume.owned_task import OwnedTask
from streammetrics.runtime.consume.prefetch import Prefetch
from tests.support.faults import SlowNetwork
from tests.support.native_json import native_json
from tests.support.worker_bench import FAR_MS, NOTHING_READ, SETTINGS, START_MS, Bench, NothingArrives, assert_exact, builder_of


class TestPrefetch:
    def test_a_user_whose_session_ends_during_a_prefetch_starts_a_new_session(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(consumer, "CHUNK_RECORDS_MAX", 3)
        bench = Bench(commit_users_max=1, cached_users_max=10)
        bench.show(0)
        bench.click(0)
        bench.click(FAR_MS, user="v")
        bench.turn(3)
        bench.replace_worker()  # the new one must read u
        for user in ("v", "w", "y", "u", "x"):  # the first one ends the session of u, which is in the second chunk
            bench.show(FAR_MS, user=user)
        bench.turn(20)
        bench.worker.finish()
        assert_exact(bench.store, bench.logs, bench.engine)

    @pytest.mark.parametrize(("chunks_max", "bytes_in_records", "most"), [(3, 99, 3), (8, 2.5, 3), (8, 0, 1)])
    def test_no_more_is_decoded_early_than_the_limits_allow(
        self, chunks_max: int, bytes_in_records: float, most: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The byte limit is checked before each further chunk."""
        size = len(native_json(Feedback("u10", START_MS + 10, "a", "click")))
        monkeypatch.setattr(consumer, "CHUNK_RECORDS_MAX", 1)
        monkeypatch.setattr(task_runner, "PREFETCH_CHUNKS_MAX", chunks_max)
        monkeypatch.setattr(task_runner, "PREFETCH_BYTES_MAX", int(bytes_in_records * size))
        bench, seen = Bench(), []
        for number in range(10, 22):
            bench.click(number, user=f"u{number}")
        prefetch = Prefetch.prefetch

        def counted(users: Prefetch, task: OwnedTask, chunk: Chunk, needs: Needs) -> None:
            prefetch(users, task, chunk, needs)
            seen.append(len(task.backlog.prefetched))

        monkeypatch.setattr(Prefetch, "prefetch", counted)
        bench.turn(2)
        bench.worker.finish()
        assert max(seen) == most
        assert len(seen) == 11, "each chunk after the first, once"
        assert_exact(bench.store, bench.logs, bench.engine)


def test_a_batch_that_is_not_read_is_counted_by_its_records_and_the_next_records_are_used() -> None:
    bench = Bench()
    lists = Input(bench.settings.inputs[0], 0)
    bench.show(0)
    bench.logs.append(lists, UnreadBatch.of(1, 150, 150, "it is too large"))
    bench.show(1)
    bench.turn(2)
    bench.worker.finish()
    _, report = builder_of(bench.store, bench.engine, 1)
    counts = counts_by_reason(report.counts)
    assert (counts["oversized"], counts["events"]) == (150, 152)
    assert bench.offsets == [3, 0]
    assert [(letter.reason, letter.offset, letter.detail.split(";")[0]) for letter in bench.letters.kept] == [
        ("oversized", 1, "the batch of the offsets 1 to 150 is not read: it is too large")
    ]


class TestCommits:
    def test_events_are_processed_while_a_commit_is_in_flight(self) -> None:
        bench = Bench()
        network = SlowNetwork(NothingArrives())
        bench.replace_worker(commits=network)
        network.let_all_arrive()
        bench.turn()
        bench.show(0)
        bench.turn()
        bench.show(1, 2)
        bench.turn(3)
        state = bench.worker.tasks[0].state
        assert state is not None
        assert state.progress.offsets == [3, 0]
        assert bench.offsets == NOTHING_READ
        assert len(network.sent) == 1
        network.let_all_arrive()
        assert bench.offsets == [1, 0]
        bench.worker.finish()
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_crash_between_two_commits_counts_nothing_twice(self) -> None:
        bench = Bench(commit_ms=1_000_000)
        bench.show(0, 1)
        bench.turn()
        bench.replace_worker()
        bench.turn()
        bench.worker.finish()
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_commit_whose_reply_was_lost_is_sent_again_and_recognized(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.turn()
        bench.show(1)
        commit = bench.store.commit

        def reply_lost(offered: Commit) -> CommitOutcome:
            bench.store.commit = commit  # type: ignore[method-assign]
            commit(offered)
            raise StoreError("the reply was lost")

        bench.store.commit = reply_lost  # type: ignore[method-assign]
        bench.turn()
        assert bench.worker.status.commits["failed"] == 1
        bench.clock.advance(5)
        bench.turn()
        assert bench.store.outcomes[-2:] == [CommitOutcome.WRITTEN, CommitOutcome.ALREADY]
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_task_whose_store_lost_commits_is_logged_and_read_again(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.turn(2)
        bench.store.forget_last(0, 1)
        bench.show(1)
        with capture_logs() as lines:
            for _ in bench.turns_until(lambda: bench.offsets == [2, 0]):
                pass
        assert [line["event"] for line in lines if line["log_level"] == "warning"] == [
            "commit refused: the store has lost commits of the task; its records are read again from the last commit that is left"
        ]

    def test_a_user_on_the_wrong_partition_is_counted(self) -> None:
        bench = Bench()
        bench.replace_worker(misplaced=lambda task, user_ids: {"astray"}.intersection(user_ids))
        bench.show(0)
        bench.show(0, 1, user="astray")
        bench.turn()
        assert builder_of(bench.store, bench.engine, 1)[1].counts["key_mismatch", SETTINGS.inputs[0]] == 2
