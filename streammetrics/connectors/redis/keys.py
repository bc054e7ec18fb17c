"""Names a task's keys and fields in Redis, builds the commands that write a commit, runs the Lua scripts, and reads their replies.

Task p of namespace n has six keys. All have the hash tag {n:p}, so they share one slot:

- `ctl` (hash): epoch, token, seq, control, rows_from, user_bytes_max, version
- `users` (hash): "u" + user -> state
- `due` (sorted set): "u" + user, by due time in ms
- `rows` (hash): table + ":" + key -> the value of a row
- `totals` (hash): "u" + user -> totals
- `pieces` (hash): number + ":u" + user -> a piece of a state that begins with GROWS

After the first claim every key except `ctl` has a placeholder `_`, which equals no other field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import chain
from math import inf
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError

from streammetrics.connectors.redis.client import Client, send
from streammetrics.connectors.redis.pipelines import Command
from streammetrics.connectors.store import Claim, Commit
from streammetrics.state.tables import CommitMark, LoadedUsers, TaskView


def claimed(reply: Sequence[Any]) -> tuple[Claim, float]:
    """Return the claim that `claim.lua` has made, and the size in bytes of the largest user state ever written; inf if unknown."""
    _, epoch, seq, control, fields, values, earlier, largest = reply
    older: dict[str, set[str]] = {}
    for table, key in map(row_of, earlier):
        older.setdefault(table, set()).add(key)
    claim = Claim(int(epoch), int(seq), control, rows_of(fields, values), older)
    return claim, int(largest) if largest is not None else 0 if control is None else inf


def viewed(reply: Sequence[Any]) -> TaskView:
    """Return the committed state that `view.lua` has read."""
    _, token, seq, is_snapshot, control, users, fields, values = reply
    return TaskView(CommitMark(token.decode(), int(seq)), control, users, rows_of(fields, values), bool(is_snapshot))


def loaded(state_users: Sequence[str], total_users: Sequence[str], reply: Sequence[Any]) -> LoadedUsers:
    """Return the users that `load.lua` has read, of those that it was asked for."""
    members, due_sums, parts, sums, next_due = reply
    due, read = [user_of(member) for member in members], sum(map(len, parts))
    return LoadedUsers(
        present(state_users[:read], chain.from_iterable(parts)),
        due,
        None if next_due is None else int(float(next_due)),
        present(total_users, chain.from_iterable(sums)) | present(due, chain.from_iterable(due_sums)),
        tuple(state_users[read:]),
    )


class Script:
    """A Lua script, sent by its digest. If the server does not know it (after a restart, failover, flush or slot move), it is sent whole.

    The client's own `register_script` loads a script on every primary of a cluster, and fails while one of them is away.
    """

    def __init__(self, *names: str) -> None:
        """Join the files with these names."""
        self.text = "\n".join(resources.files(__package__).joinpath("lua", name).read_text(encoding="utf-8") for name in names)
        self._digest = hashlib.sha1(self.text.encode()).hexdigest()

    def __call__(self, client: Client, keys: Sequence[str], args: Command) -> Any:
        try:
            return send(client, *self.command(keys, args))
        except NoScriptError:
            return send(client, *self.whole_command(keys, args))

    def command(self, keys: Sequence[str], args: Command) -> Command:
        """Return the command for a server that knows the script."""
        return ("EVALSHA", self._digest, len(keys), *keys, *args)

    def whole_command(self, keys: Sequence[str], args: Command) -> Command:
        """Return the command for any server, with the script's text."""
        return ("EVAL", self.text, len(keys), *keys, *args)


LAYOUT_VERSION = "1"
"""The version of the keys and fields above. Their values have versions of their own."""
PLACEHOLDER = b"_"
ARGUMENTS_MAX = 256
"""The most arguments per command of a commit. It is even, because arguments may be pairs. The client copies long commands more often."""


