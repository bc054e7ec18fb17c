"""When the lists of open sessions are enrolled: a user's lists of one turn together, once all of them are final.

A turn is as many panes as patience allows, and at least one. So a list of a long session waits at most that long after it is final, and
a user's record is rarely written. The turns of different users begin at different panes, so that not all users are due at once.
"""

from __future__ import annotations

from zlib import crc32


class EnrolmentTurns:
    """Turns of all users. Times are in milliseconds.

    >>> turns = EnrolmentTurns(pane_ms=10, patience_ms=30, attribution_ms=60)
    >>> [turns.end_of("u", ts) for ts in (0, 9, 10, 39, 40)], turns.ended("u", 39)
    ([30, 30, 30, 60, 60], 30)
    """

    __slots__ = ("_attribution_ms", "_pane_ms", "_panes")

    def __init__(self, *, pane_ms: int, patience_ms: int, attribution_ms: int) -> None:
        self._pane_ms, self._attribution_ms = pane_ms, attribution_ms
        self._panes = max(1, patience_ms // pane_ms)

    def end_of(self, user_id: str, ts: int) -> int:
        """Return the end of the turn that holds a time."""
        return self.ended(user_id, ts) + self._panes * self._pane_ms

    def ended(self, user_id: str, ts: int) -> int:
        """Return the end of the last turn that ends at or before a time."""
        shift = crc32(user_id.encode()) % self._panes
        return ((ts // self._pane_ms + shift) // self._panes * self._panes - shift) * self._pane_ms

    def final(self, user_id: str, bound: int) -> int:
        """Return the end of the last turn whose lists are all final. No event before `bound` is admitted any more."""
        return self.ended(user_id, bound - self._attribution_ms)

    def due(self, user_id: str, ts: int) -> int:
        """Return when a user is due because of a list at `ts`: the turn is final for every later bound."""
        return self.end_of(user_id, ts) + self._attribution_ms - 1
