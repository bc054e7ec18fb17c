"""The rules of a join: the gap of a session, the attribution time, and the limits. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FRAGMENT_ITEMS_FACTOR: Final = 10
"""All fragments of a list may have this many times `items_max` items, repeated ones included. It bounds the work per fragment."""


@dataclass(frozen=True, slots=True)
class EngagementRules:
    """What engagement metrics need to know of a list beyond its grades.

    `purchases` are the actions that are purchases. A list is followed up if the next list of its session comes within
    `reformulation_ms`, inclusive. This is at most the attribution time, so that it does not change once the list is final.
    """

    purchases: frozenset[str] = frozenset({"purchase"})
    reformulation_ms: int = 60_000

    def describe(self) -> str:
        """Return every rule, to be added to those of the join."""
        return f" purchases{sorted(self.purchases)} reformulation={self.reformulation_ms}"


@dataclass(frozen=True, slots=True)
class ExposureRules:
    """How exposures give lists their variants.

    A list has the variants of exposures at most `validity_ms` older, inclusive. `kept_max` limits the exposures that are kept of one user,
    and `experiments_max` the experiments of one list.
    """

    validity_ms: int = 86_400_000
    kept_max: int = 1_000
    experiments_max: int = 16

    def describe(self) -> str:
        """Return every rule, to be added to those of the join."""
        return f" exposures[validity={self.validity_ms} kept={self.kept_max} experiments={self.experiments_max}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRules:
    """The rules of a join. `gap_ms` and `attribution_ms` are inclusive. Events beyond a limit are refused, never cut.

    `engagement`: None if no engagement metric is computed. Lists then have no engagement.
    `exposures`: None if lists have only the variants that they were sent with.
    `absolute_positions`: the position of an item, from 0, is its place. Lists then have an empty text at each place without an item.
    `joined_whole_max`: a session of so many events is joined as a whole each time. A longer one keeps what was joined. No result depends
    on it.
    """

    gap_ms: int = 1_800_000
    attribution_ms: int = 1_800_000
    session_events_max: int = 2_000
    lists_open_max: int = 1_000
    items_max: int = 1_000
    engagement: EngagementRules | None = None
    exposures: ExposureRules | None = None
    absolute_positions: bool = False
    joined_whole_max: int = 60

    def describe(self) -> str:
        """Return one line with every rule, to be added to those of the engine."""
        more = "".join([part.describe() for part in (self.engagement, self.exposures) if part is not None])
        return (
            f"gap={self.gap_ms} attribution={self.attribution_ms} session_events={self.session_events_max} "
            f"lists_open={self.lists_open_max} items={self.items_max}{more}"
        )
