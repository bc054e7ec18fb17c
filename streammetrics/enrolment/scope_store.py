"""The sums of a task's experiments, by scope: which of them a commit writes and deletes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from streammetrics.enrolment.records import ScopeKey
from streammetrics.enrolment.runs import ExperimentRuns
from streammetrics.enrolment.scopes import WHOLE, decode_scope, encode_scope, parse_scope_name, scope_name
from streammetrics.events.event_time import DAY_MS

EXPERIMENTS: Final = "experiments"
"""The table of the sums of experiments, by scope."""


class ScopeStore:
    """What has changed of the scopes of all runs since the last commit."""

    __slots__ = ("_changed", "_gone")

    def __init__(self) -> None:
        self._changed: set[ScopeKey] = set()
        self._gone: set[ScopeKey] = set()

    def restore(self, runs: ExperimentRuns, scopes: Mapping[str, bytes]) -> None:
        """Give stored scopes, by name, to their runs."""
        for name, scope in scopes.items():
            number, day = parse_scope_name(name)
            runs.holder_of[number].scopes[day] = decode_scope(scope, day)

    def drop_all(self, scopes: Iterable[str]) -> None:
        """Delete all stored scopes."""
        self._gone.update(map(parse_scope_name, scopes))

    def note(self, scopes: Iterable[ScopeKey]) -> None:
        """Write these scopes with the next commit."""
        self._changed.update(scopes)

    def end_runs(self, runs: ExperimentRuns, bound: int) -> None:
        """Drop the runs that have ended, with their sums."""
        for run in runs.drop_ended(bound):
            scopes = {(holder.number, day) for holder in run.holders for day in holder.scopes}
            self._gone |= scopes
            self._changed -= scopes

    def changes(self, runs: ExperimentRuns, oldest_kept: int) -> tuple[dict[str, bytes], list[str]]:
        """Return the scopes that changed, and the names of those to delete: of ended runs, and of days before the oldest pane."""
        for holder in runs.holder_of.values():
            for day in [day for day in holder.scopes if day != WHOLE and (day + 1) * DAY_MS <= oldest_kept]:
                del holder.scopes[day]
                self._changed.discard((holder.number, day))
                self._gone.add((holder.number, day))
        scopes = {scope_name(number, day): encode_scope(runs.holder_of[number].scopes[day]) for number, day in self._changed}
        gone = sorted(scope_name(*scope) for scope in self._gone - self._changed)
        self._changed, self._gone = set(), set()
        return scopes, gone
