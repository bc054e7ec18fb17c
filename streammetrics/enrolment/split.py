"""Counts users by the variant of their first exposure, for the check of the split. Pure.

A user counts in the whole run, and on each day, by the first exposure there. Exposures are counted in order of time, once no earlier one
can be admitted any more. So users who never saw a list are in the split, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streammetrics.enrolment.records import ScopeKey
from streammetrics.enrolment.runs import PartName, ScopeHolder
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.enrolment.targets import ExposureTargets
from streammetrics.events.event_time import DAY_MS
from streammetrics.experiments.arrivals import HOUR_MS
from streammetrics.sessions.exposures import FinalExposure


class ExposureSplit:
    """The exposures of one commit."""

    def __init__(self, targets: ExposureTargets) -> None:
        self._targets = targets
        self._new: dict[tuple[ScopeHolder, int, str], Counter[int]] = {}
        """New users by part, day and variant, and then by hour."""

    def restored(self, stored: Iterable[ScopeKey]) -> set[ScopeKey]:
        """Return the scopes in which a user is counted already, except those that no longer matter."""
        return {scope for scope in stored if self._targets.is_open(scope)}

    def add(self, counted: set[ScopeKey], exposures: Iterable[FinalExposure]) -> None:
        """Count a user's exposures, which are in order, in the scopes where the user is not counted yet."""
        for ts, experiment, variant in exposures:
            part = self._part_at(experiment, ts, counted)
            day = ts // DAY_MS
            for each in () if part is None else (WHOLE, day) if day >= self._targets.day_from else (WHOLE,):
                assert part is not None
                key = part.number, each
                if key not in counted:
                    counted.add(key)
                    self._new.setdefault((part, each, variant), Counter())[ts // HOUR_MS] += 1

    def sum(self) -> set[ScopeKey]:
        """Add the new users to their scopes. Returns the scopes that changed."""
        for (part, day, variant), hours in self._new.items():
            scope = part.scope(day)
            scope.exposed = scope.exposed.and_more(variant, hours)
        return {(part.number, day) for part, day, _ in self._new}

    def _part_at(self, experiment: str, ts: int, counted: Iterable[ScopeKey]) -> ScopeHolder | None:
        """Return the run of an exposure, or its part. None if it counts nowhere: stages by label and lists have no exposures.

        A user comes in the stage of their first exposure.
        """
        targets = self._targets
        run, plan = targets.runs.at(experiment, ts), targets.rules.plans.get(experiment)
        if run is None or not targets.rules.span(experiment).holds(ts) or ts < targets.counted_from:
            return None
        stage = None if plan is None else plan.at(ts, ())
        if plan is not None and (plan.by_list or plan.label is not None or stage is None or stage.key is None):
            return None
        if not run.scopes:
            run.earlier = targets.rules.before(run.experiment, run.first)
        if stage is None or stage.key is None:
            return run
        holders = [targets.runs.holder_of[number] for number, day in counted if day == WHOLE]
        entry = next((holder.name.entry for holder in holders if holder.run is run), stage.key)
        return targets.runs.part(run, PartName(entry, stage.key))
