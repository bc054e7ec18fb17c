"""Tests that every store must pass. The test class of a store inherits `StoreContract` and provides an empty `store`."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from streammetrics.connectors.store import READ_SLICE, Claim, Commit, CommitOutcome, DueQuery, Store
from streammetrics.errors import StateError
from streammetrics.state.tables import GROWS, CommitMark, LoadedUsers, StateChanges, StatePiece, TaskView

ODD_USERS = ["", "_", "u", "u_", " ", "\n", "\x00", "0", "a:b{c}", "\u00e9", "e\u0301", "日本", "\U0001f600", "\ufeff", "x" * 512]
FOREVER = 1 << 62
ALL_DUE = DueQuery(FOREVER, 1_000_000, 1 << 30)
NOTHING = LoadedUsers({}, [])


def due_before(ms: int, users_max: int = 1_000) -> DueQuery:
    return DueQuery(ms, users_max, 1 << 30)


class Owner:
    """A minimal worker: claims a task and numbers its commits."""

    def __init__(self, store: Store, task: int, token: str = "owner") -> None:
        self.store, self.task, self.token = store, task, token
        self.claimed = store.claim(task, token)
        self.seq = self.claimed.seq

    def next(self, **changes: Any) -> Commit:
        """Return the next commit, with `changes` instead of its defaults."""
        values: dict[str, Any] = {
            "task": self.task,
            "epoch": self.claimed.epoch,
            "token": self.token,
            "seq": self.seq + 1,
        }
        values |= {name: changes.pop(name) for name in values.keys() & changes.keys()}
        return Commit(**values, changes=StateChanges(**{"control": b"control", **changes}))

    def commit(self, **changes: Any) -> CommitOutcome:
        outcome = self.store.commit(self.next(**changes))
        self.seq += outcome is CommitOutcome.WRITTEN
        return outcome

    def must_commit(self, **changes: Any) -> None:
        assert self.commit(**changes) is CommitOutcome.WRITTEN

    def load(
        self, users: Collection[str] = (), due: DueQuery | None = None, totals: Collection[str] = (), bytes_max: int | None = None
    ) -> LoadedUsers:
        return self.store.load(self.task, users, due, totals, bytes_max)

    def view(self) -> TaskView:
        return self.store.view([self.task], {})[self.task]


def everything(store: Store, task: int, users: Collection[str]) -> tuple[Mapping[int, TaskView], LoadedUsers]:
    """Return everything that readers can see of a task, except its owner."""
    views = {task: replace(view, mark=CommitMark("", view.mark.seq)) for task, view in store.view([task], {}).items()}
    return views, store.load(task, users, ALL_DUE, users)


class StoreContract:
    @pytest.fixture
    def tasks(self) -> itertools.count[int]:
        return itertools.count()

    @pytest.fixture
    def task(self, tasks: itertools.count[int]) -> int:
        return next(tasks)

    @pytest.fixture
    def owner(self, store: Store, task: int) -> Owner:
        return Owner(store, task)

    # -- claim ---------------------------------------------------------------------------------------------------------

    def test_the_first_claim_finds_nothing(self, store: Store, task: int) -> None:
        assert store.claim(task, "a") == Claim(epoch=1, seq=0, control=None)

    def test_every_new_owner_raises_the_epoch(self, store: Store, task: int) -> None:
        assert [store.claim(task, token).epoch for token in ("a", "b", "c", "a")] == [1, 2, 3, 4]

    def test_the_owner_is_the_token_of_the_last_claim(self, store: Store, task: int) -> None:
        assert store.owner(task) is None
        for token in ("a", "b:group \u00e9:1"):
            store.claim(task, token)
            assert store.owner(task) == token

    def test_a_claim_sent_twice_counts_once(self, store: Store, task: int) -> None:
        store.claim(task, "a")
        assert store.claim(task, "b") == store.claim(task, "b")
        assert store.claim(task, "b").epoch == 2

    def test_a_claim_returns_the_committed_state_and_only_rows_that_may_change(self, store: Store, owner: Owner) -> None:
        owner.must_commit(control=b"one", rows={"panes": {"1000": b"a", "2000": b"b", "3000": b"c"}}, rows_from={"panes": -FOREVER})
        owner.must_commit(
            control=b"two", rows={"panes": {"3000": b"C", "4000": b"d"}}, rows_gone={"panes": ["1000"]}, rows_from={"panes": 3_000}
        )
        claimed = store.claim(owner.task, "next")
        assert (claimed.epoch, claimed.seq, claimed.control) == (2, 2, b"two")
        assert claimed.rows == {"panes": {"3000": b"C", "4000": b"d"}}
        assert claimed.older == {"panes": {"2000"}}

    @pytest.mark.parametrize(
        ("start", "read"), [(-FOREVER, {"-5", "1000", "2000"}), (1_001, {"2000"}), (2_000, {"2000"}), (2_001, set()), (FOREVER, set())]
    )
    def test_the_bound_of_the_rows_to_read_is_inclusive(self, store: Store, owner: Owner, start: int, read: set[str]) -> None:
        keys = {"-5", "1000", "2000"}
        owner.must_commit(rows={"panes": dict.fromkeys(keys, b"a")}, rows_from={"panes": start})
        claimed = store.claim(owner.task, "next")
        assert claimed.rows.get("panes", {}).keys() == read
        assert claimed.older.get("panes", set()) == keys - read

    def test_thousands_of_rows_are_claimed_completely(self, store: Store, owner: Owner) -> None:
        rows = {"panes": {str(start * 60_000): b"%d" % start for start in range(9_001)}, "sums": {f"s{n}": b"1" for n in range(9_001)}}
        owner.must_commit(rows=rows)
        claimed = store.claim(owner.task, "next")
        assert (claimed.rows, claimed.older) == (rows, {})
        assert owner.view().rows == rows
        owner.must_commit(rows_gone={"panes": list(rows["panes"])}, epoch=owner.claimed.epoch + 1, token="next")
        assert owner.view().rows == {"sums": rows["sums"]}

    # -- fencing -------------------------------------------------------------------------------------------------------

    def test_an_owner_of_an_older_epoch_is_fenced_and_writes_nothing(self, store: Store, owner: Owner) -> None:
        owner.must_commit(users={"u": b"1"}, due={"u": 10}, totals={"u": b"t"}, rows={"panes": {"0": b"p"}, "sums": {"1": b"e"}})
        before = everything(store, owner.task, ["u", "v"])
        store.claim(owner.task, "next")
        full = owner.next(
            users={"u": b"2", "v": b"3"}, due={"u": 20, "v": 30}, control=b"zombie", totals={"u": b"2"},
            rows={"panes": {"0": b"q", "1": b"r"}, "sums": {"1": b"2"}, "new": {"": b"2"}}, rows_from={"panes": 1},
        )  # fmt: skip
        gone = owner.next(users_gone=["u"], totals_gone=["u"], rows_gone={"panes": ["0"], "sums": ["1"]})
        assert [store.commit(full), store.commit(gone)] == [CommitOutcome.FENCED] * 2
        assert everything(store, owner.task, ["u", "v"]) == before

    def test_another_token_of_the_same_epoch_is_fenced(self, owner: Owner) -> None:
        # This happens if a store has lost the claim of one owner and given its epoch to another.
        owner.must_commit()
        assert owner.commit(token="another") is CommitOutcome.FENCED
        assert owner.commit(token="another", seq=owner.seq) is CommitOutcome.FENCED

    def test_an_old_owner_is_fenced_even_when_it_sends_its_last_commit_again(self, store: Store, owner: Owner) -> None:
        last = owner.next()
        assert store.commit(last) is CommitOutcome.WRITTEN
        store.claim(owner.task, "next")
        assert store.commit(last) is CommitOutcome.FENCED

    def test_a_commit_is_a_conflict_if_the_store_has_lost_everything(self, store: Store, task: int) -> None:
        for epoch in (1, 7):
            assert store.commit(Commit(task, epoch, "a", 1, StateChanges(b"control", users={"u": b"1"}))) is CommitOutcome.CONFLICT
        assert store.load(task, ["u"]) == NOTHING
        assert store.claim(task, "a").seq == 0

    def test_the_new_owner_continues_with_the_next_number(self, store: Store, owner: Owner) -> None:
        owner.must_commit()
        successor = Owner(store, owner.task, "successor")
        assert successor.next().seq == 2
        successor.must_commit()

    # -- numbers -------------------------------------------------------------------------------------------------------

    def test_a_commit_sent_again_is_recognized_and_changes_nothing(self, store: Store, owner: Owner) -> None:
        commit = owner.next(users={"u": b"1"})
        assert [store.commit(commit) for _ in range(3)] == [CommitOutcome.WRITTEN, CommitOutcome.ALREADY, CommitOutcome.ALREADY]
        owner.seq += 1
        assert owner.commit(seq=1, users={"u": b"2"}) is CommitOutcome.ALREADY
        assert owner.load(["u"]).users == {"u": b"1"}

    @pytest.mark.parametrize("seq", [1, 2, 5, 1_000])
    def test_a_number_that_does_not_follow_is_a_conflict_and_writes_nothing(self, store: Store, owner: Owner, seq: int) -> None:
        for _ in range(3):
            owner.must_commit(users={"u": b"1"})
        before = everything(store, owner.task, ["u"])
        assert owner.commit(seq=seq, users={"u": b"2"}, control=b"lost") is CommitOutcome.CONFLICT
        assert everything(store, owner.task, ["u"]) == before

    def test_an_epoch_that_the_store_never_assigned_is_a_conflict(self, owner: Owner) -> None:
        # The store has lost the claim: its owner must read again, not wait for another owner.
        assert owner.commit(epoch=owner.claimed.epoch + 1) is CommitOutcome.CONFLICT

    # -- users ---------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("asked", [None, due_before(0)])
    def test_users_are_read_back_and_unknown_ones_are_absent(self, owner: Owner, asked: DueQuery | None) -> None:
        owner.must_commit(users={"a": b"\x00\xff", "b": b""})
        assert owner.load(["a", "b", "c", "_"], asked).users == {"a": b"\x00\xff", "b": b""}
        assert owner.load([], asked).users == {}

    def test_the_last_commit_of_a_user_counts(self, owner: Owner) -> None:
        owner.must_commit(users={"a": b"1", "b": b"1"})
        owner.must_commit(users={"a": b"2"})
        assert owner.load(["a", "b"]).users == {"a": b"2", "b": b"1"}

    def test_any_text_may_be_a_user(self, store: Store, owner: Owner) -> None:
        users = {user: user.encode() for user in ODD_USERS}
        owner.must_commit(users=users, due=dict.fromkeys(users, 5))
        assert owner.load(ODD_USERS).users == users
        assert list(owner.load([], due_before(6)).due) == sorted(ODD_USERS)
        assert owner.view().users == len(users)
        owner.must_commit(users_gone=ODD_USERS)
        assert everything(store, owner.task, ODD_USERS)[1] == NOTHING
        assert owner.view().users == 0
        owner.must_commit(users=users)
        assert owner.load(ODD_USERS).users == users

    def test_deleted_users_are_neither_read_nor_due(self, owner: Owner) -> None:
        owner.must_commit(users={"a": b"1", "b": b"1"}, due={"a": 10, "b": 20})
        owner.must_commit(users_gone=["a", "never there"])
        assert owner.load(["a", "b"], due_before(100)) == LoadedUsers({"b": b"1"}, ["b"], None)
        assert owner.view().users == 1

    def test_pieces_are_read_with_the_state_that_they_follow(self, store: Store, owner: Owner) -> None:
        def read() -> list[Mapping[str, bytes]]:
            reply = store.request(owner.task, ["a", "b", "x"])
            assert reply is not None
            requested = reply()
            assert requested is not None
            return [requested, owner.load(["a", "b", "x"]).users, owner.load(["a", "b", "x"], due_before(0)).users]

        whole = GROWS + b"whole"
        owner.must_commit(users={"a": whole, "b": b"1"})
        assert read() == [{"a": whole, "b": b"1"}] * 3
        for number, data in enumerate((b"-1", b"\x00\xff", GROWS), 1):
            owner.must_commit(pieces={"a": StatePiece(number, data, 9)})
        assert read() == [{"a": whole + b"-1\x00\xff" + GROWS, "b": b"1"}] * 3
        assert owner.view().users == 2
        owner.must_commit(users={"a": GROWS + b"new"}, pieces_gone={"a": 3})
        owner.must_commit(pieces={"a": StatePiece(1, b"-2", 9)})
        assert read() == [{"a": GROWS + b"new-2", "b": b"1"}] * 3
        owner.must_commit(users_gone=["a"], pieces_gone={"a": 1})
        assert read() == [{"b": b"1"}] * 3
        owner.must_commit(users={"a": whole})
        assert read() == [{"a": whole, "b": b"1"}] * 3

    def test_any_user_may_have_pieces(self, owner: Owner) -> None:
        users = [*ODD_USERS, "1:u", "11", "1"]
        owner.must_commit(users=dict.fromkeys(users, GROWS))
        for number in (1, 2):
            owner.must_commit(pieces={user: StatePiece(number, user.encode() + b"%d" % number, 1) for user in users})
        assert owner.load(users).users == {user: GROWS + user.encode() + b"1" + user.encode() + b"2" for user in users}

    def test_pieces_count_towards_the_byte_limits(self, store: Store, owner: Owner) -> None:
        users = [f"user-{number:03}" for number in range(3 * READ_SLICE)]
        owner.must_commit(users=dict.fromkeys(users, GROWS), due=dict.fromkeys(users, 5))
        owner.must_commit(pieces={user: StatePiece(1, bytes(99), 100) for user in users})
        for reader in (owner, Owner(store, owner.task)):
            loaded = reader.load(users, bytes_max=READ_SLICE * 100 + 1)
            assert list(loaded.users) == users[: 2 * READ_SLICE]
            assert len(reader.load([], DueQuery(6, 1_000, READ_SLICE * 100 + 1)).due) == 2 * READ_SLICE

    def test_a_commit_of_five_thousand_users_is_complete(self, owner: Owner) -> None:
        users = {f"user-{number}": b"%d" % number for number in range(5_000)}
        owner.must_commit(users=users, due={user: number for number, user in enumerate(users)})
        assert owner.load(users).users == users
        assert owner.load(users, due_before(0)).users == users
        assert list(owner.load([], ALL_DUE).due) == list(users)
        owner.must_commit(users_gone=list(users))
        assert owner.load(users, ALL_DUE) == NOTHING

    def test_tens_of_thousands_of_users_are_read_at_once(self, owner: Owner) -> None:
        users = {f"user-{number}": b"%d" % number for number in range(20_000)}
        owner.must_commit(users=users)
        assert owner.load([*users, "unknown"]).users == users
        assert owner.load([*users, "unknown"], due_before(0)).users == users

    @pytest.mark.parametrize("asked", [None, due_before(0)])
    @pytest.mark.parametrize(
        ("bytes_max", "slices"),
        [(0, 0), (1, 1), (READ_SLICE * 20, 1), (READ_SLICE * 20 + 1, 2), (READ_SLICE * 40 + 1, 3), (1 << 30, 3), (None, 3)],
    )
    def test_users_are_read_up_to_the_byte_limit(
        self, store: Store, owner: Owner, asked: DueQuery | None, bytes_max: int | None, slices: int
    ) -> None:
        users = [f"user-{number:02}" for number in range(2 * READ_SLICE + 5)]
        read_users = users[: slices * READ_SLICE]
        owner.must_commit(users=dict.fromkeys(users, bytes(20)), totals={"u": b"t"})
        for reader in (owner, Owner(store, owner.task)):  # also for a reader that has not written them
            loaded = reader.load(users, asked, ["u"], bytes_max)
            assert loaded == LoadedUsers(
                dict.fromkeys(read_users, bytes(20)), [], None, {"u": b"t"}, unread=tuple(users[len(read_users) :])
            )

    def test_one_large_user_among_many_small_ones_is_noticed(self, store: Store, owner: Owner) -> None:
        users = {f"user-{number:03}": bytes(1) for number in range(5 * READ_SLICE)}
        owner.must_commit(users={**users, "large": bytes(10_000)})
        owner.must_commit(users=dict.fromkeys(users, bytes(2)))
        for reader in (owner, Owner(store, owner.task)):
            loaded = reader.load(["large", *users], bytes_max=1_000)
            assert list(loaded.users) == ["large", *users][:READ_SLICE]
            assert reader.load(list(users), bytes_max=1_000).unread == ()

    def test_tasks_do_not_see_each_other(self, store: Store, tasks: itertools.count[int]) -> None:
        one, other = Owner(store, next(tasks)), Owner(store, next(tasks))
        one.must_commit(users={"u": b"1"}, due={"u": 10}, rows={"panes": {"0": b"p"}})
        assert other.load(["u"], ALL_DUE) == NOTHING
        assert store.view([other.task], {}) == {}

    # -- due -----------------------------------------------------------------------------------------------------------

    def test_due_users_come_earliest_first_with_the_next_time_and_without_their_states(self, owner: Owner) -> None:
        owner.must_commit(users={"a": b"1", "b": b"2", "c": b"3", "x": b"4"}, due={"a": 30, "b": 10, "c": 20})
        assert owner.load(["x"], due_before(25)) == LoadedUsers({"x": b"4"}, ["b", "c"], 30)

    def test_the_bound_of_the_due_time_is_exclusive(self, owner: Owner) -> None:
        owner.must_commit(users={"a": b"1"}, due={"a": 10})
        assert owner.load([], due_before(10)) == LoadedUsers({}, [], 10)
        assert owner.load([], due_before(11)) == LoadedUsers({}, ["a"], None)

    @pytest.mark.parametrize(("due_max", "due", "next_due_ms"), [(0, [], 1), (1, ["a"], 2), (2, ["a", "b"], 2), (3, ["a", "b", "c"], None)])
    def test_at_most_the_requested_number_of_due_users_come_and_the_rest_stay_due(
        self, owner: Owner, due_max: int, due: list[str], next_due_ms: int | None
    ) -> None:
        owner.must_commit(users={"a": b"1", "b": b"2", "c": b"3"}, due={"c": 2, "b": 2, "a": 1})
        for _ in range(2):  # reading them changes nothing
            assert owner.load([], due_before(100, due_max)) == LoadedUsers({}, due, next_due_ms)

    def test_users_can_be_requested_first_and_read_later(self, store: Store, owner: Owner) -> None:
        owner.must_commit(users={"a": b"1", "b": b"2"})
        reply = store.request(owner.task, ["a", "x"])
        assert reply is not None
        assert owner.load(["b"]).users == {"b": b"2"}
        assert reply() == {"a": b"1"}

    def test_several_requests_can_wait_for_their_replies(self, store: Store, owner: Owner) -> None:
        users = {f"u{number}": b"%d" % number for number in range(9)}
        owner.must_commit(users=users)
        replies = [store.request(owner.task, [user]) for user in users]
        for number in (4, 0, 8, 4):
            answer = replies[number]
            assert answer is not None
            assert answer() == {f"u{number}": b"%d" % number}
        again = store.request(owner.task, users)
        assert again is not None
        assert again() == users

    def test_users_that_may_exceed_the_byte_limit_are_not_requested(self, store: Store, owner: Owner) -> None:
        users = {f"u{number}": bytes(30) for number in range(2 * READ_SLICE)}
        owner.must_commit(users=users)
        assert store.request(owner.task, list(users), 30 * READ_SLICE) is None
        reply = store.request(owner.task, list(users), 60 * READ_SLICE)
        assert reply is not None
        assert reply() == users

    def test_due_users_can_be_requested_first_and_read_later(self, store: Store, owner: Owner) -> None:
        sums = {user: user.encode() for user in "abc"}
        owner.must_commit(users={"a": b"1", "b": b"2", "x": b"3"}, due={"a": 30, "b": 10, "c": 20}, totals=sums)
        owner.load([], ALL_DUE)  # the server has the script from now on
        due, state, all_due = (
            store.request_due(owner.task, due_before(25, 1)),
            store.request(owner.task, ["x"]),
            store.request_due(owner.task, ALL_DUE),
        )
        assert due is not None
        assert state is not None
        assert all_due is not None
        assert owner.load(["b"]).users == {"b": b"2"}
        assert state() == {"x": b"3"}
        assert due() == LoadedUsers({}, ["b"], 20, {"b": b"b"})
        assert all_due() == LoadedUsers({}, ["b", "c", "a"], None, sums)

    @pytest.mark.parametrize(
        ("bytes_max", "slices"), [(0, 0), (1, 1), (READ_SLICE * 30, 1), (READ_SLICE * 30 + 1, 2), (READ_SLICE * 60 + 1, 3), (1 << 30, 3)]
    )
    def test_due_users_come_up_to_the_byte_limit(self, owner: Owner, bytes_max: int, slices: int) -> None:
        users = [f"user-{number:02}" for number in range(2 * READ_SLICE + 5)]
        due = {user: number for number, user in enumerate(users)}
        owner.must_commit(users=dict.fromkeys(users, bytes(20)), totals=dict.fromkeys(users, bytes(10)), due=due)
        read_users = users[: slices * READ_SLICE]
        next_due_ms = len(read_users) if len(read_users) < len(users) else None
        expected = LoadedUsers({}, read_users, next_due_ms, dict.fromkeys(read_users, bytes(10)))
        assert owner.load([], DueQuery(1_000, 1_000, bytes_max)) == expected

    def test_without_a_query_no_user_is_due(self, owner: Owner) -> None:
        owner.must_commit(users={"a": b"1"}, due={"a": 0})
        assert owner.load(["a"]) == LoadedUsers({"a": b"1"}, [], None)

    def test_a_user_written_without_a_due_time_keeps_its_own(self, owner: Owner) -> None:
        owner.must_commit(users={"a": b"1"}, due={"a": 10})
        owner.must_commit(users={"a": b"2"})
        assert owner.load([], due_before(11)) == LoadedUsers({}, ["a"], None)

    @pytest.mark.parametrize("moved_ms", [5, 15, 10])
    def test_a_due_time_can_move_forward_and_back(self, owner: Owner, moved_ms: int) -> None:
        owner.must_commit(users={"a": b"1", "b": b"1"}, due={"a": 10, "b": 12})
        for due_ms in (moved_ms, 10, moved_ms, 10):
            owner.must_commit(due={"a": due_ms})
        assert owner.load([], due_before(11)) == LoadedUsers({}, ["a"], 12)
        owner.must_commit(due={"a": moved_ms})
        assert owner.load([], due_before(moved_ms)).due == (["b"] if moved_ms > 12 else [])
        assert sorted(owner.load([], ALL_DUE).due) == ["a", "b"]

    @pytest.mark.parametrize("due_ms", [0, 1, 1_732_183_200_123, 253_402_300_799_999 + 31_622_400_000])
    def test_due_times_are_exact_to_the_millisecond(self, owner: Owner, due_ms: int) -> None:
        owner.must_commit(users={"a": b"1"}, due={"a": due_ms})
        assert owner.load([], due_before(due_ms)).next_due_ms == due_ms
        assert owner.load([], due_before(due_ms + 1)).due == ["a"]

    def test_a_user_without_state_may_still_be_due(self, owner: Owner) -> None:
        owner.must_commit(users={"a": b"1", "b": b"1"}, due={"a": 10, "b": 20}, totals={"a": b"sums"})
        owner.must_commit(users_gone=["a"], due={"a": 30})
        assert owner.load(["a"], ALL_DUE) == LoadedUsers({}, ["b", "a"], None, {"a": b"sums"})
        assert owner.view().users == 1
        owner.must_commit(users_gone=["a"], totals_gone=["a"])
        assert owner.load(["a"], ALL_DUE) == LoadedUsers({}, ["b"], None)

    # -- totals and rows ----------------------------------------------------------------------------------------------

    def test_totals_stay_until_they_are_deleted_themselves(self, owner: Owner) -> None:
        owner.must_commit(users={"a": b"1"}, due={"a": 10}, totals={"a": b"\x00\xff", "b": b""})
        assert owner.load(totals=["a", "b", "c", "_"]).totals == {"a": b"\x00\xff", "b": b""}
        owner.must_commit(users_gone=["a"], totals={"b": b"2"})
        assert owner.load(totals=["a", "b"]) == LoadedUsers({}, [], None, {"a": b"\x00\xff", "b": b"2"})
        owner.must_commit(totals_gone=["a", "never there"])
        assert owner.load(totals=["a", "b"]).totals == {"b": b"2"}

    def test_due_users_come_with_their_totals(self, owner: Owner) -> None:
        sums = {user: user.encode() for user in "abcd"}
        owner.must_commit(users={"a": b"1", "x": b"x"}, due={"a": 30, "b": 10, "c": 20, "x": 15}, totals=sums)
        loaded = owner.load(["x"], due_before(25, 2), totals=["d", "e"])
        assert loaded == LoadedUsers({"x": b"x"}, ["b", "x"], 20, {"b": b"b", "d": b"d"})
        assert owner.load(["x"], totals=["d"]) == LoadedUsers({"x": b"x"}, [], None, {"d": b"d"})

    def test_any_text_may_name_a_user_with_totals_or_a_row(self, store: Store, owner: Owner) -> None:
        texts = {text: text.encode() for text in ODD_USERS}
        owner.must_commit(totals=texts, rows={"sums": texts}, due=dict.fromkeys(texts, 5))
        assert owner.load(totals=ODD_USERS).totals == texts
        assert owner.load([], ALL_DUE).totals == texts
        assert owner.view().rows == store.claim(owner.task, "next").rows == {"sums": texts}

    def test_thousands_of_totals_are_read_and_dropped_at_once(self, owner: Owner) -> None:
        sums = {f"user-{number}": b"%d" % number for number in range(12_001)}
        owner.must_commit(totals=sums, due={user: number for number, user in enumerate(sums)}, users=sums)
        assert owner.load(sums, totals=sums) == LoadedUsers(sums, [], None, sums)
        assert owner.load(["user-7"], due_before(0), totals=sums) == LoadedUsers({"user-7": b"7"}, [], 0, sums)
        assert owner.load([], ALL_DUE).totals == sums
        owner.must_commit(totals_gone=list(sums))
        assert owner.load(totals=sums).totals == {}

    def test_rows_are_replaced_and_deleted_by_table_and_key(self, store: Store, owner: Owner) -> None:
        owner.must_commit(rows={"sums": {"1": b"a", "1:20045": b"b", "a:b c=1": b"c"}, "other": {"1": b"o"}})
        owner.must_commit(rows={"sums": {"1": b"A", "2": b""}}, rows_gone={"sums": ["1:20045", "never there"], "none": ["1"]})
        rows = {"sums": {"1": b"A", "2": b"", "a:b c=1": b"c"}, "other": {"1": b"o"}}
        assert owner.view().rows == store.claim(owner.task, "next").rows == rows

    def test_a_row_both_written_and_deleted_is_deleted(self, owner: Owner) -> None:
        owner.must_commit(rows={"sums": {"1": b"a"}}, rows_gone={"sums": ["1"]})
        assert owner.view().rows == {}

    # -- view ----------------------------------------------------------------------------------------------------------

    def test_a_view_shows_the_committed_state(self, owner: Owner) -> None:
        rows = {"panes": {"0": b"p", "60000": b""}}
        owner.must_commit(control=b"\xff", users={"a": b"1", "b": b"2"}, rows=rows)
        assert owner.view() == TaskView(CommitMark(owner.token, 1), b"\xff", users=2, rows=rows)

    def test_a_task_never_committed_or_unchanged_is_absent(self, store: Store, tasks: itertools.count[int]) -> None:
        changed, unchanged, lost, claimed = (Owner(store, next(tasks)) for _ in range(4))
        for owner in (changed, unchanged, lost):
            owner.must_commit()
        since = {owner.task: CommitMark(owner.token, seq) for owner, seq in ((changed, 0), (unchanged, 1), (lost, 9))}
        views = store.view([changed.task, unchanged.task, lost.task, claimed.task, next(tasks)], since)
        assert {task: (view.mark.seq, view.is_snapshot) for task, view in views.items()} == {changed.task: (1, False), lost.task: (1, True)}

    @pytest.mark.parametrize("claimed", [False, True])
    def test_a_reader_of_state_that_was_lost_gets_an_error(self, store: Store, task: int, claimed: bool) -> None:
        if claimed:
            store.claim(task, "successor")
        with pytest.raises(StateError, match=f"lost all state of task {task}, which was shown"):
            store.view([task], {task: CommitMark("owner", 3)})

    def test_a_reader_of_another_claim_or_a_lost_commit_gets_a_snapshot(self, store: Store, owner: Owner) -> None:
        parts = {"0": b"a", "10": b"b"}
        owner.must_commit(rows={"panes": parts, "users": parts, "sums": parts})
        owner.must_commit()

        def seen(since: CommitMark | None) -> tuple[int, int, bool]:
            since_tasks = {} if since is None else {owner.task: since}
            view = store.view([owner.task], since_tasks, {owner.task: {"panes": 10, "users": 11}}, ["panes", "users"])[owner.task]
            assert view.rows.keys() <= {"panes", "users"}
            return len(view.table("panes")), len(view.table("users")), view.is_snapshot

        assert seen(None) == (1, 0, False)
        assert seen(CommitMark(owner.token, 1)) == (1, 0, False)
        assert seen(CommitMark(owner.token, 3)) == (2, 2, True)
        assert seen(CommitMark("another's", 2)) == (2, 2, True)

    @pytest.mark.parametrize(("start", "seen"), [(None, ["0", "10", "20"]), (10, ["10", "20"]), (11, ["20"]), (21, [])])
    def test_a_view_shows_rows_from_the_requested_start(self, store: Store, owner: Owner, start: int | None, seen: list[str]) -> None:
        rows = {"0": b"a", "10": b"b", "20": b"c"}
        owner.must_commit(rows={"panes": rows, "sums": rows}, rows_from={"panes": 20})
        view = store.view([owner.task], {}, {} if start is None else {owner.task: {"panes": start}})[owner.task]
        assert (sorted(view.table("panes")), view.table("sums")) == (seen, rows)

    def test_a_view_shows_only_the_requested_tables(self, store: Store, owner: Owner) -> None:
        rows = {"panes": {"0": b"p"}, "sums": {"1": b"s"}, "other": {"o": b"o"}}
        owner.must_commit(rows=rows)

        def seen(*tables: str) -> object:
            return store.view([owner.task], {}, tables=tables)[owner.task].rows

        assert (seen(), seen("none"), seen("panes", "sums")) == ({}, {}, {"panes": rows["panes"], "sums": rows["sums"]})

    def test_many_tasks_are_viewed_at_once(self, store: Store, tasks: itertools.count[int]) -> None:
        owners = [Owner(store, next(tasks)) for _ in range(100)]
        for owner in owners:
            owner.must_commit(control=b"%d" % owner.task)
        views = store.view([owner.task for owner in owners], {})
        assert {task: view.control for task, view in views.items()} == {owner.task: b"%d" % owner.task for owner in owners}

    def test_a_reader_never_sees_part_of_a_commit(self, owner: Owner) -> None:
        last, halves = 300, []
        owner.must_commit(control=b"1", rows={"panes": dict.fromkeys(map(str, range(50)), b"1")})

        def read() -> None:
            seq = 0
            while seq < last:
                view = owner.view()
                seq = view.mark.seq
                if {view.control, b"%d" % seq} != set(view.table("panes").values()) or view.users != seq - 1:
                    halves.append(view)
                    return

        reader = threading.Thread(target=read)
        reader.start()
        for seq in range(2, last + 1):
            text = b"%d" % seq
            owner.must_commit(control=text, rows={"panes": dict.fromkeys(map(str, range(50)), text)}, users={str(seq): text})
        reader.join()
        assert halves == []

    def test_returned_values_do_not_change_later(self, owner: Owner) -> None:
        rows = {"panes": {"0": b"p"}, "sums": {"1": b"1"}}
        owner.must_commit(users={"a": b"1"}, due={"a": 1}, totals={"a": b"1"}, rows=rows)
        view, loaded, claimed = owner.view(), owner.load(["a"], due_before(2)), owner.store.claim(owner.task, owner.token)
        owner.must_commit(
            users={"a": b"2", "b": b"2"}, rows={"panes": {"1": b"q"}}, rows_gone={"panes": ["0"], "sums": ["1"]}, totals={"a": b"2"}
        )
        assert (loaded.users, loaded.totals) == ({"a": b"1"}, {"a": b"1"})
        assert view.rows == claimed.rows == rows

    # -- the rest ------------------------------------------------------------------------------------------------------

    def test_the_number_of_tasks_is_recorded_once(self, store: Store) -> None:
        assert store.partitions() is None
        assert [store.announce(partitions) for partitions in (6, 6, 12)] == [None, 6, 6]
        assert store.partitions() == 6

    def test_the_first_writer_of_a_value_wins(self, store: Store) -> None:
        assert store.compare_and_set({}) == {}
        assert store.compare_and_set({"a": (None, b"1"), "b": (None, b"\xff")}) == {"a": b"1", "b": b"\xff"}
        assert store.compare_and_set({"a": (None, b"2"), "c": (None, b"")}) == {"a": b"1", "b": b"\xff", "c": b""}
        assert store.compare_and_set({}) == {"a": b"1", "b": b"\xff", "c": b""}

    def test_a_value_is_changed_only_if_the_expected_one_is_given(self, store: Store) -> None:
        store.compare_and_set({"a": (None, b"1"), "b": (None, b"1"), "c": (None, b"")})
        assert store.compare_and_set({"a": (b"1", b"2"), "b": (b"0", b"2"), "c": (None, b"2")}) == {"a": b"2", "b": b"1", "c": b""}
        assert store.compare_and_set({"a": (b"1", b"3"), "d": (b"1", b"2"), "c": (b"", b"3")}) == {"a": b"2", "b": b"1", "c": b"3"}

    def test_a_value_is_removed_only_if_the_expected_one_is_given(self, store: Store) -> None:
        store.compare_and_set({"a": (None, b"1"), "b": (None, b"1"), "\xe9 \n": (None, b"1")})
        assert store.compare_and_set({"a": (b"1", None), "b": (b"2", None), "\xe9 \n": (None, None), "e": (None, None)}) == {
            "b": b"1",
            "\xe9 \n": b"1",
        }
        assert store.compare_and_set({"b": (b"1", None), "\xe9 \n": (b"1", None)}) == {}
        assert store.compare_and_set({"a": (None, b"2")}) == {"a": b"2"}

    def test_the_clock_of_a_store_shows_the_time(self, store: Store, task: int) -> None:
        now_ms = store.clock_ms(task)
        assert now_ms is None or abs(now_ms - time.time() * 1_000) < 60_000

    def test_a_ping_succeeds(self, store: Store) -> None:
        store.ping()
