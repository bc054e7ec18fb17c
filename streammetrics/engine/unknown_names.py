"""Counts names that a task does not use: actions without a grade, types of no event, null variants, why records are ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streammetrics.events.unknown_names import NAME_CHARS_MAX

NAMES_MAX: Final = 20
"""Names kept per kind and task: the first ones to arrive. All further ones are counted together under the empty name."""
OTHERS: Final = ""


class UnknownNames:
    """Number of events by kind (`action`, `type`, `null_variant` with the experiment, or `ignored` with the reason) and name.

    Which names are kept depends on the order of arrival. Their sum does not.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}

    def restore(self, stored: Iterable[tuple[str, str, int]]) -> None:
        """Continue from the last commit."""
        self._counts = {}
        for kind, name, count in stored:
            self._counts.setdefault(kind, {})[name] = count

    def stored(self) -> list[tuple[str, str, int]]:
        """Return what the next commit writes: kind, name or empty for all others, count."""
        return [(kind, name, count) for kind, names in sorted(self._counts.items()) for name, count in sorted(names.items())]

    def add(self, kind: str, name: str) -> None:
        """Count an event."""
        names = self._counts.setdefault(kind, {})
        name = name[:NAME_CHARS_MAX]
        if name not in names and len(names) - (OTHERS in names) >= NAMES_MAX:
            name = OTHERS
        names[name] = names.get(name, 0) + 1
