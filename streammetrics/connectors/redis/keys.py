"""Names a task's keys and fields in Redis, and builds the commands that write a commit. Sends nothing.

Task p of namespace n has seven keys. All have the hash tag {n:p}, so they share one slot:

- `ctl` (hash): epoch, token, seq, control, panes_from_ms, reaches_from_ms (of user counts), user_bytes_max, version
- `users` (hash): "u" + user -> state
- `due` (sorted set): "u" + user, by due time in ms
- `panes` (hash): start in ms -> pane, "r" + start -> the pane's user counts
- `totals` (hash): "u" + user -> totals
- `experiments` (hash): "e" + name -> cell
- `pieces` (hash): number + ":u" + user -> a piece of a state that begins with GROWS

After the first claim every key except `ctl` has a placeholder `_`, which equals no other field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from streammetrics.connectors.redis.transaction import Command
from streammetrics.connectors.store import Commit

LAYOUT_VERSION = "4"
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
    panes: str
    totals: str
    experiments: str
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
    panes: list[Any] = [part for start, pane in changes.panes.items() for part in (start, pane)]
    panes += [part for start, counts in changes.user_counts.items() for part in (_user_counts(start), counts)]
    panes_gone = [field for start in changes.panes_gone for field in (start, _user_counts(start))]
    totals = [part for user, sums in changes.totals.items() for part in (field_of(user), sums)]
    cells = [part for name, cell in changes.experiments.items() for part in (_cell(name), cell)]
    pieces = [part for user, piece in changes.pieces.items() for part in (_piece(user, piece.number), piece.data)]
    pieces_gone = [_piece(user, number) for user, last in changes.pieces_gone.items() for number in range(1, last + 1)]
    users_gone, totals_gone = ([field_of(user) for user in gone] for gone in (changes.users_gone, changes.totals_gone))
    return [
        (
            *("HSET", keys.ctl, "control", changes.control, "panes_from_ms", changes.panes_from_ms),
            *("reaches_from_ms", changes.user_counts_from_ms, "seq", commit.seq),
            *(("user_bytes_max", int(largest)) if largest < inf else ()),
        ),
        *_slices("HSET", keys.users, users),
        *_slices("HSET", keys.pieces, pieces),
        *_slices("HSET", keys.panes, panes),
        *_slices("HSET", keys.totals, totals),
        *_slices("HSET", keys.experiments, cells),
        *_slices("HDEL", keys.users, users_gone),
        *_slices("HDEL", keys.pieces, pieces_gone),
        *_slices("ZREM", keys.due, users_gone),
        *_slices("ZADD", keys.due, due),  # after ZREM: a user whose state was deleted may still be due
        *_slices("HDEL", keys.panes, panes_gone),
        *_slices("HDEL", keys.totals, totals_gone),
        *_slices("HDEL", keys.experiments, [_cell(name) for name in changes.experiments_gone]),
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


def _user_counts(start: int) -> str:
    return f"r{start}"


def panes_of(fields: Sequence[bytes], values: Sequence[bytes]) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """Return panes, and their user counts, by start."""
    pairs = list(zip(fields, values, strict=True))
    panes = {int(field): pane for field, pane in pairs if not field.startswith(b"r")}
    return panes, {int(field[1:]): counts for field, counts in pairs if field.startswith(b"r")}


def _cell(name: str) -> str:
    return f"e{name}"


def cells_of(flat: Sequence[bytes]) -> dict[str, bytes]:
    """Return cells by name, from alternating fields and values."""
    return {field[1:].decode(): cell for field, cell in zip(flat[::2], flat[1::2], strict=True) if field != PLACEHOLDER}
