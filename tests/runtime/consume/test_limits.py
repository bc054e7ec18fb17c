"""How much of a chunk fits into a commit, and which large users stay in memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.connectors.source import Input, InputRecord
from streammetrics.connectors.store import READ_SLICE
from streammetrics.engine.batch import users_of
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.errors import MalformedEvent
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.runtime.consume.backlog import Chunk
from streammetrics.runtime.consume.limits import LARGE_BYTES, CommitRoom, WorkerRules
from streammetrics.state.tables import StateChanges
from tests.support.brute_force import FOR_EVER_MS
from tests.support.machine import engine_of
from tests.support.native_json import native_json
from tests.support.worker_bench import FAR_MS, SETTINGS, START_MS, Bench, assert_exact, decode, settled

EVENTS: st.SearchStrategy[Event | MalformedEvent] = st.one_of(
    st.builds(Feedback, st.sampled_from("abcdefgh"), st.just(0), st.just("item"), st.just("click")),
    st.just(MalformedEvent("bad_json", "")),
)
RECORDS = st.lists(st.tuples(st.lists(EVENTS, max_size=4), st.integers(0, 9)), min_size=1, max_size=12)
LARGE = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(LARGE_BYTES, 2 * LARGE_BYTES).map(bytes))


def chunk_of(records: list[tuple[list[Event | MalformedEvent], int]]) -> Chunk:
    return Chunk.of(
        0,
        [InputRecord(offset, -1, bytes(size) or None) for offset, (_, size) in enumerate(records)],
        [(offset, -1, events) for offset, (events, _) in enumerate(records)],
    )


def commits(chunk: Chunk, large: dict[str, bytes], users_max: int, bytes_max: int) -> list[list[int]]:
    """Return the offsets of each commit, if a new one begins wherever the current one has no room."""
    room, dirty = CommitRoom(WorkerRules(commit_users_max=users_max, commit_bytes_max=bytes_max)), set[str]()
    room.read(large)
    made: list[list[int]] = [[]]
    rest: Chunk | None = chunk
    while rest is not None:
        taken, rest = room.split(rest, dirty)
        if taken is not None:
            made[-1] += [record.offset for record in taken.records]
            dirty |= taken.batch.users
        if rest is not None:
            room.committed(StateChanges(b""))
            dirty.clear()
            made.append([])
    return made


@given(RECORDS, LARGE, st.integers(1, 10), st.integers(1, 5 * LARGE_BYTES))
def test_a_commit_takes_all_it_has_room_for_and_always_one_record(
    records: list[tuple[list[Event | MalformedEvent], int]], large: dict[str, bytes], users_max: int, bytes_max: int
) -> None:
    chunk = chunk_of(records)

    def has_room(offsets: list[int]) -> bool:
        users = users_of([chunk.batch.records[offset] for offset in offsets])
        size = sum(len(chunk.records[offset].value or b"") for offset in offsets) + sum(len(large.get(user, b"")) for user in users)
        return len(users) <= users_max and size <= bytes_max

    expected: list[list[int]] = [[]]
    for offset in range(len(records)):
        if expected[-1] and not has_room([*expected[-1], offset]):
            expected.append([])
        expected[-1].append(offset)
    assert commits(chunk, large, users_max, bytes_max) == expected


def test_earlier_chunks_leave_less_room() -> None:
    room, chunk = CommitRoom(WorkerRules(commit_users_max=1, commit_bytes_max=20)), chunk_of([([Feedback("v", 0, "item", "click")], 10)])
    assert room.split(chunk, {"u"}) == (None, chunk)
    assert room.split(chunk, {"v"}) == (chunk, None)
    assert room.taken_bytes == 10
    assert room.split(chunk, {"v"}) == (chunk, None)
    assert room.split(chunk, {"v"}) == (None, chunk)


@pytest.mark.parametrize(("totals_bytes", "users_max"), [(2_000, 8_000), (100_000, 335), (1 << 30, 1)])
def test_the_next_commit_takes_as_many_users_as_their_totals_leave_room_for(totals_bytes: int, users_max: int) -> None:
    room = CommitRoom(WorkerRules())
    room.committed(StateChanges(b"", totals={"u": bytes(totals_bytes)}))
    assert room.users_max == users_max


class TestCommitBounds:
    @pytest.mark.parametrize(("users_max", "users"), [(1, 30), (10, 300), (1_100, 2_500)])
    def test_no_commit_writes_more_users_than_its_limit(self, users_max: int, users: int) -> None:
        bench = Bench(commit_users_max=users_max, commit_bytes_max=1 << 20, commit_ms=1_000, records_max=5_000)
        for number in range(users):
            bench.show(0, user=f"u{number}")
        bench.turn(2, seconds=2.0)
        assert users_max / 2 < max(len(commit.changes.users) for commit in bench.store.written) <= users_max
        bench.show(FAR_MS, user="end")
        bench.click(FAR_MS, user="end")
        for _ in bench.turns_until(lambda: settled(bench.store, bench.logs, sessions_open=1), seconds=2.0):
            pass
        sizes = [len(commit.changes.users) + len(commit.changes.users_gone) for commit in bench.store.written]
        assert max(sizes) <= 2 * users_max  # a commit may also have as many due users
        assert sum(len(commit.changes.users_gone) for commit in bench.store.written) == users
        assert_exact(bench.store, bench.logs, bench.engine)

    @pytest.mark.parametrize(("users_max", "largest"), [(10, 9), (3, 3), (2, 3)])
    def test_no_commit_writes_more_users_than_its_limit_when_records_hold_many_users(self, users_max: int, largest: int) -> None:
        bench = Bench(commit_users_max=users_max, commit_bytes_max=1 << 20, commit_ms=1_000)
        bench.worker.runner.decode = lambda value: [event for line in (value or b"").splitlines() for event in decode(line)]
        users_per_task = 3
        for first in range(0, 60, users_per_task):
            impressions = [Impression(f"r{number}", f"u{number}", START_MS, ("a",)) for number in range(first, first + users_per_task)]
            bench.logs.append(Input(SETTINGS.inputs[0], 0), b"\n".join(map(native_json, impressions)))
        bench.turn(2, seconds=2.0)
        assert bench.offsets == [20, 0]
        sizes = [len(commit.changes.users) for commit in bench.store.written if commit.changes.users]
        assert (sum(sizes), max(sizes)) == (60, largest)  # a record is never split

    def test_no_commit_writes_more_bytes_of_large_users_than_its_limit(self) -> None:
        bytes_max, users = 30_000, 40
        bench = Bench(commit_users_max=1_000, commit_bytes_max=bytes_max, commit_ms=1_000, records_max=5_000)
        items = tuple(f"{number:0100}" for number in range(60))

        def largest() -> int:
            changes = [commit.changes for commit in bench.store.written]
            bench.store.written.clear()
            pieces = [sum(piece.state_bytes for piece in change.pieces.values()) for change in changes]
            return max(sum(map(len, change.users.values())) + of_pieces for change, of_pieces in zip(changes, pieces, strict=True))

        for number in range(users):
            impression = Impression(f"list-{number}", f"u{number}", START_MS, items)
            bench.logs.append(Input(SETTINGS.inputs[0], 0), native_json(impression))
        bench.turn(2, seconds=2.0)
        assert bench.offsets == [users, 0]
        assert 4 * 6_000 < largest() <= bytes_max
        for _ in range(2):  # a click is small, but the whole state of its user may be read and written
            for number in range(users):
                bench.click(0, user=f"u{number}")
            bench.turn(2, seconds=2.0)
            assert 4 * 6_000 < largest() <= bytes_max
            bench.replace_worker()  # the new one has not cached them
        assert bench.offsets == [users, 2 * users]
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_large_users_in_one_chunk_are_read_a_few_at_a_time(self) -> None:
        bytes_max, users = 30_000, 10 * READ_SLICE
        bench = Bench(commit_users_max=1_000, commit_bytes_max=bytes_max, commit_ms=1_000, records_max=5_000)
        items = tuple(f"{number:0100}" for number in range(60))
        for number in range(users):
            impression = Impression(f"list-{number}", f"u{number}", START_MS, items)
            bench.logs.append(Input(SETTINGS.inputs[0], 0), native_json(impression))
        bench.turn(2, seconds=2.0)
        bench.replace_worker()
        for number in range(users):
            bench.click(0, user=f"u{number}")
        bench.store.loaded_bytes.clear()
        bench.turn(2, seconds=2.0)
        assert bench.offsets == [users, users]
        assert 6_000 * READ_SLICE <= max(bench.store.loaded_bytes) < bytes_max + 7_000 * READ_SLICE
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_large_users_whose_sessions_end_together_are_processed_a_few_per_commit(self) -> None:
        users = 5 * READ_SLICE
        bench = Bench(commit_users_max=1_000, commit_bytes_max=5_000 * READ_SLICE, commit_ms=1_000, records_max=5_000)
        items = tuple(f"{number:0100}" for number in range(60))
        for number in range(users):
            impression = Impression(f"list-{number}", f"u{number}", START_MS, items)
            bench.logs.append(Input(SETTINGS.inputs[0], 0), native_json(impression))
        bench.turn(5, seconds=2.0)
        bench.show(FAR_MS, user="end")
        bench.click(FAR_MS, user="end")
        for _ in bench.turns_until(lambda: settled(bench.store, bench.logs, sessions_open=1), seconds=2.0):
            pass
        gone = [len(commit.changes.users_gone) for commit in bench.store.written if commit.changes.users_gone]
        assert gone == [READ_SLICE] * 5
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_commits_take_fewer_users_when_totals_are_large(self) -> None:
        """A list in many experiments is small, but its user has totals in each of them."""
        bytes_max, users, visits = 10_000, 100, 3
        bench = Bench(commit_users_max=1_000, commit_bytes_max=bytes_max, commit_ms=1_000, records_max=10)
        bench.engine = engine_of(SETTINGS, experiments=ExperimentRules(idle_ms=FOR_EVER_MS))
        bench.replace_worker()
        for visit in range(visits):
            experiments = tuple((f"e{visit}-{number}", "a") for number in range(16))
            for number in range(users):
                impression = Impression(f"{visit}-{number}", f"u{number}", START_MS + visit * 1_000, ("a",), experiments)
                bench.logs.append(Input(SETTINGS.inputs[0], 0), native_json(impression))
            bench.click(visit * 1_000, user="end")
        for _ in bench.turns_until(lambda: bench.offsets == [visits * users, visits], seconds=2.0):
            pass
        totals = [commit.changes.totals for commit in bench.store.written if commit.changes.totals]
        sizes = [sum(map(len, total.values())) for total in totals]
        assert sum(map(len, totals)) > users
        assert max(sizes[1:]) < 3 * bytes_max, "due users come on top, and each visit adds experiments"
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_record_larger_than_the_limit_is_committed_alone(self) -> None:
        bench = Bench(commit_users_max=1_000, commit_bytes_max=100, commit_ms=1_000_000)
        bench.show(0, 1, 2)
        bench.turn(2)
        bench.worker.finish()
        assert [len(commit.changes.users) for commit in bench.store.written if commit.changes.users] == [1, 1, 1]
        assert_exact(bench.store, bench.logs, bench.engine)


class TestCache:
    def test_large_users_are_evicted_beyond_the_byte_limit_of_the_cache(self) -> None:
        bench = Bench(commit_users_max=1_000, cached_users_max=1_000, cached_bytes_max=30_000, commit_bytes_max=1 << 20)
        items = tuple(f"{number:0100}" for number in range(60))
        for number in range(20):
            impression = Impression(f"list-{number}", f"u{number}", START_MS, items)
            bench.logs.append(Input(SETTINGS.inputs[0], 0), native_json(impression))
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
