"""Sums of an experiment's scopes over tasks. A scope is what a task stores of one experiment: since its start, or for one day. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from streammetrics.enrolment.scopes import DecodedRow, Scope, decode_row, parse_row_name, scopes_of_rows
from streammetrics.experiments import Measures
from streammetrics.experiments.hours import EntrySums, HourRow, Hours, MergedRows, merge_entries, merge_hours
from streammetrics.windows.tally_deltas import add_tallies

TaskScopes: TypeAlias = Mapping[tuple[str, int], Scope]
"""What one task stores of its experiments, by experiment and day."""


KeyT = TypeVar("KeyT")


class ScopeReader:
    """Reads the stored scopes of one task. A row that has not changed is not decoded again, and is the same object."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[bytes, DecodedRow]] = {}

    def read(self, names: Mapping[int, str], stored: Mapping[str, bytes]) -> TaskScopes:
        """Return the scopes of these runs. `names`: run number -> experiment."""
        rows: dict[str, tuple[bytes, DecodedRow]] = {}
        parts = {key: name for key in stored if (name := parse_row_name(key)).run in names}
        for key, name in parts.items():
            row_before = self._rows.get(key)
            rows[key] = (
                row_before if row_before is not None and row_before[0] == stored[key] else (stored[key], decode_row(name.part, stored[key]))
            )
        self._rows = rows
        scopes = scopes_of_rows((parts[key], row) for key, (_, row) in rows.items())
        return {(names[run], day): scope for run, day, scope in scopes}


def sum_scopes(scopes: Iterable[Scope], with_covariates: Measures | None, merged: MergedRows | None = None) -> Scope:
    """Sum the scopes of several tasks, which do not change.

    If some tasks have covariates and others do not, covariates are dropped. `with_covariates` is the layout with covariates. merged: see
    `hours.merge_hours`.
    """
    scopes = list(scopes)
    if len({len(sums) for scope in scopes for sums in scope.moments.sums.values()}) > 1:
        assert with_covariates is not None
        scopes, merged = [_without_covariates(scope, with_covariates) for scope in scopes], None
    total = Scope()
    total.hours = merge_hours((scope.hours for scope in scopes), merged)
    total.moments = merge_entries(scope.moments for scope in scopes)
    total.users = merge_entries(scope.users for scope in scopes)
    total.fold_strata()
    total.reacting, total.reactions = _summed(scope.reacting for scope in scopes), _summed(scope.reactions for scope in scopes)
    total.credits, total.pairs = _summed(scope.credits for scope in scopes), _summed(scope.pairs for scope in scopes)
    return total


def _summed(tables: Iterable[Mapping[KeyT, list[int]]]) -> dict[KeyT, list[int]]:
    merged: dict[KeyT, list[int]] = {}
    for table in tables:
        for key, sums in table.items():
            merged[key] = add_tallies(merged[key], sums) if key in merged else sums
    return merged


def _without_covariates(scope: Scope, with_covariates: Measures) -> Scope:
    """Return a scope without covariates."""
    plain = Scope()
    for name in ("credits", "pairs", "reacting", "reactions", "users"):
        setattr(plain, name, getattr(scope, name))
    plain.moments = EntrySums(scope.moments.hours)
    for key, moments in scope.moments.sums.items():
        is_wide = len(moments) == with_covariates.moments_width
        plain.moments.sums[key] = with_covariates.without_covariates(moments) if is_wide else moments
    plain.hours = Hours(scope.hours.length)
    for block, row in scope.hours.rows.items():
        narrow = plain.hours.rows[block] = HourRow()
        narrow.totals = {key: totals[: with_covariates.totals_width] for key, totals in row.totals.items()}
        narrow.new_users, narrow.exposed, narrow.values, narrow.moves = row.new_users, row.exposed, row.values, row.moves
    return plain
