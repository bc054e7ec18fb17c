"""Users that steps need, from the store to a task: those of the next chunk are asked for before the one at hand is taken.

Touches the store. What was asked for ahead counts only as far as nothing can have changed it: no commit has been made since, and the
store was not asked for whom the commit on its way ends.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Set
from dataclasses import replace

from streammetrics.engine import Needs
from streammetrics.ports import Loaded, Store
from streammetrics.work import Ahead, Chunk, Work, WorkerRules


class UsersAtHand:
    """Reads users of all tasks of a worker."""

    def __init__(self, store: Store, rules: WorkerRules) -> None:
        self._store, self._rules = store, rules

    def read(self, work: Work, chunk: Chunk | None, needs: Needs) -> Loaded:
        """What a step needs, as far as the bytes of a commit allow: the rest of the users named is `unread`."""
        told, states = self._told(work, chunk)
        asked = needs.users - _ending(work) - told
        if not (asked or needs.totals or needs.due_before_ms is not None):
            return Loaded(states)
        due_wanted = self._rules.due_wanted(needs.due_before_ms, work.users_max)
        loaded = self._store.load(work.task, asked, due_wanted, needs.totals, self._bytes_max(chunk))
        at_hand = () if work.state is None else work.state.users
        return with_due(self._store, work.task, replace(loaded, users={**states, **loaded.users}), at_hand)

    def ask_ahead(self, work: Work, chunk: Chunk, needs: Needs) -> None:
        """Begin to read the users of a chunk that is taken later, of whom nothing is at hand now."""
        asked = needs.users - _ending(work)
        answer = self._store.ask(work.task, asked, self._bytes_max(chunk)) if asked else None
        work.ahead = Ahead(chunk, frozenset(asked), answer)

    def _told(self, work: Work, chunk: Chunk | None) -> tuple[Set[str], Mapping[str, bytes]]:
        """The users of a chunk who were asked for ahead, and the states of those who have one."""
        ahead = work.ahead
        if ahead is None or ahead.chunk is not chunk:
            return frozenset(), {}
        work.ahead = None
        states = None if ahead.answer is None else ahead.answer()
        return (frozenset(), {}) if states is None else (ahead.users, states)

    def _bytes_max(self, chunk: Chunk | None) -> int | None:
        """How many bytes of users are read for a chunk; a single record is taken whoever it concerns."""
        return self._rules.commit_bytes_max if chunk is not None and len(chunk.records) > 1 else None


def with_due(store: Store, task: int, loaded: Loaded, at_hand: Container[str]) -> Loaded:
    """What was loaded, and the states of those who are due and neither at hand nor loaded: most are at hand."""
    lacking = [user_id for user_id in loaded.due if user_id not in at_hand and user_id not in loaded.users]
    return replace(loaded, users={**loaded.users, **store.load(task, lacking).users}) if lacking else loaded


def _ending(work: Work) -> Set[str]:
    """The users whom the commit on its way ends: until it is written, the store tells of them."""
    return frozenset() if work.sent is None else work.sent.gone
