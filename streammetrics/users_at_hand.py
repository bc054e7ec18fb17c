"""Users that steps need, from the store to a task: those of the next chunk are read while the one before it is taken.

Touches the store. What was read ahead counts only as far as nothing can have changed it: no commit has been made since, and the store was
not asked for whom the commit on its way ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from concurrent.futures import Executor

from streammetrics.engine import Needs
from streammetrics.ports import Loaded, Store
from streammetrics.work import Ahead, AtOnce, Chunk, Work, WorkerRules


class UsersAtHand:
    """Reads users; ahead by another thread, `reads`, or before it returns where there is none."""

    def __init__(self, store: Store, rules: WorkerRules, reads: Executor | None = None) -> None:
        self._store, self._rules = store, rules
        self._reads = reads or AtOnce()

    def read(self, work: Work, chunk: Chunk | None, needs: Needs) -> Loaded:
        """What a step needs, as far as the bytes of a commit allow: the rest of the users named is `unread`."""
        found: Mapping[str, bytes] = {}
        asked = needs.users - _ending(work)
        if work.ahead is not None and work.ahead.chunk is chunk:
            ahead, work.ahead = work.ahead, None
            if ahead.answer is not None and asked:
                loaded = ahead.answer.result()
                found, asked = loaded.users, asked - ahead.users.difference(loaded.unread)
        if not (asked or needs.totals or needs.due_before_ms is not None):
            return Loaded(found)
        due_wanted = self._rules.due_wanted(needs.due_before_ms, work.users_max)
        loaded = self._store.load(work.task, asked, due_wanted, needs.totals, self._bytes_max(chunk))
        return Loaded({**found, **loaded.users}, loaded.due, loaded.next_due_ms, loaded.totals, loaded.unread)

    def read_ahead(self, work: Work, chunk: Chunk, needs: Needs) -> None:
        """Begin to read the users of a chunk that is taken later, of whom nothing is at hand now."""
        asked = needs.users - _ending(work)
        answer = self._reads.submit(self._store.load, work.task, asked, None, (), self._bytes_max(chunk)) if asked else None
        work.ahead = Ahead(chunk, frozenset(asked), answer)

    def _bytes_max(self, chunk: Chunk | None) -> int | None:
        """How many bytes of users are read for a chunk; a single record is taken whoever it concerns."""
        return self._rules.commit_bytes_max if chunk is not None and len(chunk.records) > 1 else None


def _ending(work: Work) -> Set[str]:
    """The users whom the commit on its way ends: until it is written, the store tells of them."""
    return frozenset() if work.sent is None else work.sent.gone
