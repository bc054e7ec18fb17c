"""Exposures: which variants a list gets from its user's exposures, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streammetrics.events.model import Exposure
from tests.oracle.join import List
from tests.oracle.values import Admitted, Settings


def exposure_outcomes(exposures: Sequence[Admitted], settings: Settings) -> dict[int, str]:
    """Return the outcome of each exposure by number. Of equal ones, the one on the first input counts, then the one that came first."""
    outcomes: dict[int, str] = {}
    seen: set[object] = set()
    for one in sorted(exposures, key=lambda one: (settings.inputs.index(one.input), one.number)):
        outcomes[one.number] = "duplicate" if one.event in seen else "exposure"
        seen.add(one.event)
    return outcomes


def labelled(impression: List, user: str, exposures: Sequence[Admitted], settings: Settings, closed_before: float) -> List:
    """Return a list with its variants. It has none from exposures while one at or before it may still be admitted."""
    if settings.validity_ms is None or impression.ts >= closed_before:
        return impression
    exposures_of_user = [one.event for one in exposures if isinstance(one.event, Exposure) and one.event.user_id == user]
    variants = dict(impression.experiments)
    for name in {exposure.experiment for exposure in exposures_of_user} - variants.keys():
        in_time = [
            exposure
            for exposure in exposures_of_user
            if exposure.experiment == name and impression.ts - settings.validity_ms <= exposure.ts <= impression.ts
        ]
        if in_time:
            variants[name] = min(in_time, key=lambda exposure: (-exposure.ts, exposure.variant)).variant
    return replace(impression, experiments=tuple(sorted(variants.items())))