class TaskKeys(NamedTuple):
    """The keys of a task. No other place spells them.

    >>> TaskKeys.of("sm", 3).users
    '{sm:3}:users'
    """

    ctl: str
    users: str
    due: str
    rows: str
    totals: str
    pieces: str

    @classmethod
    def of(cls, namespace: str, task: int) -> TaskKeys:
        return cls(*(f"{{{namespace}:{task}}}:{name}" for name in cls._fields))


def writes(keys: TaskKeys, commit: Commit, largest: float) -> list[Command]:
    """Return the commands of a commit. An entry both written and deleted is deleted. A user may be deleted and due.

    `largest` is the size in bytes of the largest user state the task ever had, including this commit; inf if unknown.
    """
    changes = commit.changes
    users = [part for user, state in changes.users.items() for part in (field_of(user), state)]
    due = [part for user, due_ms in changes.due.items() for part in (due_ms, field_of(user))]
    rows = [part for table, values in changes.rows.items() for key, value in values.items() for part in (_row(table, key), value)]
    rows_gone = [_row(table, key) for table, gone in changes.rows_gone.items() for key in gone]
    totals = [part for user, sums in changes.totals.items() for part in (field_of(user), sums)]
    pieces = [part for user, piece in changes.pieces.items() for part in (_piece(user, piece.number), piece.data)]
    pieces_gone = [_piece(user, number) for user, last in changes.pieces_gone.items() for number in range(1, last + 1)]
    users_gone, totals_gone = ([field_of(user) for user in gone] for gone in (changes.users_gone, changes.totals_gone))
    return [
        (
            *("HSET", keys.ctl, "control", changes.control, "rows_from", bounds_text(changes.rows_from), "seq", commit.seq),
            *(("user_bytes_max", int(largest)) if largest < inf else ()),
        ),
        *_slices("HSET", keys.users, users),
        *_slices("HSET", keys.pieces, pieces),
        *_slices("HSET", keys.rows, rows),
        *_slices("HSET", keys.totals, totals),
        *_slices("HDEL", keys.users, users_gone),
        *_slices("HDEL", keys.pieces, pieces_gone),
        *_slices("ZREM", keys.due, users_gone),
        *_slices("ZADD", keys.due, due),  # after ZREM: a user whose state was deleted may still be due
        *_slices("HDEL", keys.rows, rows_gone),
        *_slices("HDEL", keys.totals, totals_gone),
    ]


def _slices(name: str, key: str, arguments: Sequence[str | bytes | int]) -> Iterator[Command]:
    for start in range(0, len(arguments), ARGUMENTS_MAX):
        yield (name, key, *arguments[start : start + ARGUMENTS_MAX])


def present(users: Iterable[str], states: Iterable[bytes | None]) -> dict[str, bytes]:
    return {user: state for user, state in zip(users, states, strict=True) if state is not None}


def field_of(user: str) -> str:
    return f"u{user}"


def _piece(user: str, number: int) -> str:
    return f"{number}:{field_of(user)}"


def user_of(member: bytes) -> str:
    return member[1:].decode()


def _row(table: str, key: str) -> str:
    return f"{table}:{key}"


def bounds_text(rows_from: Mapping[str, int]) -> str:
    """Return what `read_rows.lua` takes as bounds.

    >>> bounds_text({"panes": 60_000, "unique_users": -5})
    'panes=60000 unique_users=-5'
    """
    return " ".join(f"{table}={start}" for table, start in rows_from.items())


def row_of(field: bytes) -> tuple[str, str]:
    """Return the table and the key of a row."""
    table, _, key = field.decode().partition(":")
    return table, key


def rows_of(fields: Sequence[bytes], values: Sequence[bytes]) -> dict[str, dict[str, bytes]]:
    """Return rows by table and key."""
    rows: dict[str, dict[str, bytes]] = {}
    for field, value in zip(fields, values, strict=True):
        table, key = row_of(field)
        rows.setdefault(table, {})[key] = value
    return rows
