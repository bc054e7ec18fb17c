"""Tests of the commands that write a commit."""

from __future__ import annotations

from math import inf

from streammetrics.connectors.redis.keys import ARGUMENTS_MAX, TaskKeys, rows_of, user_of, writes
from streammetrics.connectors.store import Commit
from streammetrics.state.tables import StateChanges

KEYS = TaskKeys.of("sm", 3)


def commands(largest: float = 10, **changes: object) -> list[tuple[object, ...]]:
    commit = Commit(3, 1, "token", 5, StateChanges(control=b"c", **changes))  # type: ignore[arg-type]
    return [tuple(command) for command in writes(KEYS, commit, largest)]


def test_all_keys_of_a_task_share_a_hash_tag() -> None:
    assert {key.partition("}")[0] for key in KEYS} == {"{sm:3"}


def test_the_control_record_is_written_first() -> None:
    assert commands()[0][:2] == ("HSET", KEYS.ctl)
    assert {"seq", "control", "user_bytes_max"} <= set(commands()[0])


def test_an_unknown_largest_user_is_not_written() -> None:
    assert "user_bytes_max" not in commands(largest=inf)[0]


def test_a_deleted_user_may_still_be_due() -> None:
    written = commands(users_gone=["a"], due={"a": 9})
    assert written.index(("ZREM", KEYS.due, "ua")) < written.index(("ZADD", KEYS.due, 9, "ua"))


def test_writes_come_before_deletes() -> None:
    names = [command[0] for command in commands(users={"a": b"1"}, users_gone=["b"], totals={"a": b"2"}, totals_gone=["b"])]
    assert names == sorted(names, key=["HSET", "HDEL", "ZREM"].index) or names.index("HDEL") > names.index("HSET")


def test_long_commands_are_split() -> None:
    users = {f"u{number}": b"x" for number in range(ARGUMENTS_MAX)}
    parts = [command for command in commands(users=users) if command[1] == KEYS.users]
    assert [len(part) - 2 for part in parts] == [ARGUMENTS_MAX, ARGUMENTS_MAX]


def test_fields_are_read_back_as_written() -> None:
    rows = {"panes": {"60000": b"p", "-5": b"q"}, "sums": {"a:é": b"r", "": b""}}
    fields = [part for command in commands(rows=rows) if command[1] == KEYS.rows for part in command[2:]]
    encoded = [str(field).encode() for field in fields[::2]]
    values = [value for value in fields[1::2] if isinstance(value, bytes)]
    assert rows_of(encoded, values) == rows
    assert user_of("ué".encode()) == "é"
