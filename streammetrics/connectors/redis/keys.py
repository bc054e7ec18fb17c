"""Where a task lies in Redis: its keys, their fields, and the commands that write what a commit changes. Nothing is sent from here.

Task p of namespace n has six keys with the hash tag {n:p}, which so share a slot: `ctl` (hash: epoch, token, seq, control,
panes_from_ms, reaches_from_ms, user_bytes_max, version), `users` (hash: "u" + user -> state), `due` (sorted set: "u" + user by due
time in ms), `panes` (hash: start in ms -> pane, "r" + start -> its user counts), `totals` (hash: "u" + user -> totals), `experiments`
(hash: "e" + name -> cell). From its first claim on, each of them but `ctl` holds a placeholder `_`, which no other field can equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from streammetrics.connectors.base import Commit
from streammetrics.connectors.redis.transaction import Command

LAYOUT_VERSION = "3"
"""Of the keys and fields named above; what their values mean has versions of its own."""
PLACEHOLDER = b"_"
ARGUMENTS_MAX = 256
"""Of one command of a commit; even, as they may be pairs. The client copies what it packs, so longer ones cost it more."""


class TaskKeys(NamedTuple):
    """The keys of a task; the only place where one is spelt.

    >>> TaskKeys.of("sm", 3).users
    '{sm:3}:users'
    """

    ctl: str
    users: str
    due: str
    panes: str
    totals: str
    experiments: str

    @classmethod
    def of(cls, namespace: str, task: int) -> TaskKeys:
        return cls(*(f"{{{namespace}:{task}}}:{name}" for name in cls._fields))


def writes(keys: TaskKeys, commit: Commit, largest: float) -> list[Command]:
    """The commands that carry out a commit. What is both written and gone is gone; a user may be gone and due.

    `largest`: the bytes of the largest state that a user of the task ever had, this commit among it; inf where nobody knows.
    """
    changes = commit.changes
    users = [piece for user, state in changes.users.items() for piece in (field_of(user), state)]
    due = [piece for user, due_ms in changes.due.items() for piece in (due_ms, field_of(user))]
    panes: list[Any] = [piece for start, pane in changes.panes.items() for piece in (start, pane)]
    panes += [piece for start, counts in changes.user_counts.items() for piece in (_user_counts(start), counts)]
    panes_gone = [field for start in changes.panes_gone for field in (start, _user_counts(start))]
    totals = [piece for user, sums in changes.totals.items() for piece in (field_of(user), sums)]
    cells = [piece for name, cell in changes.experiments.items() for piece in (_cell(name), cell)]
    users_gone, totals_gone = ([field_of(user) for user in gone] for gone in (changes.users_gone, changes.totals_gone))
    return [
        (
            *("HSET", keys.ctl, "control", changes.control, "panes_from_ms", changes.panes_from_ms),
            *("reaches_from_ms", changes.user_counts_from_ms, "seq", commit.seq),
            *(("user_bytes_max", int(largest)) if largest < inf else ()),
        ),
        *_slices("HSET", keys.users, users),
        *_slices("HSET", keys.panes, panes),
        *_slices("HSET", keys.totals, totals),
        *_slices("HSET", keys.experiments, cells),
        *_slices("HDEL", keys.users, users_gone),
        *_slices("ZREM", keys.due, users_gone),
        *_slices("ZADD", keys.due, due),  # after it: a user whose state is gone may still be due
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


def user_of(member: bytes) -> str:
    return member[1:].decode()


def _user_counts(start: int) -> str:
    return f"r{start}"


def panes_of(fields: Sequence[bytes], values: Sequence[bytes]) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """Panes and their user counts by start, from fields and values of the panes."""
    pairs = list(zip(fields, values, strict=True))
    panes = {int(field): pane for field, pane in pairs if not field.startswith(b"r")}
    return panes, {int(field[1:]): counts for field, counts in pairs if field.startswith(b"r")}


def _cell(name: str) -> str:
    return f"e{name}"


def cells_of(flat: Sequence[bytes]) -> dict[str, bytes]:
    """Cells by name, from fields and values in turn."""
    return {field[1:].decode(): cell for field, cell in zip(flat[::2], flat[1::2], strict=True) if field != PLACEHOLDER}
