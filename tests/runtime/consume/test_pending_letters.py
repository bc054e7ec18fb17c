"""Dead letters are written before the commit that counts them."""

from __future__ import annotations

from random import Random

from streammetrics.connectors.source import Input
from streammetrics.connectors.store import Commit, CommitOutcome
from streammetrics.engine.task_state import decode_control
from streammetrics.events.model import Impression
from tests.support.native_json import native_json
from tests.support.worker_bench import NOTHING_READ, SETTINGS, START_MS, Bench, assert_exact, builder_of, decode, letter_places


class TestDeadLetters:
    BROKEN = b'{"type":"impression"'

    def test_letters_are_written_before_the_commit_that_counts_them(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.logs.append(Input(SETTINGS.inputs[0], 0), self.BROKEN)
        kept_at_commit = []
        commit = bench.store.commit

        def noted(offered: Commit) -> CommitOutcome:
            kept_at_commit.append(
                (decode_control(offered.changes.control).progress.offsets[0], [letter.offset for letter in bench.letters.kept])
            )
            return commit(offered)

        bench.store.commit = noted  # type: ignore[method-assign]
        bench.turn()
        assert kept_at_commit == [(2, [1])]

    def test_pending_letters_have_a_limit_in_bytes(self) -> None:
        bench = Bench(commit_ms=1_000_000, commit_bytes_max=1 << 30)
        waiting = []
        for _ in range(5):
            for _ in range(5):
                bench.logs.append(Input(SETTINGS.inputs[0], 0), bytes(2_000_000))
            bench.turn()
            waiting.append(sum(len(letter.value or b"") for letter in bench.worker.tasks[0].letters.letters))
        assert bench.offsets == NOTHING_READ
        assert waiting == [10_000_000, 0, 10_000_000, 0, 10_000_000]
        assert len(bench.letters.kept) == 20

    def test_the_rest_of_a_chunk_survives_a_failed_write_of_letters(self) -> None:
        bench = Bench(commit_ms=1_000_000, commit_users_max=100, commit_bytes_max=19_000_000)
        for _ in range(10):
            bench.logs.append(Input(SETTINGS.inputs[0], 0), bytes(2_000_000))
        bench.letters.chance, bench.letters.failures = Random(1), 1.0
        bench.turn()
        bench.letters.failures = 0.0
        bench.turn(5, seconds=10.0)
        bench.worker.finish()
        assert {letter.offset for letter in bench.letters.kept} == set(range(10))
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_record_with_many_bad_events_is_one_letter_per_reason(self) -> None:
        bench = Bench()
        lines = b"\n".join([b"{", b'{"type":"x"}', native_json(Impression("list", "u", START_MS, ("a",))), b"{", b'{"type":"y"}'])
        bench.logs.append(Input(SETTINGS.inputs[0], 0), lines)
        bench.worker.runner.decode = lambda value: [event for line in (value or b"").split(b"\n") for event in decode(line)]
        bench.turn(2)
        bench.worker.finish()
        assert [(letter.reason, letter.offset, letter.value) for letter in bench.letters.kept] == [
            ("bad_json", 0, lines),
            ("bad_type", 0, lines),
        ]
        counts = builder_of(bench.store, bench.engine, 1)[1].counts
        assert (counts["bad_json", SETTINGS.inputs[0]], counts["bad_type", SETTINGS.inputs[0]]) == (2, 2)

    def test_nothing_is_committed_while_letters_cannot_be_written(self) -> None:
        bench = Bench()
        bench.letters.chance, bench.letters.failures = Random(1), 1.0
        bench.logs.append(Input(SETTINGS.inputs[0], 0), self.BROKEN)
        bench.turn(5)
        assert bench.offsets == NOTHING_READ
        bench.letters.failures = 0.0
        bench.turn(2, seconds=10.0)
        assert bench.offsets == [1, 0]
        assert letter_places(bench.letters.kept) == {("bad_json", Input(SETTINGS.inputs[0], 0), 0, self.BROKEN)}
