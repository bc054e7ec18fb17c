"""The rules by which experiments are reported. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streammetrics.experiments import Measures, Policy, StoredSums


@dataclass(frozen=True, slots=True)
class ReportRules:
    """How experiments are reported: the measures of users, the policy of each experiment, and the times of its rules.

    credit_actions: the action from which on an item counts, for each level of the credit of interleaved lists.
    segments: those of windows.
    """

    measures: Measures
    policy: Callable[[str], Policy]
    idle_ms: int
    patience_ms: int = 0
    credit_actions: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()

    def deciding(self, experiment: str) -> Sequence[str]:
        """Return the names of an experiment's deciding measures."""
        return self.policy(experiment).deciding(self.measures).paging

    def measures_of(self, stored: StoredSums) -> Measures:
        """Return the layout of an experiment's moments. Their number shows whether they have covariates."""
        wide = self.measures.with_covariates
        return wide if any(len(moments) == wide.moments_width for moments in stored.moments.values()) else self.measures
