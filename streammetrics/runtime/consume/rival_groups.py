"""Notices that workers of another consumer group use the same namespace. The two groups would take each task from the other for ever.

The token of a claim ends with the consumer group of its worker, so a fenced worker learns which group took the task. A single case is a
changed `kafka.group_id`: the workers of the former group stop, and it does not happen again.
"""

from __future__ import annotations

from collections import deque
from typing import Final

TIMES_MIN: Final = 2
"""Tasks taken by another group within RECENT_SECONDS, before it is a conflict."""
RECENT_SECONDS: Final = 120.0


def new_claim_token(random_part: str, group_id: str) -> str:
    """Return the token of a claim.

    >>> new_claim_token("c0ffee", "ranking"), group_of_token("c0ffee:ranking"), group_of_token("c0ffee")
    ('c0ffee:ranking', 'ranking', None)
    """
    return f"{random_part}:{group_id}" if group_id else random_part


def group_of_token(token: str | None) -> str | None:
    """Return the consumer group of a claim. None if the task has no claim, or its worker has no group."""
    _, separator, group = (token or "").partition(":")
    return group if separator else None


class RivalGroups:
    """The other consumer groups that have taken tasks from this worker lately. `group_id` is this worker's own group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self._taken: deque[tuple[float, str]] = deque()

    def task_taken(self, owner_token: str | None, now_seconds: float) -> str | None:
        """Note who owns a task that was taken from this worker. Returns the group if it is another one."""
        group = group_of_token(owner_token)
        if group is None or group == self.group_id:
            return None
        self._taken.append((now_seconds, group))
        return group

    def conflict(self, now_seconds: float) -> str:
        """Return what is wrong and what to do, or an empty string.

        >>> rivals = RivalGroups("one")
        >>> [rivals.task_taken(token, 0) for token in ("a:one", "b", "c:two", "d:two")]
        [None, None, 'two', 'two']
        >>> rivals.conflict(0)[:66], rivals.conflict(1 + RECENT_SECONDS)
        ("consumer groups 'one' and 'two' use the same redis.namespace, and ", '')
        """
        while self._taken and now_seconds - self._taken[0][0] > RECENT_SECONDS:
            self._taken.popleft()
        if len(self._taken) < TIMES_MIN:
            return ""
        other = self._taken[-1][1]
        return (
            f"consumer groups {self.group_id!r} and {other!r} use the same redis.namespace, and take each task from the other; "
            "give all workers of a namespace the same kafka.group_id, or one of the groups another redis.namespace"
        )
