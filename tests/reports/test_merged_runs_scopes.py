"""Sums of scopes over tasks of which only some have covariates."""

from __future__ import annotations

from streammetrics.enrolment.scopes import Scope
from streammetrics.experiments import Measures
from streammetrics.experiments.hours import Entry, HourRow
from streammetrics.metrics import Scorer
from streammetrics.reports.merged_runs import sum_scopes
from streammetrics.statistics.moments import of_users

PLAIN = Measures(Scorer(["mrr@10"]).columns)
WIDE = PLAIN.with_covariates
NEW = Entry(1, 7)


def scope_of(measures: Measures) -> Scope:
    """Return what a task stores of one user with two lists. With covariates, rows of hours have two columns more for each measure."""
    scope = Scope()
    scope.moments.add("new", NEW, of_users(measures, [[2, 3]], *([[[5]]] if measures.covariates else [])))
    row = scope.hours.row(7)
    row.add_totals("new", NEW, [2, 3, *((2, 5) if measures.covariates else ())])
    row.new_users["new"], row.exposed["new"], row.moves["old", "new"] = 1, 1, 1
    row.add_value(("country", "US", ""), "new", 1)
    return scope


def facts(row: HourRow) -> list[object]:
    return [row.totals, row.new_users, row.exposed, row.values, row.moves]


def test_rows_of_hours_lose_their_covariates_and_nothing_else_when_some_tasks_have_none() -> None:
    mixed, plain = (sum_scopes([scope_of(measures), scope_of(PLAIN)], WIDE) for measures in (WIDE, PLAIN))
    assert facts(mixed.hours.rows[7]) == facts(plain.hours.rows[7])
    assert mixed.hours.rows[7].totals == {("new", NEW): [4, 6]}
    assert mixed.moments.sums == plain.moments.sums
