"""Reads the users that steps need. Users of later chunks are requested while an earlier chunk is processed.

A prefetched state is used only if nothing can have changed it since: not for users that a commit has written in the
meantime, and not for users that the commit in flight deletes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Set
from dataclasses import replace

from streammetrics.connectors.store import Store
from streammetrics.engine.engine import Needs
from streammetrics.runtime.consume.backlog import Chunk, PrefetchedChunk
from streammetrics.runtime.consume.owned_task import OwnedTask
from streammetrics.state.tables import LoadedUsers


class Prefetch:
    """Reads users for all tasks of a worker."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, task: OwnedTask, chunk: Chunk | None, needs: Needs) -> LoadedUsers:
        """Return what a step needs, up to the bytes that a commit may have. Users beyond that are in `unread`."""
        prefetched, states = self._prefetched(task, chunk)
        due = self._prefetched_due(task, needs)
        due_before_ms = needs.due_before_ms if due is None else None
        missing = needs.users - task.commits.users_gone - prefetched
        loaded = LoadedUsers({})
        if missing or needs.totals or due_before_ms is not None:
            loaded = self._store.load(
                task.number, missing, task.room.due_query(due_before_ms), needs.totals, task.room.readable_bytes(chunk)
            )
        if due is not None:
            totals = {**due.totals, **loaded.totals}
            loaded = replace(loaded, due=due.due, next_due_ms=due.next_due_ms, totals=totals)
        cached = () if task.state is None else task.state.sessions.users
        return with_due(self._store, task.number, replace(loaded, users={**states, **loaded.users}), cached)

    def prefetch(self, task: OwnedTask, chunk: Chunk, needs: Needs) -> None:
        """Request the users of a later chunk that are neither cached nor requested with an earlier chunk."""
        waiting = task.backlog.prefetched
        users = frozenset(needs.users).difference(task.commits.users_gone, *(loading.users for loading in waiting))
        reply = self._store.request(task.number, users, self._share_bytes(task, chunk, len(users))) if users else None
        waiting.append(PrefetchedChunk(chunk, users, reply))

    def request_due(self, task: OwnedTask, needs: Needs) -> bool:
        """Request the due users for the next step.

        Returns False if none are needed, if they are requested already, or if the store cannot be asked this way.
        """
        query = task.room.due_query(needs.due_before_ms)
        if query is None or task.backlog.due is not None:
            return False
        task.backlog.due = self._store.request_due(task.number, query)
        return task.backlog.due is not None

    def forget_written(self, task: OwnedTask, users: Set[str]) -> None:
        """Drop prefetched states of users that a new commit writes or deletes: they are out of date."""
        waiting = task.backlog.prefetched
        for index, loading in enumerate(waiting):
            if not loading.users.isdisjoint(users):
                waiting[index] = loading._replace(users=loading.users - users)

    def _prefetched(self, task: OwnedTask, chunk: Chunk | None) -> tuple[Set[str], Mapping[str, bytes]]:
        """Return the users of a chunk that were requested early, and their states where they have one."""
        waiting = task.backlog.prefetched
        if not waiting or waiting[0].chunk is not chunk:
            return frozenset(), {}
        first = waiting.popleft()
        states = None if first.reply is None else first.reply()
        if states is None:
            return frozenset(), {}
        return first.users, {user_id: state for user_id, state in states.items() if user_id in first.users}

    def _prefetched_due(self, task: OwnedTask, needs: Needs) -> LoadedUsers | None:
        """Return the due users if they were requested early and are needed now."""
        if needs.due_before_ms is None or task.backlog.due is None:
            return None
        reply, task.backlog.due = task.backlog.due, None
        return reply()

    def _share_bytes(self, task: OwnedTask, chunk: Chunk, users: int) -> int | None:
        """Return the share of the readable bytes for this many more users, if all prefetched users get the same share."""
        bytes_max = task.room.readable_bytes(chunk)
        if bytes_max is None:
            return None
        return bytes_max * users // (users + sum(len(loading.users) for loading in task.backlog.prefetched if loading.reply is not None))


def with_due(store: Store, task: int, loaded: LoadedUsers, cached: Container[str]) -> LoadedUsers:
    """Add the states of due users that are neither cached nor loaded. Most of them are cached."""
    missing = [user_id for user_id in loaded.due if user_id not in cached and user_id not in loaded.users]
    return replace(loaded, users={**loaded.users, **store.load(task, missing).users}) if missing else loaded
