"""Replies of the scripts in `lua`, as values. Sends nothing, and decodes no state."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import inf
from typing import Any

from streammetrics.connectors.redis.keys import present, row_of, rows_of, user_of
from streammetrics.connectors.store import Claim, LoadedUsers
from streammetrics.state.tables import CommitMark, TaskView


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
