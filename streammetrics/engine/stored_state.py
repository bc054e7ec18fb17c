"""What one commit changes of a task, between who knows what it means and who keeps it: to the latter, values are opaque bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class StateChanges:
    """All that one commit changes, written whole or not at all.

    `due` gives the event time (ms) at which a user wants to be looked at again. `users_gone` have no state any more, and are
    due no more unless `due` names them. `totals` are what users add to experiments, kept beside their state because they stay
    when it goes; `experiments` are the cells of the task's experiments, by names that mean nothing to the store. `panes_from_ms`
    is the start of the oldest pane that may still change: a later claim and a reader get the panes from there on. `reaches` are what
    panes know of their users, by pane start: kept apart because it changes when the pane is final, from `reaches_from_ms` on; it
    goes with its pane.
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
    reaches: Mapping[int, bytes] = field(default_factory=dict)
    reaches_from_ms: int = 0


class CommitMark(NamedTuple):
    """What names a commit: its owner's token, which no other claim has, and its number. A seq alone comes again after a loss."""

    token: str
    seq: int

    def follows(self, known: CommitMark) -> bool:
        """Whether this commit was written on top of another that a reader knows, by the same claim.

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
    reaches: Mapping[int, bytes] = field(default_factory=dict)
    is_snapshot: bool = False
