"""Counts users by the variant of their first exposure, for the check of the split. Pure.

A user counts in the whole run, and on each day, by the first exposure there. Exposures are counted in order of time, once no earlier one
can be admitted any more. So users who never saw a list are in the split, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streammetrics.enrolment.records import ScopeKey
from streammetrics.enrolment.runs import ExperimentRun
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.enrolment.targets import ListTargets
from streammetrics.events.event_time import DAY_MS
from streammetrics.sessions.exposures import FinalExposure
from streammetrics.words.times import HOUR_MS


class ExposureSplit:
    """The exposures of one commit."""

    def __init__(self, targets: ListTargets) -> None:
        self._targets = targets
        self._new: Counter[tuple[ScopeKey, str, int]] = Counter()
        """New users by scope, variant and hour."""

    def restored(self, stored: Iterable[ScopeKey]) -> set[ScopeKey]:
        """Return the scopes in which a user is counted already, except those that no longer matter."""
        return {scope for scope in stored if self._targets.is_open(scope)}

    def add(self, counted: set[ScopeKey], exposures: Iterable[FinalExposure]) -> None:
        """Count a user's exposures, which are in order, in the scopes where the user is not counted yet."""
        for ts, experiment, variant in exposures:
            run, day = self._run_at(experiment, ts), ts // DAY_MS
            for scope in () if run is None else (WHOLE, day) if day >= self._targets.day_from else (WHOLE,):
                assert run is not None
                key = run.number, scope
                if key not in counted:
                    counted.add(key)
                    run.scope(scope)
                    self._new[key, variant, ts // HOUR_MS] += 1

    def sum(self) -> set[ScopeKey]:
        """Add the new users to their scopes. Returns the scopes that changed."""
        changed = set[ScopeKey]()
        for ((number, day), variant, hour), users in self._new.items():
            exposed = self._targets.runs.of_number[number].scope(day).row_of(hour).exposed
            exposed[variant] = exposed.get(variant, 0) + users
            changed.add((number, day))
        for number, day in changed:
            self._targets.runs.of_number[number].scope(day).bound()
        return changed

    def _run_at(self, experiment: str, ts: int) -> ExperimentRun | None:
        """Return the run of an exposure. None if it counts nowhere."""
        targets = self._targets
        run = targets.runs.at(experiment, ts)
        if run is None or not targets.rules.span(experiment).holds(ts) or ts < targets.counted_from:
            return None
        if not run.scopes:
            run.earlier = targets.rules.before(run.experiment, run.first)
        return run
