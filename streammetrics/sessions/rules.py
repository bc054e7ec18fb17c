"""The rules of a join: the gap of a session, the attribution time, and the limits. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FRAGMENT_ITEMS_FACTOR: Final = 10
"""All fragments of a list may have this many times `items_max` items, repeated ones included. It bounds the work per fragment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRules:
    """The rules of a join. `gap_ms` and `attribution_ms` are inclusive. Events beyond a limit are refused, never cut."""

    gap_ms: int = 1_800_000
    attribution_ms: int = 1_800_000
    session_events_max: int = 2_000
    lists_open_max: int = 1_000
    items_max: int = 1_000
