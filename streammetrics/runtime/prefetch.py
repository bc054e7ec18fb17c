"""Users that steps need, from the store to a task: those of later chunks are asked for before the one at hand is taken.

Touches the store. What was asked for ahead counts only as far as nothing can have changed it: of whom a commit has written since, and of
whom the commit on its way ends, nothing is taken from it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Set
from dataclasses import replace

from streammetrics.connectors.base import LoadedUsers, Store
from streammetrics.engine.engine import Needs
from streammetrics.runtime.owned_task import Chunk, OwnedTask, Prefetched, WorkerRules


class Prefetch:
    """Reads users of all tasks of a worker."""

    def __init__(self, store: Store, rules: WorkerRules) -> None:
        self._store, self._rules = store, rules

    def read(self, work: OwnedTask, chunk: Chunk | None, needs: Needs) -> LoadedUsers:
        """What a step needs, as far as the bytes of a commit allow: the rest of the users named is `unread`."""
        message, states = self._told(work, chunk)
        due_told = self._due_told(work, needs)
        before_ms = needs.due_before_ms if due_told is None else None
        asked = needs.users - _ending(work) - message
        loaded = LoadedUsers({})
        if asked or needs.totals or before_ms is not None:
            due_wanted = self._rules.due_wanted(before_ms, work.users_max)
            loaded = self._store.load(work.task, asked, due_wanted, needs.totals, self._bytes_max(chunk))
        if due_told is not None:
            sums = {**due_told.totals, **loaded.totals}
            loaded = replace(loaded, due=due_told.due, next_due_ms=due_told.next_due_ms, totals=sums)
        at_hand = () if work.state is None else work.state.users
        return with_due(self._store, work.task, replace(loaded, users={**states, **loaded.users}), at_hand)

    def prefetch(self, work: OwnedTask, chunk: Chunk, needs: Needs) -> None:
        """Begin to read the users of a chunk that is taken after all those that were asked about before; not who is at hand now, or
        will be by then."""
        asked = frozenset(needs.users).difference(_ending(work), *(ahead.users for ahead in work.ahead))
        answer = self._store.request(work.task, asked, self._share_bytes(work, chunk, len(asked))) if asked else None
        work.ahead.append(Prefetched(chunk, asked, answer))

    def request_due(self, work: OwnedTask, needs: Needs) -> bool:
        """Begin to read who is due, for the next step. False where nobody is wanted, was asked for already, or can be asked for so."""
        wanted = self._rules.due_wanted(needs.due_before_ms, work.users_max)
        if wanted is None or work.due_prefetched is not None:
            return False
        work.due_prefetched = self._store.request_due(work.task, wanted)
        return work.due_prefetched is not None

    def written(self, work: OwnedTask, users: Set[str]) -> None:
        """A commit is made that writes these users, or ends them: what the store told of them before counts no more."""
        for index, ahead in enumerate(work.ahead):
            if not ahead.users.isdisjoint(users):
                work.ahead[index] = ahead._replace(users=ahead.users - users)

    def _told(self, work: OwnedTask, chunk: Chunk | None) -> tuple[Set[str], Mapping[str, bytes]]:
        """The users of a chunk who were asked for ahead, and the states of those who have one."""
        if not work.ahead or work.ahead[0].chunk is not chunk:
            return frozenset(), {}
        ahead = work.ahead.popleft()
        states = None if ahead.answer is None else ahead.answer()
        if states is None:
            return frozenset(), {}
        return ahead.users, {user_id: state for user_id, state in states.items() if user_id in ahead.users}

    def _due_told(self, work: OwnedTask, needs: Needs) -> LoadedUsers | None:
        """Who is due, where that was asked for ahead."""
        if needs.due_before_ms is None or work.due_prefetched is None:
            return None
        answer, work.due_prefetched = work.due_prefetched, None
        return answer()

    def _bytes_max(self, chunk: Chunk | None) -> int | None:
        """How many bytes of users are read for a chunk; a single record is taken whoever it concerns."""
        return self._rules.commit_bytes_max if chunk is not None and len(chunk.records) > 1 else None

    def _share_bytes(self, work: OwnedTask, chunk: Chunk, users: int) -> int | None:
        """How many of those bytes so many more users may have, if all who were asked for ahead share them alike."""
        bytes_max = self._bytes_max(chunk)
        if bytes_max is None:
            return None
        return bytes_max * users // (users + sum(len(ahead.users) for ahead in work.ahead if ahead.answer is not None))


def with_due(store: Store, task: int, loaded: LoadedUsers, at_hand: Container[str]) -> LoadedUsers:
    """What was loaded, and the states of those who are due and neither at hand nor loaded: most are at hand."""
    lacking = [user_id for user_id in loaded.due if user_id not in at_hand and user_id not in loaded.users]
    return replace(loaded, users={**loaded.users, **store.load(task, lacking).users}) if lacking else loaded


def _ending(work: OwnedTask) -> Set[str]:
    """The users whom the commit on its way ends: until it is written, the store tells of them."""
    return frozenset() if work.sent is None else work.sent.gone
