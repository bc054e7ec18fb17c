"""The stored integers of one experiment in one scope. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streammetrics.experiments.health import NO_FEEDBACK, Joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The stored integers of one experiment in one scope, merged over tasks.

    moments: by variant, of users that saw only this variant.
    first_exposures: all users, by the variant of their first final list.
    multi_exposed_users: users that saw several variants.
    joined: see `health.health`.
    credits: moments of the credit of a pair's second team against the first, of users that saw only the interleaved variant.
    known_from_ms: see `ExperimentReport`.
    variants_since_ms: event time at which each variant first appeared, or an earlier one.
    from_ms, to_ms: the event time that the scope covers so far.
    """

    experiment: str
    scope: str
    moments: Mapping[str, Sequence[int]]
    first_exposures: Mapping[str, int]
    multi_exposed_users: int
    joined: Joined = NO_FEEDBACK
    credits: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    known_from_ms: int | None = None
    variants_since_ms: Mapping[str, int] = field(default_factory=dict)
    from_ms: int = 0
    to_ms: int = 0

    def missed_share(self, variant: str) -> float:
        """Return the share of the scope's time that had passed when a variant first appeared; 0 if that is unknown."""
        missed = self.variants_since_ms.get(variant, self.from_ms) - self.from_ms
        return min(1.0, missed / (self.to_ms - self.from_ms)) if missed > 0 and self.from_ms < self.to_ms else 0.0
