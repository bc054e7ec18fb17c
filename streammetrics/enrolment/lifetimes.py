"""How long a user's record matters: until all of its runs and covariate periods may be over. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from streammetrics.enrolment.records import ScopeKey, ScopeSet
from streammetrics.enrolment.rules import CovariatePeriod, ExperimentRules
from streammetrics.enrolment.runs import ExperimentRun


class RecordLifetimes:
    """When (ms) a user's parts in runs and covariate periods may no longer matter. `wait_ms`: how long a list waits, and one pane."""

    def __init__(self, runs: Iterable[ExperimentRun], rules: ExperimentRules, wait_ms: int) -> None:
        self._of_runs: dict[int, int] = {}
        self._of_periods = {period: _period_until(period, rules, wait_ms) for period in rules.earlier}
        self._of_sets: dict[ScopeSet, int] = {}
        for run in runs:
            until = _run_until(run, rules, wait_ms)
            self._of_runs.update(dict.fromkeys([holder.number for holder in run.holders], until))
            if run.earlier is not None:
                self._of_periods[run.earlier] = until

    def until(self, sets: Iterable[ScopeSet], periods: Iterable[CovariatePeriod], exposed: Iterable[ScopeKey] = ()) -> int | None:
        """Return when the first of a user's parts may no longer matter. None if there is no part."""
        ends = [self._until_of_set(scopes) for scopes in sets]
        ends += [self._of_runs[run] for run, _ in exposed]
        ends += [self._of_periods[period] for period in periods]
        return min(ends, default=None)

    def _until_of_set(self, scopes: ScopeSet) -> int:
        until = self._of_sets.get(scopes)
        if until is None:
            until = self._of_sets[scopes] = min([self._of_runs[run] for run, _ in scopes.variants])
        return until


def _run_until(run: ExperimentRun, rules: ExperimentRules, wait_ms: int) -> int:
    """When (ms) a run may be over."""
    last, end = run.last + rules.idle_ms, rules.span(run.experiment).end_ms
    return last if end is None else min(last, end + 2 * wait_ms)


def _period_until(earlier: CovariatePeriod, rules: ExperimentRules, wait_ms: int) -> int:
    """When (ms) the experiment that follows a covariate period should have begun, or is over."""
    last, end = earlier.start_ms + rules.idle_ms, rules.span(earlier.experiment).end_ms
    return (last if end is None else min(last, end)) + 2 * wait_ms
