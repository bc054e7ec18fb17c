"""What passes between the engine and a store: the changes of a commit, and committed state for readers. To the store, values are bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

GROWS: Final = b"\xc1"
"""The first byte of a user's state to which pieces may be appended. No MessagePack begins with it."""


Rows: TypeAlias = Mapping[str, Mapping[str, bytes]]
"""Rows of state: table -> key -> value. Only the owner of a table knows what its keys and values mean. No name of a table has a colon."""

NOTHING: Final[Mapping[str, bytes]] = MappingProxyType({})


class RowChanges(NamedTuple):
    """What a commit writes of one table: rows by key, and the keys of rows to delete.

    `settled_before`: keys are whole numbers, and rows before this one do not change any more. None: any row may change.
    """

    rows: Mapping[str, bytes]
    gone: Sequence[str]
    settled_before: int | None = None


class TaskTimes(NamedTuple):
    """How far a task is at a commit (event times, ms), for those that drop what is over.

    All lists of panes before `enrolled_before` are enrolled. Panes before `oldest_kept` leave the store.
    """

    enrolled_before: int
    oldest_kept: int


class StatePiece(NamedTuple):
    """A piece that is appended to a user's state: its number, from 1 on; its bytes; and the bytes of the state with it."""

    number: int
    data: bytes
    state_bytes: int


@dataclass(frozen=True, slots=True)
class LoadedUsers:
    """Users read from the store: the requested ones (absent: no state), those that are due, and when the next one is due.

    Due users come without state, because most of them are cached by the caller. `totals` are those of due users and of
    users whose totals were requested. `unread` are requested users that were not read because the others reached the byte limit.
    """

    users: Mapping[str, bytes]
    due: Sequence[str] = ()
    next_due_ms: int | None = None
    totals: Mapping[str, bytes] = field(default_factory=dict)
    unread: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StateChanges:
    """All changes of one commit. They are written together or not at all.

    - `users` are encoded sessions by user. `users_gone` have no sessions any more.
    - `pieces` are appended to the states of users. They are read together with the state that they follow, which begins with GROWS.
    - `pieces_gone` is the number of pieces to delete by user: the state is written whole again, or the user is gone.
    - `due` is the event time (ms) at which a user must be loaded again. Users in `users_gone` are due only if they are in `due`.
    - `totals` are users' totals in experiments. They are stored apart, because they outlast the user's sessions.
    - `rows` are all other state, by table and key. `rows_gone` are the keys of rows to delete.
    - `rows_from` is a whole number by table, for tables whose keys are whole numbers. Rows before it do not change any more, so later
      claims get only the rest. Claims get all rows of a table without a number.
    """

    control: bytes
    rows: Rows = field(default_factory=dict)
    rows_gone: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows_from: Mapping[str, int] = field(default_factory=dict)
    users: Mapping[str, bytes] = field(default_factory=dict)
    due: Mapping[str, int] = field(default_factory=dict)
    users_gone: Sequence[str] = ()
    totals: Mapping[str, bytes] = field(default_factory=dict)
    totals_gone: Sequence[str] = ()
    pieces: Mapping[str, StatePiece] = field(default_factory=dict)
    pieces_gone: Mapping[str, int] = field(default_factory=dict)

    @property
    def value_bytes(self) -> int:
        """Bytes of all values that are written.

        >>> StateChanges(b"control", users={"u": b"123"}, pieces={"v": StatePiece(1, b"45", 900)}, totals_gone=["w"]).value_bytes
        12
        """
        values = (self.users, self.totals, *self.rows.values())
        pieces = sum([len(piece.data) for piece in self.pieces.values()])
        return len(self.control) + pieces + sum([sum(map(len, of_kind.values())) for of_kind in values])


class CommitMark(NamedTuple):
    """The identity of a commit: its owner's token, unique to one claim, and its number. A number alone may repeat after data loss."""

    token: str
    seq: int

    def follows(self, mark: CommitMark) -> bool:
        """Whether the same claim wrote this commit after the known one.

        >>> mark = CommitMark("mine", 8)
        >>> mark.follows(CommitMark("mine", 7)), mark.follows(CommitMark("mine", 9)), mark.follows(CommitMark("another's", 7))
        (True, False, False)
        """
        return self.token == mark.token and self.seq > mark.seq


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task's committed state at one instant, for readers.

    `is_snapshot`: all rows of the requested tables are here, and everything else is deleted. This happens when the reader last saw
    another claim, or a commit that was lost.
    """

    mark: CommitMark
    control: bytes
    users: int
    rows: Rows = field(default_factory=dict)
    is_snapshot: bool = False

    def table(self, name: str) -> Mapping[str, bytes]:
        """Return the rows of a table, by key."""
        return self.rows.get(name, NOTHING)
