"""What the users of a task weigh: bytes of their stored state, so that commits and the memory of users have a bound in bytes too.

Pure. Only users that are large are noted, so that this costs nothing while nobody is; all others are bounded by their number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

LARGE_BYTES = 4_096
"""From so many bytes of stored state on, a user is weighed. A usual one has less than a thousand."""


@dataclass(slots=True)
class UserSizes:
    """The large users of a task, the one that was read or written longest ago first, and the bytes taken since the last commit."""

    large: dict[str, int] = field(default_factory=dict)
    total_bytes: int = 0
    """Of all large users together."""
    taken_bytes: int = 0

    def note(self, stored: Mapping[str, bytes]) -> None:
        """Learn of states that were read or are about to be written.

        >>> weights = UserSizes()
        >>> weights.note({"u1": bytes(5_000), "u2": bytes(50)}), weights.note({"u2": bytes(9_000), "u1": bytes(6_000)}), weights.large
        (None, None, {'u2': 9000, 'u1': 6000})
        """
        for user_id, state in stored.items():
            if user_id in self.large:
                self.total_bytes -= self.large.pop(user_id)
            if len(state) >= LARGE_BYTES:
                self.large[user_id] = len(state)
                self.total_bytes += len(state)

    def saved(self, stored: Mapping[str, bytes], gone: Collection[str]) -> None:
        """A commit is on its way: what it writes, and of whom nothing is left. What was taken is in it."""
        self.taken_bytes = 0
        self.note(stored)
        for user_id in gone if self.large else ():
            self.total_bytes -= self.large.pop(user_id, 0)

    def of(self, users: Collection[str]) -> int:
        """How many bytes of state a commit of these users would write again, as far as they are large."""
        if not self.large:
            return 0
        if len(users) < len(self.large):
            return sum(self.large.get(user_id, 0) for user_id in users)
        return sum(weight for user_id, weight in self.large.items() if user_id in users)

    def beyond(self, at_hand: Collection[str], bytes_max: int) -> Iterator[str]:
        """The large users among those at hand that must be let go for the rest to weigh no more than a bound, oldest first."""
        held = [(user_id, weight) for user_id, weight in self.large.items() if user_id in at_hand]
        excess = sum(weight for _, weight in held) - bytes_max
        for user_id, weight in held:
            if excess <= 0:
                return
            excess -= weight
            yield user_id
