"""What passes between the engine and a store: the changes of a commit, and committed state for readers. To the store, values are bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

GROWS: Final = b"\xc1"
"""The first byte of a user's state to which pieces may be appended. No MessagePack begins with it."""


class StatePiece(NamedTuple):
    """A piece that is appended to a user's state: its number, from 1 on; its bytes; and the bytes of the state with it."""

    number: int
    data: bytes
    state_bytes: int


@dataclass(frozen=True, slots=True)
class StateChanges:
    """All changes of one commit. They are written together or not at all.

    - `users` are encoded sessions by user. `users_gone` have no sessions any more.
    - `pieces` are appended to the states of users. They are read together with the state that they follow, which begins with GROWS.
    - `pieces_gone` is the number of pieces to delete by user: the state is written whole again, or the user is gone.
    - `due` is the event time (ms) at which a user must be loaded again. Users in `users_gone` are due only if they are in `due`.
    - `totals` are users' totals in experiments. They are stored apart, because they outlast the user's sessions.
    - `experiments` are the sums of experiments, by names that only the engine understands.
    - `panes_from_ms` is the start of the oldest pane that may change. Later claims and readers get the panes from there on.
    - `user_counts` are the unique users of panes, by pane start. They are stored apart, because they still change when the pane is
      final. Those before `user_counts_from_ms` do not change any more. They are deleted together with their pane.
    """

    control: bytes
    panes_from_ms: int
    users: Mapping[str, bytes] = field(default_factory=dict)
    due: Mapping[str, int] = field(default_factory=dict)
    users_gone: Sequence[str] = ()
    panes: Mapping[int, bytes] = field(default_factory=dict)
    panes_gone: Sequence[int] = ()
    totals: Mapping[str, bytes] = field(default_factory=dict)
    totals_gone: Sequence[str] = ()
    experiments: Mapping[str, bytes] = field(default_factory=dict)
    experiments_gone: Sequence[str] = ()
    user_counts: Mapping[int, bytes] = field(default_factory=dict)
    user_counts_from_ms: int = 0
    pieces: Mapping[str, StatePiece] = field(default_factory=dict)
    pieces_gone: Mapping[str, int] = field(default_factory=dict)

    @property
    def value_bytes(self) -> int:
        """Bytes of all values that are written.

        >>> StateChanges(b"control", 0, users={"u": b"123"}, pieces={"v": StatePiece(1, b"45", 900)}, totals_gone=["w"]).value_bytes
        12
        """
        values = (self.users, self.panes, self.totals, self.experiments, self.user_counts)
        pieces = sum([len(piece.data) for piece in self.pieces.values()])
        return len(self.control) + pieces + sum([sum(map(len, of_kind.values())) for of_kind in values])


class CommitMark(NamedTuple):
    """The identity of a commit: its owner's token, unique to one claim, and its number. A number alone may repeat after data loss."""

    token: str
    seq: int

    def follows(self, known: CommitMark) -> bool:
        """Whether the same claim wrote this commit after the known one.

        >>> mark = CommitMark("mine", 8)
        >>> mark.follows(CommitMark("mine", 7)), mark.follows(CommitMark("mine", 9)), mark.follows(CommitMark("another's", 7))
        (True, False, False)
        """
        return self.token == known.token and self.seq > known.seq


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task's committed state at one instant, for readers.

    `is_snapshot`: all panes and unique users are here, whichever were requested, and everything else is deleted. This happens when the
    reader last saw another claim, or a commit that was lost.
    """

    mark: CommitMark
    control: bytes
    panes: Mapping[int, bytes]
    users: int
    experiments: Mapping[str, bytes] = field(default_factory=dict)
    user_counts: Mapping[int, bytes] = field(default_factory=dict)
    is_snapshot: bool = False
