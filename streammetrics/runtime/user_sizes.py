"""Sizes of the large users of a task: bytes of their stored state. They bound commits and the cache in bytes as well. Pure.

Only large users are recorded, so this costs nothing while all users are small. Limits on the number of users cover those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from streammetrics.state.tables import StatePiece

LARGE_BYTES = 4_096
"""A user with at least this many bytes of stored state is large. A typical user has less than a thousand."""


@dataclass(slots=True)
class UserSizes:
    """The large users of a task, least recently read or written first, and the bytes taken since the last commit."""

    large: dict[str, int] = field(default_factory=dict)
    total_bytes: int = 0
    """Of all large users together."""
    taken_bytes: int = 0

    def observe(self, stored: Mapping[str, bytes]) -> None:
        """Record the sizes of states that were read, or are about to be written.

        >>> sizes = UserSizes()
        >>> sizes.observe({"u1": bytes(5_000), "u2": bytes(50)}), sizes.observe({"u2": bytes(9_000), "u1": bytes(6_000)}), sizes.large
        (None, None, {'u2': 9000, 'u1': 6000})
        """
        for user_id, state in stored.items():
            self._note(user_id, len(state))

    def _note(self, user_id: str, size: int) -> None:
        if user_id in self.large:
            self.total_bytes -= self.large.pop(user_id)
        if size >= LARGE_BYTES:
            self.large[user_id] = size
            self.total_bytes += size

    def commit_made(self, stored: Mapping[str, bytes], pieces: Mapping[str, StatePiece], gone: Collection[str]) -> None:
        """Record what a commit writes or appends, and which users it deletes. The next commit begins empty."""
        self.taken_bytes = 0
        self.observe(stored)
        for user_id, piece in pieces.items():
            self._note(user_id, piece.state_bytes)
        self.forget(gone)

    def forget(self, gone: Collection[str]) -> None:
        """Forget users that a commit deletes."""
        for user_id in gone if self.large else ():
            self.total_bytes -= self.large.pop(user_id, 0)

    def bytes_of(self, users: Collection[str]) -> int:
        """Return the bytes of state of the large users among these."""
        if not self.large:
            return 0
        if len(users) < len(self.large):
            return sum(self.large.get(user_id, 0) for user_id in users)
        return sum(size for user_id, size in self.large.items() if user_id in users)

    def beyond(self, cached: Collection[str], bytes_max: int) -> Iterator[str]:
        """Return the cached large users to evict, oldest first, so that the others have at most `bytes_max` bytes."""
        held = [(user_id, size) for user_id, size in self.large.items() if user_id in cached]
        excess = sum(size for _, size in held) - bytes_max
        for user_id, size in held:
            if excess <= 0:
                return
            excess -= size
            yield user_id
